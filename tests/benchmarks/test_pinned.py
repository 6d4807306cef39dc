"""Fair timing: one process for each number of threads, merged rows, and reported failures."""

from __future__ import annotations

import os

import pytest

from benchmarks.kernels.pinned import Pair, by_threads, compare, run_each, run_pinned


def bound(label: str) -> list[dict[str, object]]:
    """Return a row with the number of threads of this process and their places."""
    return [{"label": label, "threads": os.environ["OMP_NUM_THREADS"], "places": os.environ["OMP_PLACES"]}]


def test_each_number_of_threads_has_its_own_process() -> None:
    core = min(os.sched_getaffinity(0))
    rows = run_each("tests.benchmarks.test_pinned:bound", threads=(1, 1), label="x")
    assert rows == [{"label": "x", "threads": "1", "places": f"{{{core}}}"}] * 2


def test_default_thread_counts_are_one_and_two() -> None:
    rows = run_each("tests.benchmarks.test_pinned:bound", threads=None, label="x")
    assert [row["threads"] for row in rows] == [str(count) for count in range(1, len(rows) + 1)]
    assert len(rows) == min(2, len(os.sched_getaffinity(0)))


@by_threads(names=("x", "y"))
def measured(names: tuple[str, ...] = ("x",), repeats: int = 1) -> list[dict[str, object]]:
    return compare(os.environ["OMP_NUM_THREADS"], dict.fromkeys("ab", list), [Pair("make", "a", "b"), *lone], repeats)


lone = [Pair("alone", "a", "not timed", goal=2.0)]


def test_a_measurement_runs_in_its_own_process_and_refuses_here() -> None:
    made, alone = measured(threads=(1,), names=["y"], repeats=3)
    assert made["case"] == "1" and made["value"] > 0 and made["ratio"] == made["rival_value"] / made["value"]
    assert made["metric"] == "make" and made["figure"].startswith("make (") and "rival" in made["figure"]
    assert (alone["rival_value"], alone["ratio"], alone["reached"]) == (None, None, None)
    with pytest.raises(ValueError, match=r"names must be some of \('x', 'y'\), got \['z'\]"):
        measured(names=["x", "z"])


def test_more_threads_than_cores_are_refused() -> None:
    cores = len(os.sched_getaffinity(0))
    with pytest.raises(ValueError, match=f"at most the cores of this process, {cores}, got {cores + 1}"):
        run_pinned("tests.benchmarks.test_pinned:bound", threads=cores + 1, label="x")


def test_failed_process_raises_and_its_stderr_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="must finish, got exit code"):
        run_pinned("tests.benchmarks.test_pinned:missing", threads=1)
    assert "missing" in capfd.readouterr().err
