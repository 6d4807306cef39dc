"""Connections that the kernel slows down, for machines that cannot emulate hosts."""

from __future__ import annotations

import time

import torch

from gnnqlab.launch.paced import pace
from gnnqlab.train.link import Link
from tests.ranks import run_ranks
from tests.slow_down import kept

RATE = 10e6


def test_the_kernel_slows_down_what_no_transport_carries() -> None:
    answers = run_ranks(all_reduce, 4)
    for slowed, slow_s in answers:
        assert slowed == 2  # of three connections two lead to the other host
        # A ring of four sends 3/4 of 4 MB twice over each of its wires; half of the 10 MB/s for one of two workers,
        # half of that for one of two connections: 2.4 s, of which a burst on each connection is free.
        assert slow_s > 1.8 and kept(slow_s, 3.2)


def all_reduce(rank: int, workers: int) -> tuple[int, float]:
    import torch.distributed as dist

    values = torch.ones(1_000_000)

    def took() -> float:
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(values)
        return time.perf_counter() - began

    link = Link(kind="paced", hosts=2, name=f"{8 * RATE / 1e6:g}mbit")
    slowed = pace(link, rank, workers, at_once=2)
    return slowed, took()
