"""`make test` and `make check`: the choice of tests that run side by side, and the lines that are shown meanwhile."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import lanes, run_all


@pytest.mark.parametrize(
    ("files", "granted"),
    [
        ({"cpu.max": "200000 100000\n"}, 2.0),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_cpu_quota_of_both_versions(files: dict[str, str], granted: float | None, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert lanes.cpu_quota(tmp_path) == granted


def test_the_load_of_others_is_that_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  1 2 3\nprocs_running 5\nprocs_blocked 0\n")
    assert lanes.load_of_others(stat, samples=2, seconds=0.0) == 4.0
    monkeypatch.setattr("os.getloadavg", lambda: (1.5, 0.0, 0.0))
    assert lanes.load_of_others(tmp_path / "none") == 1.5


class Node:
    """A lane without a process."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.shutting_down = False
        self.gateway = SimpleNamespace(id="lane")

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.sent += numbers

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduler(files: dict[str, int]) -> tuple[lanes.FewLanesAKind, Node, Node]:
    """Return a scheduler for two lanes with some files, each with a number of tests."""
    config = SimpleNamespace(option=SimpleNamespace(loadscopereorder=False), getvalue=lambda _: ["popen"] * 2)
    found, nodes = lanes.FewLanesAKind(config), (Node(), Node())  # type: ignore[arg-type]
    for node in nodes:
        found.add_node(node)  # type: ignore[arg-type]
        names = [f"{file}::test_{number}" for file, count in files.items() for number in range(count)]
        found.add_node_collection(node, names)  # type: ignore[arg-type]
    found.schedule()
    return found, *nodes


def test_files_of_a_kind_leave_a_lane_to_others() -> None:
    files = {
        "tests/launch/test_a.py": 4,
        "tests/exchange/test_b.py": 4,
        "tests/bits/test_c.py": 4,
        "tests/test_d.py": 4,
    }
    found, first, second = scheduler(files)
    assert list(found.assigned_work[first]) == ["tests/launch/test_a.py"]
    assert list(found.assigned_work[second]) == ["tests/bits/test_c.py"]
    for item in range(8, 12):
        found.mark_test_complete(second, item)
    assert list(found.assigned_work[second]) == ["tests/bits/test_c.py", "tests/test_d.py"]
    for item in range(12, 16):
        found.mark_test_complete(second, item)
    assert "tests/exchange/test_b.py" in found.assigned_work[second], "two files of a kind are better than an idle lane"


def test_long_files_come_first_and_those_of_an_earlier_run_by_seconds() -> None:
    def item(name: str, slow: bool = False) -> Any:
        return SimpleNamespace(nodeid=name, get_closest_marker=lambda _: slow or None)

    names = ["tests/bits/a.py::t", "tests/bits/b.py::t", "notebooks/01.ipynb::Cell 0", "tests/launch/c.py::t"]
    config = SimpleNamespace(cache=None)
    items = [item(names[0]), item(names[1], slow=True), *map(item, names[2:])]
    lanes.pytest_collection_modifyitems(config, items)  # type: ignore[arg-type]
    assert [one.nodeid for one in items] == [names[3], names[2], names[1], names[0]]
    config.cache = SimpleNamespace(get=lambda *_: {"tests/bits/a.py": 90.0})
    lanes.pytest_collection_modifyitems(config, items)  # type: ignore[arg-type]
    assert [one.nodeid for one in items][:2] == [names[3], names[0]]


def test_failures_and_the_time_left_are_shown_as_tests_run() -> None:
    lines: list[str] = []
    now = [0.0]
    out = SimpleNamespace(line=lines.append, flush=lambda: None)
    shown = lanes.Progress(out, {"a.py": 30.0}, lambda: now[0])
    shown.pytest_xdist_node_collection_finished(["a.py::t0", "a.py::t1", "a.py::t2", "b.py::t0"])

    def report(name: str, when: str, error: str | None = None) -> None:
        shown.pytest_runtest_logreport(
            SimpleNamespace(nodeid=name, when=when, failed=error is not None, longrepr=error, duration=10.0)  # type: ignore[arg-type]
        )

    report(
        "a.py::t0", "call", "def t0():\n>   assert 1 == 2\nE   assert 1 == 2\nE    +  where 1\n\na.py:3: AssertionError"
    )
    assert lines[-1] == "FAILED a.py::t0 (call): assert 1 == 2"
    now[0] = 20.0
    report("a.py::t0", "teardown")  # a test of a.py is expected to take 10 s, and so is one of b.py
    assert lines[-1] == "1 of 4 tests, 1 failed, 0:20 so far, about 1:00 left"


def test_check_runs_the_core_tests_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[str, ...]] = []
    monkeypatch.setattr(run_all, "run_pytest", lambda *words: called.append(words) or 0)
    monkeypatch.setattr(run_all, "install_chromium", lambda: None)
    assert run_all.main(["check"]) == 0 and run_all.main([]) == 0
    check, everything = called
    assert check[:2] == ("-m", "core") and any("test_law.py" in word for word in check) and "notebooks" not in check
    assert {"tests", "notebooks"} <= set(everything) and "-m" not in everything
