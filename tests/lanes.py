"""A pytest plugin: tests run on several lanes side by side, with failures and the time left shown as it goes.

A lane is a process of pytest-xdist. A file stays on one lane, so its fixtures are made once. Files whose tests start
workers leave one lane to others, and those with a browser run on one lane: each keeps several processes busy.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

WORKERS = ("exchange", "systems", "launch", "train", "tune", "benchmarks", "simulation")
"""Folders whose tests start workers."""
PAGES = ("browser",)
"""Folders whose tests start a browser and a server."""
SLOWEST = 10
SECONDS = "gnnqlab/seconds"
SHOWN_EVERY_S = 20.0


def lanes(cores: int, load: float, quota: float | None = None) -> int:
    """Return the number of lanes for a machine: one more than processors, fewer when other processes use them.

    The summary shows how many processes wanted a processor at once: a test may keep several busy.

    Args:
        cores: processors that this process may use.
        load: mean number of processes of others that wait for a processor.
        quota: processors that a control group grants, if it limits them.

    Example:
        >>> lanes(2, 0.1), lanes(2, 4.0), lanes(64, 0.0, quota=2.0)
        (3, 2, 3)
    """
    return max(2, usable(cores, quota) + 1 - int(load))


def usable(cores: int, quota: float | None) -> int:
    """Return the number of processors that a process may keep busy."""
    return min(cores, max(1, int(quota))) if quota else cores


def machine_lanes() -> int:
    """Return the number of lanes for this machine now."""
    return lanes(len(os.sched_getaffinity(0)), load_of_others(), cpu_quota())


def load_of_others(stat: Path = Path("/proc/stat"), *, samples: int = 20, seconds: float = 1.0) -> float:
    """Return the mean number of processes of others that run or wait for a processor during a second.

    The load average of a minute would include processes that have just ended, such as the compilation of kernels.
    """
    running = []
    for _ in range(samples):
        try:
            running.append(running_now(stat))
        except (OSError, StopIteration):
            return os.getloadavg()[0]
        time.sleep(seconds / samples)
    return sum(running) / samples


def running_now(stat: Path = Path("/proc/stat")) -> int:
    """Return the number of other processes that run or wait for a processor."""
    line = next(line for line in stat.read_text().splitlines() if line.startswith("procs_running "))
    return int(line.split()[1]) - 1  # this process, which reads, runs too


def cpu_quota(group: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Return the processors that a control group (version 1 or 2) grants, or None without a limit."""
    try:
        granted, period = (group / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            granted = (group / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (group / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    return None if granted in ("max", "-1") else int(granted) / int(period)


def kind(scope: str) -> str | None:
    """Return the kind of a file of which only some lanes at a time run tests, or None."""
    folder = scope.split("/")[1] if scope.startswith("tests/") else ""
    return "workers" if folder in WORKERS else "pages" if folder in PAGES else None


class FewLanesAKind(LoadScopeScheduling):
    """Assign files to lanes, and run only a few files of each kind at a time."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.split("::")[0]

    def _assign_work_unit(self, node: Any) -> None:
        running = Counter(
            found
            for other, units in self.assigned_work.items()
            if other is not node
            for found in {kind(scope) for scope, items in units.items() if not all(items.values())}
        )
        full = {"pages": running["pages"] >= 1, "workers": running["workers"] >= max(1, len(self.nodes) - 1)}
        free = next((scope for scope in self.workqueue if not full.get(kind(scope) or "", False)), None)
        # Otherwise only files of kinds that other lanes run are left: one more of a kind is better than an idle lane.
        if free is not None:
            self.workqueue.move_to_end(free, last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FewLanesAKind:
    return FewLanesAKind(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put long files first: by the seconds of an earlier run, else those with workers, pages, cells and slow tests."""
    slow = {item.nodeid.split("::")[0] for item in items if item.get_closest_marker("slow")}
    known = known_seconds(config)

    def rank(item: pytest.Item) -> tuple[bool, float]:
        scope = item.nodeid.split("::")[0]
        expected = 60.0 if scope.endswith(".ipynb") else 30.0 if scope in slow else 5.0
        return kind(scope) is None, -known.get(scope, expected)

    items.sort(key=rank)


def known_seconds(config: pytest.Config) -> dict[str, float]:
    """Return the seconds that each file took in an earlier run, kept in pytest's cache."""
    return dict(config.cache.get(SECONDS, {}) or {}) if config.cache else {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Start the kernels of notebooks without pictures of figures: no cell's output is compared by them."""
    if not item.nodeid.split("::")[0].endswith(".ipynb"):
        return (yield)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GNNQLAB_PICTURES", "off")
        return (yield)


@pytest.hookimpl(trylast=True)  # the terminal's writer exists by now
def pytest_configure(config: pytest.Config) -> None:
    lane = os.environ.get("PYTEST_XDIST_WORKER")
    if lane is None:
        config.pluginmanager.register(Progress(config.get_terminal_writer(), known_seconds(config)), "progress")
    elif "GNNQLAB_RUNS" in os.environ:  # one folder per lane: a list of runs has those of one lane
        os.environ["GNNQLAB_RUNS"] = str(Path(os.environ["GNNQLAB_RUNS"], lane))


class Progress:
    """Show the progress of the tests, each failure as it happens, and the slowest files at the end."""

    def __init__(self, out: Any, known: dict[str, float], clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._known, self._clock = out, known, clock
        self._began = self._shown = clock()
        self._total = 0
        self._weights: Counter[str] = Counter()  # seconds per test of each file, as far as they are known
        self._whole = self._spent = 0.0
        self._done = 0
        self._failed: set[str] = set()
        self._seconds: Counter[str] = Counter()
        self._running: list[int] = []

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        if self._total:
            return
        self._total = len(ids)
        files = Counter(name.split("::")[0] for name in ids)
        usual = sum(self._known.values()) / max(1, sum(files[name] for name in self._known)) or 1.0
        self._weights.update({name: self._known.get(name, usual * count) / count for name, count in files.items()})
        self._whole = sum(self._weights[name] * count for name, count in files.items())
        self._line(f"{self._total} tests in {len(files)} files")

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        known = ("passed" if report.when == "call" else "", "", "PASSED"), ("skipped", "", "SKIPPED")
        return None if report.failed else known[report.skipped]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.split("::")[0]] += report.duration
        with suppress(OSError, StopIteration):
            self._running.append(running_now())
        if report.failed:
            self._failed.add(report.nodeid)
            self._line(f"FAILED {report.nodeid} ({report.when}): {first_line(report)}")
        if report.when != "teardown":
            return
        self._done += 1
        self._spent += self._weights[report.nodeid.split("::")[0]]
        now = self._clock()
        if now - self._shown >= SHOWN_EVERY_S and self._total:
            self._shown = now
            counts = f"{self._done} of {self._total} tests, {len(self._failed)} failed"
            self._line(f"{counts}, {times(now - self._began, self._spent / self._whole)}")

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        if config.cache:
            config.cache.set(SECONDS, self._known | dict(self._seconds))
        terminalreporter.section(f"slowest {SLOWEST} files")
        for name, seconds in self._seconds.most_common(SLOWEST):
            terminalreporter.write_line(f"{seconds:8.1f} s  {name}")
        if self._running:
            mean, processors = (
                sum(self._running) / len(self._running),
                usable(len(os.sched_getaffinity(0)), cpu_quota()),
            )
            terminalreporter.write_line(
                f"{mean:8.1f} processes at once, on average, wanted one of {processors} processors"
            )

    def _line(self, text: str) -> None:
        self._out.line(text)
        self._out.flush()


def first_line(report: pytest.TestReport) -> str:
    """Return the first line of the error of a failed test."""
    lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E  ")] or [str(report.longrepr)]
    return lines[0].removeprefix("E").strip().splitlines()[0][:160]


def times(spent_s: float, share: float) -> str:
    """Return the time so far, and the time left if ``share`` of the work is done; none is given for less than 2 %.

    Example:
        >>> times(90.0, 0.75), times(90.0, 0.001)
        ('1:30 so far, about 0:30 left', '1:30 so far')
    """
    clock = "{:d}:{:02d}".format
    if share < 0.02:  # the first tests wait for imports and the set-up of fixtures
        return f"{clock(*divmod(round(spent_s), 60))} so far"
    left_s = spent_s * (1.0 - share) / share
    return f"{clock(*divmod(round(spent_s), 60))} so far, about {clock(*divmod(round(left_s), 60))} left"
