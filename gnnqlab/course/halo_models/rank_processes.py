"""Processes that train a worked model: one for each rank, on this machine or on emulated hosts with slow links."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gnnqlab.by_name import did_you_mean
from gnnqlab.course.halo_models.collectives import EXCHANGES
from gnnqlab.course.halo_models.model_training import MODELS, TrainedHere, train_model
from gnnqlab.launch.emulated import EmulatedHosts

__all__ = ["train_on_ranks"]

_LIMIT_S = 600


def train_on_ranks(
    model: str,
    ranks: int,
    cases: Sequence[int | str] = (32, 8, 4),
    *,
    steps: int = 40,
    link: str | None = None,
) -> dict[int | str, TrainedHere]:
    """Train a worked model from the same weights with several exchanges, on processes over Gloo.

    Args:
        model: one of ``gnnqlab.course.halo_models.model_training.MODELS``.
        ranks: number of processes.
        cases: bit-widths of the halo exchange, and ``all-to-all`` or ``all-gather`` in float32.
        steps: training steps of each case.
        link: rate of the links between emulated hosts, one for each rank; by default the loopback of this machine.

    Returns:
        Case -> losses, error, bytes and seconds.

    Raises:
        ValueError: if a model or a case does not exist, or ``ranks`` or ``steps`` is below 1.
        RuntimeError: if a process fails, or the machine cannot emulate hosts.
    """
    if model not in MODELS:
        raise ValueError(f"model must be one of {sorted(MODELS)}, got {model!r}{did_you_mean(model, MODELS)}")
    if ranks < 1 or steps < 1:
        raise ValueError(f"ranks and steps must be at least 1, got {ranks} and {steps}")
    widths = (1, 2, 4, 8, 16, 32)
    for case in cases:
        if case not in widths and (case == "halo" or case not in EXCHANGES):
            raise ValueError(f"a case must be one of {widths}, 'all-to-all' or 'all-gather', got {case!r}")
    with tempfile.TemporaryDirectory(prefix="gnnqlab-ranks-") as folder, contextlib.ExitStack() as exit_stack:
        hosts = exit_stack.enter_context(EmulatedHosts(ranks, link)) if link is not None and ranks > 1 else None
        arguments = {"model": model, "ranks": ranks, "cases": list(cases), "steps": steps, "folder": folder}
        processes = []
        for rank in range(ranks):
            command = [sys.executable, "-W", "ignore", "-m", "gnnqlab.course.halo_models.rank_processes"]
            command.append(json.dumps({**arguments, "rank": rank}))
            process = subprocess.Popen(
                hosts.command(rank, command) if hosts else command,
                env=os.environ | {"GLOO_SOCKET_IFNAME": hosts.interface(rank) if hosts else "lo"},
                stdout=subprocess.DEVNULL,  # results are in files; errors are printed to standard error
            )
            # Callbacks run in reverse order: kill first, then wait.
            exit_stack.callback(process.wait)
            exit_stack.callback(process.kill)
            processes.append(process)
        deadline = time.monotonic() + _LIMIT_S
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes) or time.monotonic() > deadline:
                break  # one failed process would leave the others waiting
            time.sleep(0.05)
        codes = [process.poll() for process in processes]
        if any(codes) or None in codes:
            raise RuntimeError(
                f"all ranks must finish within {_LIMIT_S} s, got exit codes {codes}; see their errors above"
            )
        results = json.loads(Path(folder, "results.json").read_text())
    return {case: TrainedHere(**{**found, "losses": tuple(found["losses"])}) for case, found in zip(cases, results)}


def _work(model: str, rank: int, ranks: int, cases: Sequence[int | str], steps: int, folder: str) -> None:
    """Train all cases on one rank; rank 0 writes the results."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store, limit = dist.FileStore(str(Path(folder, "store")), ranks), datetime.timedelta(seconds=60)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=limit)
    results = []
    for case in cases:
        exchange = EXCHANGES["halo"](case) if isinstance(case, int) else EXCHANGES[case]()
        results.append(dataclasses.asdict(train_model(model, exchange, steps=steps)))
    if rank == 0:
        Path(folder, "results.json").write_text(json.dumps(results))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    _work(**json.loads(sys.argv[1]))
