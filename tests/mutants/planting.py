"""Run named tests with planted faults, each in processes of its own, and report the noticed ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from gnnqlab.launch.guarded import STARTER
from tests.mutants.fault import ROOT, Fault, wrong_with
from tests.mutants.hook import sitecustomize
from tests.mutants.told import VARIABLE as TOLD
from tests.slow_down import HANG_S

__all__ = ["LIMIT_S", "Outcome", "failing", "plant", "plant_all"]

LIMIT_S = HANG_S
"""A test that takes longer hangs, even on a busy machine; on an idle one each takes seconds."""
HOOK = Path(sitecustomize.__file__).parent


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of one fault."""

    fault: Fault
    noticed: bool
    """True if its test failed by an assertion with the fault in place."""
    words: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.fault.name} ({self.fault.file}): {self.words}"


def plant(fault: Fault) -> Outcome:
    """Run the test of a fault once, with the fault in every process that it starts."""
    begun = time.monotonic()
    wrong = wrong_with(fault)
    if wrong:
        return Outcome(fault=fault, noticed=False, words=f"stale: {wrong}", seconds=0.0)
    with tempfile.TemporaryDirectory(prefix="gnnqlab-fault-") as folder:
        imported = Path(folder, "imported")
        planted = {
            "module": fault.module,
            "path": str(ROOT / fault.place),
            "before": fault.before,
            "after": fault.after,
            "told": str(imported),
        }
        path = os.pathsep.join(filter(None, (str(HOOK), os.environ.get("PYTHONPATH", ""))))
        more = {sitecustomize.VARIABLE: json.dumps(planted), "PYTHONPATH": path}
        lines, rest = _tests(Path(folder), [fault.test], more, limit_s=LIMIT_S)
        noticed, words = _judged(lines, rest, imported=imported.exists())
    return Outcome(fault=fault, noticed=noticed, words=words, seconds=time.monotonic() - begun)


def plant_all(faults: Sequence[Fault], *, at_once: int | None = None) -> Iterator[Outcome]:
    """Plant faults one by one, several at a time; yield the result of each as it ends.

    Args:
        at_once: processes; by default one for each processor.
    """
    with ThreadPoolExecutor(at_once or len(os.sched_getaffinity(0))) as pool:
        try:
            for future in as_completed([pool.submit(plant, fault) for fault in faults]):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def failing(tests: Sequence[str]) -> list[str]:
    """Return the tests that do not pass without a fault: they cannot notice one."""
    with tempfile.TemporaryDirectory(prefix="gnnqlab-fault-") as folder:
        names = sorted(set(tests))
        lines, rest = _tests(Path(folder), names, {}, limit_s=LIMIT_S * len(names), more=())
    if not lines:
        return [f"no test ran: {rest}"]
    outcomes: dict[str, set[str]] = {name: set() for name in names}
    for line in lines:
        outcomes[line["test"].removeprefix("tests/").partition("[")[0]].add(line["outcome"])  # for any parameters
    return [name for name, seen in outcomes.items() if seen != {"passed"}]


def _judged(lines: list[dict[str, str]], rest: str, *, imported: bool) -> tuple[bool, str]:
    """Return True if the fault was noticed, and the reason if not, from the lines of a run."""
    if not lines:
        return False, f"its test did not run: {rest}"
    failed = [line for line in lines if line["outcome"] == "failed"]
    if not failed:
        skipped = any(line["outcome"] == "skipped" for line in lines)
        why = "was skipped" if skipped else "passed" if imported else "passed, and imported the module nowhere"
        return False, f"survived: its test {why}"
    if not imported:
        return False, f"its test failed without the fault: {failed[0]['error'][:300]}"
    if not any(line["asserted"] for line in failed):
        return False, f"its test broke off in place of failing: {failed[0]['error'][:300]}"
    return True, "noticed"


def _tests(
    folder: Path, names: Sequence[str], environment: dict[str, str], *, limit_s: float, more: Sequence[str] = ("-x",)
) -> tuple[list[dict[str, str]], str]:
    """Run tests in a process group of their own; return a line for each, and the end of the output."""
    told = folder / "told"
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "-p", "tests.mutants.told"]
    command += ["-p", "no:nbval", "-p", "no:anyio", "-p", "no:xdist"]  # their imports take longer than most tests
    command += [*more, *(f"tests/{name}" for name in names)]
    environment = {**os.environ, **environment, TOLD: str(told), "GNNQLAB_RUNS": str(folder / "runs")}
    environment.pop(STARTER, None)  # an existing process would not import the fault
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # and the workers that it has started
            process.communicate()
            printed = f"took more than {limit_s:.0f} s"
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    return [json.loads(line) for line in lines], printed.strip()[-600:]
