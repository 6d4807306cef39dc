"""Who sends which rows to whom: all that codecs, transports and schedules see of a graph."""

from __future__ import annotations

from dataclasses import dataclass

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
