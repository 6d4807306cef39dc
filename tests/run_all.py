"""`make test`: lint, types, tests and notebooks, then the slowest tests and files and one closing line.

Debian's Chromium, for the tests in a browser, is installed first where that is allowed.

Tests of pages, launches and commands mostly wait, and tests with several workers half of the time, so three lanes run
side by side: those, these, and everything else; then notebooks, some at a time, in whichever lane is free. The first is
shown as it goes; of the others every step is shown once it has ended. Every step runs even if an earlier one failed,
so that one run shows everything there is to mend. The closing line counts tests; a failed lint or type check counts as
one failure each.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
SLOWEST = 10


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one step counted."""

    passed: int
    failed: int
    skipped: int = 0
    seconds: tuple[tuple[float, str], ...] = ()
    """How long each test took, set-up and tidying included, and its name."""

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            passed=self.passed + other.passed,
            failed=self.failed + other.failed,
            skipped=self.skipped + other.skipped,
            seconds=self.seconds + other.seconds,
        )

    def slowest(self, count: int = SLOWEST) -> list[str]:
        """Return a line for each of the slowest tests, the slowest first."""
        return [f"{seconds:7.1f} s  {name}" for seconds, name in sorted(self.seconds, reverse=True)[:count]]

    def slowest_files(self, count: int = SLOWEST) -> list[str]:
        """Return a line for each of the files whose tests took longest together, the slowest first."""
        files: Counter[str] = Counter()
        for seconds, name in self.seconds:
            files[name.split("::")[0]] += seconds
        return [f"{seconds:7.1f} s  {name}" for name, seconds in files.most_common(count)]


def read_junit(path: Path, *, exit_code: int) -> Outcome:
    """Counts and seconds of one pytest run; a run that broke off, or ran no test, has failed."""
    if not path.exists():
        return Outcome(passed=0, failed=1)
    root = ElementTree.parse(path).getroot()
    suites = list(root.iter("testsuite"))
    total = sum(int(suite.get("tests", 0)) for suite in suites)
    failed = sum(int(suite.get(key, 0)) for suite in suites for key in ("failures", "errors"))
    skipped = sum(int(suite.get("skipped", 0)) for suite in suites)
    if failed == 0 and (exit_code != 0 or total == skipped):
        failed = 1
    seconds = tuple(
        (float(case.get("time", 0)), f"{case.get('classname', '')}::{case.get('name', '')}")
        for case in root.iter("testcase")
    )
    return Outcome(passed=max(total - failed - skipped, 0), failed=failed, skipped=skipped, seconds=seconds)


def run_pytest(*arguments: str, out: IO[bytes] | None = None) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
        # One thread a process: threads that wait for one another spin, and lanes beside them starve.
        environment = {"OMP_NUM_THREADS": "1", **os.environ, "GNNQLAB_RUNS": str(Path(folder, "runs"))}
        done = subprocess.run(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment, stdout=out, stderr=out and subprocess.STDOUT
        )
        return read_junit(report, exit_code=done.returncode)


def run_check(*arguments: str, out: IO[bytes] | None = None) -> Outcome:
    """A tool without tests of its own: silent when it passes, one failure when it does not."""
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out and subprocess.STDOUT)
    return Outcome(passed=0, failed=int(done.returncode != 0))


def install_chromium() -> None:
    """Debian's Chromium for the tests in a browser, where this process may install it; they are skipped without."""
    if shutil.which("chromium"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print("no Chromium here, and it cannot be installed without root and apt-get: tests in a browser are skipped")
        return
    print("== installing Debian's chromium for the tests in a browser", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in ("apt-get -qq update", "apt-get -qq install -y --no-install-recommends chromium"):
        try:
            done = subprocess.run(
                command.split(), env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
            )
        except subprocess.TimeoutExpired:
            print(f"{command} took more than 300 s: tests in a browser are skipped", flush=True)
            return
        if done.returncode != 0:
            print(f"{command} failed: {done.stderr.strip()[-300:]}", flush=True)


WAITING = ("browser", "launch", "lab", "bench", "cli", "train")
"""Folders of tests that wait more than they compute."""
SEVERAL = ("exchange", "systems", "tune", "mutants")
"""Folders of tests whose workers wait for one another."""
Step = Callable[[IO[bytes] | None], Outcome]
"""Runs, with its output there, or on the screen."""
LANES: tuple[Mapping[str, Step], ...] = (
    {
        "lint": lambda out: run_check("ruff", "check", "--quiet", ".", out=out),
        "types": lambda out: run_check("mypy", out=out),
        "tests that wait": lambda out: run_pytest(*(f"tests/{name}" for name in WAITING), out=out),
    },
    {"tests of several workers": lambda out: run_pytest(*(f"tests/{name}" for name in SEVERAL), out=out)},
    {
        "other tests and docstrings": lambda out: run_pytest(
            *(f"--ignore=tests/{name}" for name in (*WAITING, *SEVERAL)), out=out
        )
    },
)
PARTS = 6
"""Parts that the notebooks are run in."""


def run_notebooks(part: int, out: IO[bytes] | None) -> Outcome:
    files = sorted(str(path) for path in (ROOT / "notebooks").glob("*.ipynb"))[part::PARTS]
    return run_pytest(
        "--nbval-lax", "--nbval-current-env", "--nbval-sanitize-with", "tests/notebooks/sanitize.cfg", *files, out=out
    )


AFTERWARDS: Mapping[str, Step] = {
    f"notebooks, part {part + 1} of {PARTS}": partial(run_notebooks, part) for part in range(PARTS)
}
"""What a lane goes on with when it has no step left."""


def run_lane(steps: Iterable[tuple[str, Step]], *, aside: bool) -> Outcome:
    """Run steps in turn; with ``aside`` each is shown when it has ended."""
    total = Outcome(passed=0, failed=0)
    for name, step in steps:
        start = time.monotonic()
        if aside:
            with tempfile.TemporaryFile() as out:
                outcome = step(out)
                out.seek(0)
                text = out.read().decode(errors="replace")
            print(f"\n== {name}, beside the others\n{text}", end="", flush=True)
        else:
            print(f"\n== {name}", flush=True)
            outcome = step(None)
        print(f"== {name}: {'failed' if outcome.failed else 'passed'} in {time.monotonic() - start:.0f} s", flush=True)
        total += outcome
    return total


def main() -> int:
    install_chromium()
    rest = iter(AFTERWARDS.items())  # of all lanes: each step is taken once
    with ThreadPoolExecutor(len(LANES)) as pool:
        steps = [itertools.chain(lane.items(), rest) for lane in LANES]
        running = [pool.submit(run_lane, lane, aside=number > 0) for number, lane in enumerate(steps)]
        total = sum((lane.result() for lane in running), Outcome(passed=0, failed=0))
    print(f"\n== the {SLOWEST} slowest of all", *total.slowest(), sep="\n")
    print(f"\n== the {SLOWEST} slowest files", *total.slowest_files(), sep="\n")
    print(f"\n{total.passed} passed, {total.failed} failed, {total.skipped} skipped", flush=True)
    return int(total.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
