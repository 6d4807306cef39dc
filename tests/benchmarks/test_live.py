"""The overhead of a live view on its run, measured briefly."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.studies import live as bench
from gnnqlab.launch import local
from tests.slow_down import wait_until


def test_both_kinds_of_blocks_are_measured_in_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anywidget")
    launch, runs = local.launch, []

    def launched(*given: Any, **settings: Any) -> Any:
        runs.append(launch(*given, **settings))
        return runs[-1]

    def sleep(seconds: float) -> None:
        """Let a block last for a number of epochs, not seconds, in which a busy machine may train none."""
        if seconds == bench.BLOCK_S:
            (run,) = runs
            end = run.epoch + 4
            wait_until(lambda: run.epoch >= end or run.status != "running", what="four epochs")
        else:
            time.sleep(0.1)

    watch = SimpleNamespace(sleep=sleep, monotonic=time.monotonic, process_time=time.process_time)
    monkeypatch.setattr(local, "launch", launched)
    monkeypatch.setattr(bench, "time", watch)
    monkeypatch.setattr("gnnqlab.lab.figures.updates._IDLE_S", 0.1)  # the run trains while the view's thread ends
    monkeypatch.setattr(bench, "GRAPH", "sbm:2000,4,8")
    monkeypatch.setattr(bench, "_in_kernel", bench.alternate)  # a kernel takes long to start
    epoch, process = bench.live(repeats=1)
    assert epoch["value"] > 0 and epoch["rival_value"] > 0 and epoch["unit"] == "s"
    assert epoch["ratio"] == pytest.approx(epoch["rival_value"] / epoch["value"]) and epoch["goal"] == 1 / 1.01
    assert 0 <= process["rival_value"] and process["unit"] == "% of one core"
