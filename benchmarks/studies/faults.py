"""Faults of launched runs: times of reports, random signals and deaths, and the cost of supervision.

Every case of the times trains a small graph on three workers, with an injected fault in one of them; figures are the
worst of all repeats, compared with the guaranteed times and, for a killed worker, with torchrun alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.engine.rows import require_among, row
from benchmarks.studies.fault_cost import fault_cost
from benchmarks.studies.fault_draws import KINDS, TARGETS, Outcome, outcomes
from gnnqlab.errors import WorkerFailed
from gnnqlab.launch import Run
from gnnqlab.launch.guarded import plain_torchrun
from gnnqlab.launch.local import launch
from gnnqlab.partition import Random
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.train.config.configure import configure
from gnnqlab.train.config.run_config import RunConfig

__all__ = ["faults"]

_GRAPH = "sbm:2000,4,8"
PARTS = ("times", *KINDS, "cost")
# Phase and epoch of the injected fault; no epoch before training.
_PHASES: tuple[tuple[str, int | None], ...] = (("init", None), ("compute", 5), ("wait", 5), ("reduce", 5))


def faults(
    repeats: int = 5, *, parts: Sequence[str] = PARTS, draws: int = 100, trainings: str = "runs/bench-faults"
) -> list[dict[str, Any]]:
    """Measure times of reports, outcomes of random faults, and the cost on an epoch.

    Args:
        repeats: repetitions of every time; one takes about 20 s on two cores.
        parts: ``times``, ``signals``, ``kills`` and ``cost``.
        draws: number of random signals, and of random deaths; one takes about 10 s.
        trainings: folder of the outcomes of draws, which are not repeated.
    """
    require_among("parts", parts, PARTS)
    if min(repeats, draws) < 1:
        raise ValueError(f"repeats and draws must be at least 1, got {repeats} and {draws}")
    rows: list[dict[str, Any]] = []
    if "times" in parts:
        rows += _times(repeats)
    for kind in (kind for kind in KINDS if kind in parts):
        rows += _draw_rows(kind, outcomes(kind, range(draws), Path(trainings)))
    return rows + (fault_cost(repeats) if "cost" in parts else [])


def _times(repeats: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="gnnqlab-faults-") as name:
        root = Path(name)
        launch(_config(epochs=1), root=root, wait=True)  # caches the partition, so that no case includes it
        return [
            *_starts(root, repeats),
            *_reports(root, repeats),
            *_endings(root, repeats),
        ]


# 100 000 epochs: a run that ends by a fault only
def _config(workers: int = 3, epochs: int = 100_000, **settings: Any) -> RunConfig:
    config = configure(_GRAPH, workers=workers, epochs=epochs, hidden=32, **settings)
    return dataclasses.replace(config, system=dataclasses.replace(config.system, partition=Random()))


def _promise(case: str, figure: str, value: float, limit: float) -> dict[str, Any]:
    # at least 1 if the guaranteed time is kept
    return row(case, figure, round(value, 3), "s", "promised", limit, round(limit / max(value, 1e-9), 2), 1.0)


def _draw_rows(kind: str, found: Sequence[Outcome]) -> list[dict[str, Any]]:
    if kind == "signals":
        by_target = {target: [each for each in found if each.draw.target == target] for target in TARGETS}
        return [
            *(_promises(f"signal to the {target}", drawn) for target, drawn in by_target.items() if drawn),
            row(
                "signal to a process",
                "run ended after (worst)",
                max(each.seconds for each in found),
                "s",
                "",
                None,
                None,
            ),
        ]
    seconds, case = [each.seconds for each in found], "worker killed, 3 retries"
    return [
        _promises(case, found),
        _promise(case, "next epoch after (median)", statistics.median(seconds), 5.0),
        _promise(case, "next epoch after (worst)", max(seconds), 5.0),
    ]


def _promises(case: str, found: Sequence[Outcome]) -> dict[str, Any]:
    """Return the row of the draws that kept all promises, with the text of the others."""
    failed = [each.text for each in found if each.failures]
    share = 1 - len(failed) / max(len(found), 1)
    detail = " | ".join([f" ({len(found) - len(failed)} of {len(found)})", *failed])
    return row(case, "all promises kept, losses identical", share, "share", "promised", 1.0, share, 1.0, detail=detail)


def _starts(root: Path, repeats: int) -> list[dict[str, Any]]:
    launch(_config(workers=2, epochs=1), root=root, wait=True)
    times: dict[str, list[float]] = {"fork": [], "spawn": []}
    ends = []
    for method, seconds in times.items():  # method of starting workers
        for _ in range(repeats):
            start_s = time.monotonic()
            run = launch(_config(workers=2, epochs=20, start_method=method), root=root)
            _until_epoch(run)
            seconds.append(time.monotonic() - start_s)
            run.wait()
            last_pulse_ns = max(pulse.time_ns for pulse in run._pulses())  # last heartbeat of any worker
            ends.append((_event(run, "finished") - last_pulse_ns) / 1e9)
    fork, spawn = statistics.median(times["fork"]), statistics.median(times["spawn"])
    case, figure, rival = "launch, 2 workers", "first epoch after (median)", "workers that import for themselves"
    return [
        _promise(case, figure, fork, 4.0),
        row(case, figure, round(fork, 3), "s", rival, round(spawn, 3), round(spawn / fork, 2), 1.0),
        _promise("last worker done", "run finished after", max(ends), 1.0),
    ]


def _reports(root: Path, repeats: int) -> list[dict[str, Any]]:
    rows = []
    for kind, limit, times in (("kill", 2.0, repeats), ("segv", 2.0, 1), ("raise", 2.0, 1), ("stop", 10.0, 1)):
        seconds, matches, trials = [], 0, 0
        for phase, epoch in _PHASES if kind == "kill" else _PHASES[1:2]:  # other faults are tried in one phase
            for _ in range(times):
                fault = {"kind": kind, "rank": 1, "phase": phase, "epoch": epoch, "delay": 0.0}
                # The fault is passed by the environment.
                with mock.patch.dict(os.environ, {"GNNQLAB_FAULT": json.dumps(fault)}):
                    run = launch(_config(), root=root)
                    with contextlib.suppress(WorkerFailed):
                        run.wait(timeout=120)
                error = run.errors[0]
                # the report names rank, phase and epoch of the fault
                matches += (error.rank, error.phase, error.epoch) == (1, phase, -1 if epoch is None else epoch)
                trials += 1
                # nanoseconds -> seconds
                seconds.append(
                    (_event(run, "stalled" if kind == "stop" else "failed") - _fault_time_ns(run.folder)) / 1e9
                )
        case = {"kill": "worker killed", "segv": "worker crashed", "raise": "exception", "stop": "worker stopped"}[kind]
        rows.append(_promise(case, f"reported after (worst of {trials})", max(seconds), limit))
        rows.append(
            row(case, "right rank, phase and epoch", matches / trials, "share", "promised", 1.0, matches / trials, 1.0)
        )
        if kind == "kill":
            torchrun_s, figure = _torchrun_alone(root), f"reported after (worst of {trials})"
            worst_s = max(seconds)
            rows.append(
                row(
                    case,
                    figure,
                    round(worst_s, 3),
                    "s",
                    "torchrun alone ends",
                    round(torchrun_s, 3),
                    round(torchrun_s / worst_s, 1),
                    1.0,
                )
            )
    return rows


def _torchrun_alone(root: Path) -> float:
    """Return seconds from the death of a worker to the end of a torchrun without guard."""
    config = _config()
    folder = files.create(root, files.new_id("alone"))
    files.write_json(folder / "config.json", config.to_json())
    fault = {"kind": "kill", "rank": 1, "phase": "wait", "epoch": 5}
    with mock.patch.dict(os.environ, {"GNNQLAB_FAULT": json.dumps(fault), "TMPDIR": str(folder / "tmp")}):
        subprocess.run(plain_torchrun(config.to_json(), folder), capture_output=True)
        return (time.monotonic_ns() - _fault_time_ns(folder)) / 1e9  # time of the fault, on the same monotonic clock


def _endings(root: Path, repeats: int) -> list[dict[str, Any]]:
    def kill_guard(run: Run, launcher: subprocess.Popen[bytes]) -> None:
        os.kill(run._guards()[0][0], signal.SIGKILL)

    def kill_agent(run: Run, launcher: subprocess.Popen[bytes]) -> None:
        guard = run._guards()[0][0]
        # the agent is a child of the guard
        os.kill(next(process.pid for process in processes.tree(guard) if process.parent == guard), signal.SIGKILL)

    def kill_launcher(run: Run, launcher: subprocess.Popen[bytes]) -> None:
        launcher.kill()
        launcher.wait()

    def stop(run: Run, launcher: subprocess.Popen[bytes]) -> None:
        run.stop()

    cases: dict[str, Callable[[Run, subprocess.Popen[bytes]], None]] = {
        "launching process killed": kill_launcher,
        "agent killed": kill_agent,
        "guard killed": kill_guard,
        "run.stop()": stop,
    }
    rows = []
    for case, act in cases.items():
        seconds = [_shutdown_seconds(root, act) for _ in range(repeats)]  # all processes of the run, from kill to end
        rows.append(_promise(case, f"no process left after (worst of {repeats})", max(seconds), 5.0))
    return rows


def _shutdown_seconds(root: Path, act: Callable[[Run, subprocess.Popen[bytes]], None]) -> float:
    code = (
        "import json, sys, time; from gnnqlab.launch.local import launch; "
        "from gnnqlab.train.config.run_config import RunConfig; "
        "print(launch(RunConfig.from_json(json.loads(sys.argv[1])), root=sys.argv[2]).folder, flush=True); "
        "time.sleep(1000)"
    )
    launcher = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(_config().to_json()), str(root)], stdout=subprocess.PIPE
    )
    assert launcher.stdout is not None
    try:
        run = Run(launcher.stdout.readline().decode().strip())
        _until_epoch(run)
        guard = run._guards()[0]
        # identity of a process: pid and start time, because pids are reused
        run_processes = [guard, *((process.pid, process.start) for process in processes.tree(guard[0]))]
        start_s = time.monotonic()
        act(run, launcher)
        _until(
            lambda: not any(processes.is_alive(pid, start) for pid, start in run_processes), "the end of all processes"
        )
        return time.monotonic() - start_s
    finally:
        launcher.kill()
        launcher.wait()
        launcher.stdout.close()


def _fault_time_ns(folder: Path) -> int:
    return int((folder / "heartbeat" / "fault-rank1").read_text())


def _event(run: Run, name: str) -> int:
    moment: int = next(event["monotonic_ns"] for event in run.events if event["event"] == name)
    return moment


def _until_epoch(run: Run) -> None:
    _until(lambda: run.epoch >= 1, "the first epoch")


def _until(condition: Callable[[], object], event: str, limit_s: float = 120.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{event} must come within {limit_s:.0f} s, got nothing; this machine is too busy")
        time.sleep(0.005)  # poll every 5 ms
