"""Trainings that start at the same moment with a cold cache, on one machine and on two.

``GNNQLAB_STARTS=50`` starts as many pairs of launches, and as many runs over two machines.
"""

import os
import time
from pathlib import Path

import pytest

from gnnqlab.launch import Run, launch, torchrun_command
from gnnqlab.train.config.configure import configure
from gnnqlab.train.config.run_config import RunConfig
from tests.launch.conftest import Bench
from tests.launch.test_cluster import free_port, machines
from tests.slow_down import HANG_S, wait_until

STARTS = int(os.environ.get("GNNQLAB_STARTS", "2"))
GRAPH, LIMIT_S = "sbm:4000,4,8", HANG_S
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cold"), pytest.mark.timeout(LIMIT_S * (1 + STARTS))]


def short() -> RunConfig:
    """Two workers, two epochs; METIS cuts a graph differently each time, so that a mix of two cuts would be visible."""
    return configure(GRAPH, workers=2, epochs=2, layers=2, hidden=8)


def cold(bench: Bench, number: int) -> Path:
    """Set an empty folder for runs and an empty cache for one start; return the folder."""
    place = bench.root / str(number)
    bench.set(GNNQLAB_CACHE=place / "cache")
    return place


def whole(run: Run) -> None:
    """Fail, with the workers' output, if a run is not as it should be."""
    said = {path.name: path.read_text() for path in (run.folder / "logs").iterdir()}
    assert run.status == "finished", (run.cause, said)
    assert sorted(set(run.records["rank"])) == [0, 1] and run.summary["epochs"] == 2
    left = [path.name for path in (*run.folder.iterdir(), *run.folder.parents[1].joinpath("cache").rglob("*"))]
    assert not [name for name in left if name.startswith(".") or name.endswith(".lock")]


def test_two_launches_in_a_row_on_a_cold_cache(bench: Bench) -> None:
    took = []
    for number in range(STARTS):
        place, began = cold(bench, number), time.monotonic()
        runs = [launch(short(), root=place / "runs") for _ in range(2)]
        for run in runs:
            run.wait(timeout=LIMIT_S)
        # wait() returns as soon as all results are on disk, and a guard writes its last status after that.
        wait_until(lambda: not bench.processes(), what="the end of both guards")
        for run in runs:
            whole(run)
        took.append(time.monotonic() - began)
        print(f"pair {number}: {took[-1]:.1f} s", flush=True)
    print(f"{STARTS} pairs of launches: all finished, {min(took):.1f} to {max(took):.1f} s a pair")


def test_two_machines_with_one_run_folder_and_one_cache(bench: Bench) -> None:
    took = []
    for number in range(STARTS):
        place, began = cold(bench, number), time.monotonic()
        port = free_port()
        lines = [
            torchrun_command(short(), 2, node, "127.0.0.1", port, "lo", run_id="both", root=str(place / "runs"))
            for node in range(2)
        ]
        with machines([["bash", "-c", line] for line in lines]) as started:
            codes = [machine.wait(timeout=LIMIT_S) for machine in started]
        whole(Run(place / "runs" / "both"))
        assert codes == [0, 0]
        took.append(time.monotonic() - began)
        print(f"start {number}: {took[-1]:.1f} s", flush=True)
    print(f"{STARTS} starts on two machines: all finished, {min(took):.1f} to {max(took):.1f} s each")
