"""Who sends which rows to whom: all that codecs, transports and schedules see of a graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Plan", "Route"]


@dataclass(frozen=True, eq=False)
class Route:
    """Rows that go to, or come from, one peer."""

    peer: int
    rows: Tensor
    """Local rows, int64 ``(n,)``."""
    ids: Tensor
    """Their global node ids, int64 ``(n,)``."""
    first: int | None
    """Where they begin, if ``rows`` counts up by one from there; else ``None``."""
    kept: Tensor | None = None
    """Places of these rows in the route without sampling, int64 ``(n,)``; ``None``: it has no others."""

    @property
    def num_rows(self) -> int:
        return self.rows.numel()


@dataclass(frozen=True, eq=False)
class Plan:
    """One direction of an exchange."""

    rank: int
    workers: int
    send: tuple[Route, ...]
    receive: tuple[Route, ...]
    accumulate: bool
    """Whether received rows are added to what is there (gradients, partial sums) or replace it."""
    parts: bool = False
    """Whether several senders have a part of the same node's row, which must err independently."""
    to_all: bool = False
    """Whether all receivers of a node's row get the same: bit-widths and noise do not depend on who receives it."""
    exact: bool = False
    """Whether rows travel as float32, all of them, whatever codec, widths and cache a system has."""

    @property
    def sent_rows(self) -> Tensor:
        """Rows to each worker, int64 ``(P,)``; zero for this one."""
        return _counts(self.send, self.workers)

    @property
    def received_rows(self) -> Tensor:
        """Rows from each worker, int64 ``(P,)``; zero for this one."""
        return _counts(self.receive, self.workers)

    def from_peer(self, peer: int) -> Route:
        """Return the rows that come from a worker.

        Raises:
            ValueError: if ``peer`` is this worker, or none.
        """
        return _of(self.receive, peer, self)

    def to_peer(self, peer: int) -> Route:
        """Return the rows that go to a worker; errors as :meth:`from_peer`."""
        return _of(self.send, peer, self)


def _counts(routes: tuple[Route, ...], workers: int) -> Tensor:
    counts = torch.zeros(workers, dtype=torch.int64)
    for route in routes:
        counts[route.peer] = route.num_rows
    return counts


def _of(routes: tuple[Route, ...], peer: int, plan: Plan) -> Route:
    for route in routes:
        if route.peer == peer:
            return route
    others = sorted(route.peer for route in routes)
    raise ValueError(f"worker {plan.rank} exchanges rows with the workers {others}, got {peer}")
