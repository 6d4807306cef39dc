"""Connections that the kernel slows down, for machines that cannot emulate hosts."""

from __future__ import annotations

import os
import socket
import time

import torch

from gnnqlab.launch import paced
from gnnqlab.train.link import Link
from tests.ranks import run_ranks

RATE = 10e6


def test_kernel_paces_all_reduce_connections_between_hosts() -> None:
    answers = run_ranks(all_reduce, 4)
    for slowed, rates, _ in answers:
        assert slowed == 2  # two of three connections lead to the other host
        # Half of the 10 MB/s for one of two workers, half of that for one of two connections.
        assert rates == [RATE / 4] * 2
    # A ring of four sends 3/4 of 4 MB twice over each of its wires: 2.4 s, of which a burst on each connection is free.
    # The last rank that began to wait measured less of it.
    assert max(slow_s for _, _, slow_s in answers) > 1.8


def all_reduce(rank: int, workers: int) -> tuple[int, list[int], float]:
    """Return the number of slow connections, the rates that the kernel reports, and the seconds of an all-reduce."""
    import torch.distributed as dist

    values = torch.ones(1_000_000)

    def took() -> float:
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(values)
        return time.perf_counter() - began

    link = Link(kind="paced", hosts=2, name=f"{8 * RATE / 1e6:g}mbit")
    slowed = paced.pace(link, rank, workers, at_once=2)
    return slowed, kernel_rates(), took()


def kernel_rates() -> list[int]:
    """Return the rate of each slowed connection of this process, in bytes per second."""
    rates = []
    for _, _, descriptor in paced._connections():
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            rates.append(connection.getsockopt(socket.SOL_SOCKET, paced._SO_MAX_PACING_RATE))
    return [rate for rate in rates if rate > 0]  # -1 has no limit
