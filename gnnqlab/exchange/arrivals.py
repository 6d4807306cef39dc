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


class AddedRows:
    """Gradients of boundary rows: several workers' are added to one row.

    They stay bytes until they are added, so that rows of an epoch before need no buffer; until the next post they can
    be added again.

    Args:
        shape: of the gradient of owned rows, ``(N, D)``.
    """

    sampled_in = None

    def __init__(self, shape: torch.Size, device: torch.device) -> None:
        self._shape, self._device = shape, device
        self.pending: Pending | None = None
        self._came = False

    def arrive(self) -> None:
        """Return when every byte has come."""
        if self.pending is not None and not self._came:
            self.pending.arrive()
            self._came = True

    def add_to(self, out: Tensor, rows: Tensor | None = None) -> None:
        """Add these rows, or ``rows`` that were made of them, to gradients ``(N, D)`` that are computed here."""
        if rows is not None:
            out += rows
        elif self.pending is not None:
            self.arrive()
            self.pending.land(out)

    def finish(self) -> Tensor:
        """Return the rows once all have come, zeros where none belongs."""
        rows = torch.zeros(self._shape, device=self._device)
        self.add_to(rows)
        return rows
