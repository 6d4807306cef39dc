"""Connections that the kernel slows down, for machines that cannot emulate hosts."""

from __future__ import annotations

import time

import torch

from gnnqlab.launch.paced import pace
from gnnqlab.train.link import Link
from tests.ranks import run_ranks

RATE = 10e6


def test_the_kernel_slows_down_what_no_transport_carries() -> None:
    answers = run_ranks(all_reduce, 4)
    for slowed, fast_s, slow_s in answers:
        assert slowed == 2  # of three connections two lead to the other host
        # A ring of four sends 3/4 of 4 MB twice over each of its wires; half of the 10 MB/s for one of two workers,
        # half of that for one of two connections: 2.4 s, of which a burst on each connection is free.
        assert fast_s < 0.8
        assert 1.8 < slow_s < 3.2


def all_reduce(rank: int, workers: int) -> tuple[int, float, float]:
    import torch.distributed as dist

    values = torch.ones(1_000_000)

    def took() -> float:
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(values)
        return time.perf_counter() - began

    fast_s = took()
    link = Link(kind="paced", hosts=2, name=f"{8 * RATE / 1e6:g}mbit")
    slowed = pace(link, rank, workers, at_once=2)
    return slowed, fast_s, took()
