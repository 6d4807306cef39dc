"""Cost of supervision on an epoch: heartbeats and requests of the workers, and processor time of the guard."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.engine.rows import row
from gnnqlab.launch.guarded import plain_torchrun
from gnnqlab.launch.local import launch
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.run.run import Run
from gnnqlab.train.config.configure import configure
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.train.control import Control
from gnnqlab.train.heartbeat import Heartbeat

__all__ = ["fault_cost"]

_GRAPH, _EPOCHS, _FIRST = "digits", 400, 50
_CALLS = 100_000
_LEAST_RATIO = 0.99
"""Goal: supervision takes at most 1 % of an epoch."""


def fault_cost(repeats: int) -> list[dict[str, Any]]:
    """Return the epoch with and without a guard, measured in turn, and the counted cost of what workers do for it."""
    with tempfile.TemporaryDirectory(prefix="gnnqlab-cost-", ignore_cleanup_errors=True) as name:
        root = Path(name)
        # Workers that import for themselves, as under torchrun alone.
        config = configure(_GRAPH, workers=2, epochs=_EPOCHS, evaluate_every=0, start_method="spawn")
        guarded, alone, shares = [], [], []
        for _ in range(repeats):
            run, share = _guarded(config, root)
            guarded.append(_epoch_s(run))
            shares.append(share)
            alone.append(_epoch_s(_alone(config, root)))
        steps = max(pulse.steps for pulse in run.pulses)
        beat_s, poll_s = _heartbeat_seconds(root), _poll_seconds(root, config)
    case = f"{_GRAPH}, 2 workers"
    ratio = statistics.median(other / own for own, other in zip(guarded, alone, strict=True))
    counted = (steps * beat_s + poll_s) / min(guarded)
    detail = f" ({steps} heartbeats of {1e6 * beat_s:.1f} µs, requests {1e6 * poll_s:.0f} µs)"
    return [
        row(case, "epoch with a guard (median)", 1e3 * statistics.median(guarded), "ms", "torchrun alone, in turn",
            1e3 * statistics.median(alone), ratio, _LEAST_RATIO),
        row(case, "counted: heartbeats and requests of an epoch", 100 * counted, "% of an epoch", "at most", 1.0,
            0.01 / counted, 1.0, detail=detail),
        row(case, "processor time of the guard (median)", 100 * statistics.median(shares), "% of a processor",
            "at most", 1.0, 0.01 / max(statistics.median(shares), 1e-9), 1.0),
    ]  # fmt: skip


def _guarded(config: RunConfig, root: Path) -> tuple[Run, float]:
    """Return a finished run, and the share of a processor that its guard used while it trained."""
    run = launch(config, root=root)
    while run.epoch < _FIRST:
        time.sleep(0.01)
    [(pid, _)] = run._guards()
    begin, begin_s = _cpu_seconds(pid), time.monotonic()
    while run.epoch < _EPOCHS - 1:
        time.sleep(0.01)
    share = (_cpu_seconds(pid) - begin) / (time.monotonic() - begin_s)
    return run.wait(), share


def _cpu_seconds(pid: int) -> float:
    process = processes.read(pid)
    assert process is not None
    return process.cpu / os.sysconf("SC_CLK_TCK")


def _alone(config: RunConfig, root: Path) -> Run:
    """Return a run of the same workers under torchrun, without a guard."""
    folder = files.create(root, files.new_id("alone"))
    files.write_json(folder / "config.json", config.to_json())
    with mock.patch.dict(os.environ, {"TMPDIR": str(folder / "tmp")}):
        subprocess.run(plain_torchrun(config.to_json(), folder), capture_output=True, check=True)
    return Run(folder)


def _epoch_s(run: Run) -> float:
    records = run.records
    per_epoch = records[records["epoch"] >= _FIRST].groupby("epoch")["epoch_s"].max()
    return float(per_epoch.median())  # a number of JSON


def _heartbeat_seconds(root: Path) -> float:
    heartbeat = Heartbeat(root / "rank0", 0)
    begin_s = time.thread_time()  # of the processor: other load of the machine does not count
    for _ in range(_CALLS // 2):
        heartbeat.phase("compute", epoch=1)
        heartbeat.phase("wait")
    return (time.thread_time() - begin_s) / _CALLS


def _poll_seconds(root: Path, config: RunConfig) -> float:
    """Return the seconds in which rank 0 looks for changed settings, a checkpoint's request and a stop."""
    control = Control(root, 0, config.system, distributed=False)
    begin_s = time.thread_time()
    for _ in range(_CALLS // 10):
        control.has_update()
    return (time.thread_time() - begin_s) / (_CALLS // 10)
