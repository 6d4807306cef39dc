"""Linear codec: rows are rounded to the nearest level instead of stochastically.

Letters as in :mod:`gnnqlab.kernels.codec.rows`, whose ``decode_rows`` decodes the codes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.kernels.codec.rows import NON_FINITE, WIDTHS, raise_or_note, row_bytes, run_noting
from gnnqlab.kernels.reference import linear as reference

__all__ = ["encode_linear"]

# x, N, stride, D; rows, n; bits, width, offsets; payload, bytes; params, ranges; threads.
_encode_linear = native.declare("encode_linear", "p i i i p i p i p p i p p i")


def encode_linear(
    x: Tensor,
    rows: Tensor,
    bits: int | Tensor,
    offsets: Tensor | None,
    payload: Tensor,
    params: Tensor,
    ranges: Tensor,
) -> None:
    """Write ``q = min(floor((x - Z) / S + 1/2), 2**b - 1)``, ``Z = min``, ``S = (max - min) / 2**b``, for ``x[rows]``.

    CDFGNN Eq. 22 with codes clamped to b bits. A constant row encodes to zeros.

    Args:
        x: float32 ``(N, D)``; a row's stride may exceed D.
        rows: indices of the rows, int64 ``(n,)``.
        bits: one bit-width of 1, 2, 4 or 8, or one per row (uint8).
        offsets: start of each row's payload (int64), or None for consecutive rows of one bit-width.
        payload: uint8, one-dimensional.
        params: float32 ``(n, 2)``, receives (Z, S).
        ranges: float32 ``(n,)``, receives ``max - min``.

    Raises:
        NonFiniteRow: if a row holds NaN or Inf or its range overflows; on CUDA ``raise_refused`` raises it.
        ValueError: if bit-widths, rows or offsets are invalid.

    Example:
        >>> payload, params = torch.zeros(1, dtype=torch.uint8), torch.zeros(1, 2)
        >>> encode_linear(torch.tensor([[0.0, 1.0, 4.0]]), torch.tensor([0]), 2, None, payload, params, torch.zeros(1))
        >>> payload.tolist() == [0 + (1 << 2) + (3 << 4)], params.tolist()
        (True, [[0.0, 1.0]])
    """
    count, columns = rows.numel(), x.shape[1]
    if count == 0 or columns == 0:
        # Without codes (Z, S) and ranges must still be defined.
        params.zero_()
        ranges.zero_()
        return
    if x.stride(1) == 1 and native.active(x.device):
        widths = bits if isinstance(bits, Tensor) else None
        refusal = run_noting(
            _encode_linear, x, x.shape[0], x.stride(0), columns, rows, count, widths, 0 if widths is not None else bits,
            offsets, payload, payload.numel(), params, ranges,
        )  # fmt: skip
        position, reason = divmod(refusal, 8)  # see `native.take_refusal`
        if reason == NON_FINITE:
            raise NonFiniteRow(position)
        if refusal:
            raise ValueError(
                f"rows must be rows of x, widths one of {WIDTHS} and codes inside the payload, got an invalid one at "
                f"position {position}"
            )
        return
    # The reference takes a bit-width and an offset for each row, (n,) each.
    bits_n = bits if isinstance(bits, Tensor) else torch.full((count,), bits, dtype=torch.uint8, device=x.device)
    if not set(bits_n.unique().tolist()) <= set(WIDTHS):
        raise ValueError(f"widths must be one of {WIDTHS}, got {sorted(bits_n.unique().tolist())}")
    if offsets is None:
        size = int(row_bytes(columns, int(bits_n[0])))
        offsets = torch.arange(count, device=x.device) * size  # rows of one size follow each other
    bad_row = reference.encode_linear(x, rows, bits_n, offsets, payload, params, ranges)
    raise_or_note(bad_row)
