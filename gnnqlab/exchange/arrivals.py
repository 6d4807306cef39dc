"""What other workers send for a step: rows that land in a buffer, used at once or in the next epoch."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.message.channel import Pending

__all__ = ["AddedRows", "PlacedRows"]


class PlacedRows:
    """Halo rows: each has its place in the buffer.

    Args:
        into: the buffer ``(H, ...)`` in which they land.
        sampled_in: epoch whose sample they are; ``None``: all rows.
    """

    def __init__(self, into: Tensor, *, sampled_in: int | None = None) -> None:
        self.into, self.sampled_in = into, sampled_in
        self.pending: Pending | None = None

    def arrive(self) -> None:
        """Return when every byte has come."""
        if self.pending is not None:
            self.pending.arrive()

    def land(self) -> None:
        """Put what has come in its place."""
        if self.pending is not None:
            self.pending.land()
            self.pending = None

    def finish(self) -> Tensor:
        """Return the rows once all have landed."""
        self.arrive()
        self.land()
        return self.into


class AddedRows(PlacedRows):
    """Gradients of boundary rows: several workers' are added to one row.

    Args:
        out: gradient of owned rows ``(N, D)``, to which they are added.
        apart: whether they land in a buffer of their own first, for an epoch to come.
    """

    def __init__(self, out: Tensor, *, apart: bool) -> None:
        super().__init__(torch.zeros_like(out) if apart else out)
        self._apart = apart

    def add_to(self, out: Tensor, rows: Tensor | None = None) -> None:
        """Add these rows, or those of an earlier epoch, to gradients that are computed now."""
        if rows is None:
            self.land()
            rows = self.into
        if self._apart:
            out += rows
