"""Sums over the workers that are threads of one process, in the place of those over a process group."""

from __future__ import annotations

import threading

import torch

from gnnqlab.train.loop.parameters import FlatParameters
from gnnqlab.train.loop.reduction import Facts, Slots, Summed

__all__ = ["PATIENCE_S", "JoinedThreads", "PeerGone"]

PATIENCE_S = 60.0
"""Seconds that a worker waits for another."""


class PeerGone(RuntimeError):
    """A worker that waits in vain, because another has failed."""


class JoinedThreads:
    """Sums the gradients and facts of all workers, so that each takes its steps as a launched one.

    The sums of two workers are those of a process group to the bit; of more, terms are added in another order.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._barrier = threading.Barrier(workers, timeout=PATIENCE_S)
        self._parameters: list[FlatParameters] = []

    def reduction(self, parameters: FlatParameters, slots: Slots) -> _ThreadSum:
        """Return what sums for one worker; called once for each, in the order of their ranks."""
        self._parameters.append(parameters)
        return _ThreadSum(self, len(self._parameters) - 1, slots)

    def abort(self) -> None:
        """Let no worker wait for one that has failed."""
        self._barrier.abort()

    def sum(self, rank: int) -> None:
        """Leave the sum of all workers' buffers in that of one; all workers call it together."""
        self._wait(rank)  # for every buffer to be complete
        total = torch.stack([each.summed for each in self._parameters]).sum(0)  # (P, n) -> (n,)
        self._wait(rank)  # for every worker to have read the buffers
        self._parameters[rank].summed.copy_(total)

    def facts(self, rank: int) -> torch.Tensor:
        """Return the facts of one worker's buffer."""
        return self._parameters[rank].facts

    def _wait(self, rank: int) -> None:
        try:
            self._barrier.wait()
        except threading.BrokenBarrierError:
            raise PeerGone(f"worker {rank} needs the sums of all workers, got fewer; see the other's error") from None


class _ThreadSum:
    sent_bytes = 0

    def __init__(self, joined: JoinedThreads, rank: int, slots: Slots) -> None:
        self._joined, self._rank, self._slots = joined, rank, slots

    def begin(self, facts: Facts) -> None:
        self._slots.write(self._joined.facts(self._rank), facts, self._rank)

    def finish(self) -> Summed:
        self._joined.sum(self._rank)
        return self._slots.read(self._joined.facts(self._rank))
