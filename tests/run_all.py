"""`make test`: lint, types, tests and notebooks in turn, then one closing line over all of them.

Debian's Chromium, for the tests in a browser, is installed first where that is allowed.

Every step runs even if an earlier one failed, so that one run shows everything there is to mend. The
closing line counts tests; a failed lint or type check counts as one failure each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one step counted."""

    passed: int
    failed: int
    skipped: int = 0

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            passed=self.passed + other.passed,
            failed=self.failed + other.failed,
            skipped=self.skipped + other.skipped,
        )


def read_junit(path: Path, *, exit_code: int) -> Outcome:
    """Counts of one pytest run; a run that broke off, or ran no test, has failed."""
    if not path.exists():
        return Outcome(passed=0, failed=1)
    suites = list(ElementTree.parse(path).getroot().iter("testsuite"))
    total = sum(int(suite.get("tests", 0)) for suite in suites)
    failed = sum(int(suite.get(key, 0)) for suite in suites for key in ("failures", "errors"))
    skipped = sum(int(suite.get("skipped", 0)) for suite in suites)
    if failed == 0 and (exit_code != 0 or total == skipped):
        failed = 1
    return Outcome(passed=max(total - failed - skipped, 0), failed=failed, skipped=skipped)


def run_pytest(*arguments: str) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
        environment = {**os.environ, "GNNQLAB_RUNS": str(Path(folder, "runs"))}
        code = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment).returncode
        return read_junit(report, exit_code=code)


def run_check(*arguments: str) -> Outcome:
    """A tool without tests of its own: silent when it passes, one failure when it does not."""
    code = subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, stdin=subprocess.DEVNULL).returncode
    return Outcome(passed=0, failed=int(code != 0))


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


STEPS = {
    "lint": lambda: run_check("ruff", "check", "--quiet", "."),
    "types": lambda: run_check("mypy"),
    "tests and docstrings": lambda: run_pytest("--durations=10"),
    "notebooks": lambda: run_pytest(
        "--nbval-lax", "--nbval-current-env", "--nbval-sanitize-with", "tests/notebooks/sanitize.cfg", "notebooks"
    ),
}


def main() -> int:
    install_chromium()
    total = Outcome(passed=0, failed=0)
    for name, step in STEPS.items():
        print(f"\n== {name}", flush=True)
        start = time.monotonic()
        outcome = step()
        print(f"== {name}: {'failed' if outcome.failed else 'passed'} in {time.monotonic() - start:.0f} s", flush=True)
        total += outcome
    print(f"\n{total.passed} passed, {total.failed} failed, {total.skipped} skipped", flush=True)
    return int(total.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
