"""CDFGNN's Algorithm 2 under a vertex-cut: partial sums are cached where they are computed, totals where they are used.

Every copy of a node, the master too, tests its own partial sum. A total is the sum of the cached partial sums, and is
sent to all mirrors if any of them was updated. Letters: R rows, B masters with mirrors, D columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnqlab.kernels.rowwise.row_change import row_moves
from gnnqlab.message.caches.cache import Chooser, Held
from gnnqlab.message.caches.row_cache_state import OWN
from gnnqlab.message.channels.selected_rows import SelectedRows
from gnnqlab.message.channels.selection import Contents
from gnnqlab.message.codecs.codec import Codec, Noise
from gnnqlab.partition.plan import Route

__all__ = ["ActiveNodes", "ActiveTotals", "CachedParts"]


@dataclass
class ActiveNodes:
    """Nodes of which a partial sum was updated in the present synchronization."""

    rows: Tensor | None = None
    """True for local rows, bool ``(R,)``; ``None`` before the first synchronization."""


class CachedParts(SelectedRows):
    """Selection of the partial sums that mirrors send, with a cache of the master's own.

    Args:
        chooser, held: as for :class:`gnnqlab.message.channels.selected_rows.SelectedRows`.
        active: receives the nodes with an updated partial sum.
        rank: this worker.
    """

    def __init__(self, chooser: Chooser, held: Held, active: ActiveNodes, rank: int) -> None:
        super().__init__(chooser, held)
        self._active, self._key = active, (OWN, rank)
        self._own_rows: Tensor | None = None

    def cache_own(self, x: Tensor, rows: Tensor) -> None:
        if self._own_rows is None:
            self._own_rows = rows.unique()  # (B',) -> (B,): a node with several mirrors is joined several times
        own, epsilon = self._own_rows, self._chooser.epsilon
        held = self.held.get(self._key)
        self._active.rows = torch.zeros(x.shape[0], dtype=torch.bool, device=x.device)  # (R,)
        if held is None or held.shape != (own.numel(), x.shape[1]):
            self.held[self._key] = x.index_select(0, own)  # the first synchronization updates every sum
            self._active.rows[own] = True
            return
        assert epsilon is not None
        moved = row_moves(x, own, held, epsilon)  # lines 12 to 16 of Algorithm 2, (B, D) -> (k,)
        held.index_copy_(0, moved, x.index_select(0, own[moved]))
        self._active.rows[own[moved]] = True
        x.index_copy_(0, own, held)  # the total is a sum of cached values

    def put(
        self,
        contents: Contents,
        route: Route,
        out: Tensor,
        codec: Codec,
        noise: Noise,
        *,
        accumulate: bool,
        again: bool = False,
    ) -> Tensor:
        if self._active.rows is not None and route.num_rows and not again:
            self._active.rows[contents.of_rows(route.rows)] = True  # line 11: a received difference
        return super().put(contents, route, out, codec, noise, accumulate=accumulate, again=again)


class ActiveTotals(SelectedRows):
    """Selection of the totals that masters send: those of active nodes (lines 17 and 18 of Algorithm 2).

    Args:
        chooser, held: as for :class:`gnnqlab.message.channels.selected_rows.SelectedRows`.
        active: nodes with an updated partial sum.
    """

    def __init__(self, chooser: Chooser, held: Held, active: ActiveNodes) -> None:
        super().__init__(chooser, held)
        self._active = active

    def choose(self, x: Tensor, rows: Tensor, held: Tensor) -> tuple[Tensor | None, Tensor | None]:
        assert self._active.rows is not None, "partial sums are gathered before totals are sent"
        return self._active.rows[rows].nonzero().flatten(), None  # (n,) -> (k,) int64, ascending
