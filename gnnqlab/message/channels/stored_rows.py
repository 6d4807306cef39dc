"""Received rows of one exchange outside its buffers: for a checkpoint, and in a training that resumes from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["StoredRows"]

_NOT_SAMPLED = -1


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Rows that were received and decoded, but not used yet; they replace a :class:`PendingReceive`.

    Rows are stored by message, not as their sum: float32 sums depend on the order of their terms, and a row may get
    gradients from several workers.

    Example:
        >>> rows = StoredRows((3, 1), ((torch.tensor([0, 2]), torch.tensor([[1.0], [2.0]])),), accumulate=True)
        >>> StoredRows.from_tensors(rows.tensors()).decode(torch.ones(3, 1)).flatten().tolist()
        [2.0, 1.0, 3.0]
    """

    shape: tuple[int, int]
    """Shape of the output, ``(m, D)``."""
    messages: Sequence[tuple[Tensor, Tensor]]
    """Rows of each message in the order of their senders: indices of output rows, int64 ``(n,)``, and their values,
    float32 ``(n, D)``."""
    accumulate: bool
    """True if rows are added to the output, False if they replace rows of it."""
    sampled_in: int | None = None
    """Epoch in which these rows were sampled; ``None``: all rows."""

    def wait(self) -> None:
        """Return at once: the rows have been received."""

    def decode(self, out: Tensor | None = None) -> Tensor:
        """Write the rows to ``out``, or add them; return it. By default ``out`` is a new tensor of zeros."""
        if out is None:
            device = self.messages[0][1].device if self.messages else None
            out = torch.zeros(self.shape, device=device)  # (m, D)
        for rows, values in self.messages:
            if self.accumulate:
                out.index_add_(0, rows, values)
            else:
                out.index_copy_(0, rows, values)
        return out

    def to_store(self) -> StoredRows:
        """Return these rows."""
        return self

    def tensors(self) -> dict[str, Tensor]:
        """Return the rows as tensors for a file; :meth:`from_tensors` is the inverse."""
        sampled_in = _NOT_SAMPLED if self.sampled_in is None else self.sampled_in
        counts = [rows.numel() for rows, _ in self.messages]
        return {
            "layout": torch.tensor([*self.shape, int(self.accumulate), sampled_in, *counts]),
            "rows": torch.cat([torch.empty(0, dtype=torch.int64), *(rows.cpu() for rows, _ in self.messages)]),
            "values": torch.cat([torch.empty(0, self.shape[1]), *(values.cpu() for _, values in self.messages)]),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], device: torch.device | str = "cpu") -> StoredRows:
        """Return the rows of :meth:`tensors` on a device."""
        num_rows, columns, accumulate, sampled_in, *counts = tensors["layout"].tolist()
        rows, values = (tensors[name].to(device, copy=True).split(counts) for name in ("rows", "values"))
        return cls(
            (num_rows, columns),
            tuple(zip(rows, values, strict=True)),
            accumulate=bool(accumulate),
            sampled_in=None if sampled_in == _NOT_SAMPLED else sampled_in,
        )
