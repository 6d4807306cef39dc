"""Stand-ins for training: short epochs with the phases and the communication of the real loop."""

import json
import os
import time
from pathlib import Path
from typing import Any

import gnnqlab as gq
from gnnqlab.train.heartbeat import Heartbeat
from tests.slow_down import HANG_S

UNHURRIED = ["tests.launch.fakes:Unhurried"]
"""The setting ``observers`` of a training that goes on until a test ends it: it leaves the processor to other tests."""


class Unhurried(gq.Observer):
    def on_epoch_ended(self, epoch: object) -> None:
        time.sleep(0.1)


def fit(config: Any, folder: Path, rank: int, workers: int, heartbeat: Heartbeat) -> None:
    """A ring of messages, an all-reduce and a short computation per epoch; FAKE_EPOCHS and FAKE_EPOCH_S set it.

    With FAKE_UNTIL, "slow recovered", the last rank computes in epoch 2 until the guard has reported the first event,
    and in epoch 3 until it has reported the second.
    """
    import torch
    import torch.distributed as dist

    epochs, compute_s = int(os.environ.get("FAKE_EPOCHS", "5")), float(os.environ.get("FAKE_EPOCH_S", "0.02"))
    awaited = dict(enumerate(os.environ.get("FAKE_UNTIL", "").split(), start=2))
    heartbeat.phase("load")
    rows, received = torch.full((64, 16), float(rank)), torch.empty(64, 16)
    heartbeat.phase("partition")
    for epoch in range(epochs):
        heartbeat.phase("compute", epoch=epoch)
        time.sleep(compute_s)
        if rank == workers - 1 and epoch in awaited:
            _work_until(folder / "events.jsonl", awaited[epoch])
        heartbeat.phase("encode")
        payload = rows.clone()
        heartbeat.phase("wait")
        if workers > 1:
            sending = dist.isend(payload, (rank + 1) % workers)
            assert sending is not None
            dist.recv(received, (rank - 1) % workers)
            sending.wait()
        heartbeat.phase("reduce")
        dist.all_reduce(payload)
        heartbeat.phase("checkpoint")
        with open(folder / f"records-rank{rank}.jsonl", "a") as file:
            file.write(json.dumps({"epoch": epoch, "rank": rank, "loss": 1.0 / (epoch + 1)}) + "\n")


def _work_until(events: Path, name: str) -> None:
    """Keep the processor busy until the guard has reported an event."""
    until = time.monotonic() + HANG_S
    while f'"event": "{name}"' not in events.read_text():
        if time.monotonic() > until:
            raise TimeoutError(f"the guard has not told of {name!r}")


def inspect(config: Any, folder: Path, rank: int, workers: int, heartbeat: Heartbeat) -> None:
    """Write down how this process was set up."""
    import ctypes
    import signal
    import sys
    import tempfile

    import torch

    death = ctypes.c_int()
    ctypes.CDLL(None).prctl(2, ctypes.byref(death), 0, 0, 0)  # PR_GET_PDEATHSIG
    facts = {
        "default_signals": all(signal.getsignal(n) == signal.SIG_DFL for n in (signal.SIGTERM, signal.SIGINT)),
        "parent_death": death.value,
        "temporary": tempfile.gettempdir(),
        "threads": torch.get_num_threads(),
        "dynamo": "torch._dynamo" in sys.modules,
        "cores": sorted(os.sched_getaffinity(0)),
    }
    (folder / f"facts{rank}.json").write_text(json.dumps(facts))
    if rank == 1:
        print("a line for the log")
