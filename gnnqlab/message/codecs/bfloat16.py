"""Codec for bfloat16, the type of activations under the axis ``compute``: half the bytes of float32.

Letters: n rows of a message, D columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.codec.rows import note_non_finite
from gnnqlab.message.codecs.codec import Codec, Noise
from gnnqlab.message.layout import Layout

__all__ = ["BFloat16"]

_BLOCK = 1 << 17
"""Elements of a block: half a megabyte of float32, which fits in a cache."""


@dataclass(frozen=True)
class BFloat16(Codec):
    """Round rows to the nearest bfloat16: two bytes per element, no quantization parameters.

    The relative error of an element is at most ``2^-8``, and identical in every epoch in which the element does not
    change: rounding is **not unbiased**. Rows that a bfloat16 product would round anyway (``compute="bfloat16"``) lose
    nothing more, and rows that already are bfloat16 are copied. Gradients of halo rows, and operands of the layer
    before the loss, are float32 under ``compute`` and are rounded here.

    Example:
        >>> codec, rows, first = BFloat16(), torch.tensor([[1.0, -3.0, 1.001]]), torch.tensor([0])
        >>> layout, noise = codec.layout(16, 1, 3), Noise(0, 0, 0)
        >>> segment, out = torch.zeros(layout.num_bytes, dtype=torch.uint8), torch.zeros(1, 3)
        >>> _ = codec.encode(rows, first, first, layout, segment, noise)
        >>> codec.decode(segment, layout, out, first, accumulate=False)
        >>> out.tolist(), layout.num_bytes
        ([[1.0, -3.0, 1.0]], 6)
    """

    takes_bfloat16: ClassVar[bool] = True
    """True: bfloat16 rows are encoded without a conversion to float32."""

    @property
    def same_at_receivers(self) -> bool:
        """True: rounding is a function of the row alone."""
        return True

    @property
    def widths(self) -> tuple[int, ...]:
        return (16,)

    def param_bytes(self, bits: int, columns: int) -> int:
        return 0

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        """Gather rows and round them to bfloat16.

        Args:
            x: float32 or bfloat16 ``(N, D)``.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf, or an element that rounds to Inf.
        """
        sent_nD = _elements(segment, layout)  # (n, D) bfloat16, a view of the message
        if x.dtype == torch.bfloat16:
            torch.index_select(x, 0, rows, out=sent_nD)
        else:
            # Blocks of rows, so that the gathered float32 copy stays in a cache.
            for block in _blocks(layout):  # the assignment rounds float32 to the nearest bfloat16
                sent_nD[block] = x.index_select(0, rows[block])
        _expect_finite(sent_nD)
        return None

    def decode(
        self,
        segment: Tensor,
        layout: Layout,
        out: Tensor,
        rows: Tensor,
        *,
        accumulate: bool,
        ids: Tensor | None = None,
        noise: Noise | None = None,
    ) -> None:
        received_nD = _elements(segment, layout)  # (n, D) bfloat16
        put = out.index_add_ if accumulate else out.index_copy_
        for block in _blocks(layout):
            put(0, rows[block], received_nD[block].to(out.dtype))


def _elements(segment: Tensor, layout: Layout) -> Tensor:
    return segment.view(torch.bfloat16).view(layout.num_rows, layout.columns)  # (2 n D,) uint8 -> (n, D)


def _blocks(layout: Layout) -> Iterator[slice]:
    size = max(1, _BLOCK // max(layout.columns, 1))
    for first in range(0, layout.num_rows, size):
        yield slice(first, min(first + size, layout.num_rows))


def _expect_finite(rows_nD: Tensor) -> None:
    if rows_nD.is_cuda:
        note_non_finite(~torch.isfinite(rows_nD).all(dim=1))
    elif not torch.isfinite(rows_nD.sum(dtype=torch.float32)):  # row by row only if the cheap test fails
        finite_n = torch.isfinite(rows_nD).all(dim=1)  # (n, D) -> (n,) bool
        if not bool(finite_n.all()):
            raise NonFiniteRow(int((~finite_n).nonzero()[0, 0]))
