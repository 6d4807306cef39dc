"""All-reduce over workers that are threads of one process, in place of a process group."""

from __future__ import annotations

import threading

import torch

from gnnqlab.train.loop.parameters import FlatParameters
from gnnqlab.train.loop.reduction import Facts, ReducedFacts, Slots

__all__ = ["PATIENCE_S", "ThreadGroup", "PeerError"]

PATIENCE_S = 60.0
"""Seconds after which a wait for another worker fails."""


class PeerError(RuntimeError):
    """Error of a worker whose wait ended because another worker has failed."""


class ThreadGroup:
    """All-reduce of gradients and facts over threads, so that each worker steps like a launched one.

    For two workers the sums are bitwise those of a process group; for more, terms are added in another order.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._barrier = threading.Barrier(workers, timeout=PATIENCE_S)
        self._parameters: list[FlatParameters] = []
        self._terms = [torch.empty(0)] * workers

    def reduction(self, parameters: FlatParameters, slots: Slots) -> _ThreadSum:
        """Return the reduction of one worker; to be called once per worker, in the order of ranks."""
        self._parameters.append(parameters)
        return _ThreadSum(self, len(self._parameters) - 1, slots)

    def abort(self) -> None:
        """Break all waits after a worker has failed."""
        self._barrier.abort()

    def sum(self, rank: int) -> None:
        """Write the sum of all workers' buffers to that of ``rank``; a collective call."""
        self._wait(rank)  # until every buffer is complete
        # In the order of ranks on every worker, so that all results are identical.
        total = torch.stack([each.summed for each in self._parameters]).sum(0)  # (P, n) -> (n,)
        self._wait(rank)  # until every worker has read the buffers
        self._parameters[rank].summed.copy_(total)

    def add(self, rank: int, values: torch.Tensor) -> torch.Tensor:
        """Return the sum of a tensor over all workers; a collective call."""
        self._terms[rank] = values
        self._wait(rank)  # until every term is there
        total = torch.stack(self._terms).sum(0)  # (P, ...) -> (...)
        self._wait(rank)  # until every worker has read the terms
        return total

    def facts(self, rank: int) -> torch.Tensor:
        """Return the facts of one worker's buffer."""
        return self._parameters[rank].facts

    def _wait(self, rank: int) -> None:
        try:
            self._barrier.wait()
        except threading.BrokenBarrierError:
            raise PeerError(
                f"worker {rank} needs the terms of a sum of all workers, but another worker failed; see its error"
            ) from None


class _ThreadSum:
    sent_bytes = 0

    def __init__(self, group: ThreadGroup, rank: int, slots: Slots) -> None:
        self._joined, self._rank, self._slots = group, rank, slots

    def begin(self, facts: Facts) -> None:
        # No lock is needed, because each worker writes to its own buffer.
        self._slots.write(self._joined.facts(self._rank), facts, self._rank)

    def finish(self) -> ReducedFacts:
        self._joined.sum(self._rank)
        return self._slots.read(self._joined.facts(self._rank))
