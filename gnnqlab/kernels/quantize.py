"""Rows to symmetric codes: one step is the largest magnitude over the largest code, zero is code 0.

What products multiply as integers. TANGO (Chen et al., SC 2023, section 3.2) quantizes a tensor with one scale and
rounds by noise; a scale a row is ours, and needs nobody else's rows. Letters: N rows, D columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.kernels.adjacency import describe
from gnnqlab.kernels.aggregate import QuantizedRows
from gnnqlab.kernels.noise import check_counter
from gnnqlab.kernels.reference import quantize as reference

__all__ = ["SCALES", "WIDTHS", "Noise", "check_bits", "quantize"]

WIDTHS = (2, 3, 4, 5, 6, 7, 8)
"""Bits of a code that products take; a code of any width fills a byte."""
SCALES = ("row", "tensor")

_quantize = native.declare("quantize", "p i i i p i f i i i i i p i p i")


@dataclass(frozen=True, eq=False)
class Noise:
    """Rounding bits of rows: a function of (seed, epoch, stream, id, column), as in :mod:`gnnqlab.kernels.noise`."""

    ids: Tensor
    """Of the rows, int64 or int32 ``(N,)`` below 2**32."""
    seed: int
    epoch: int
    stream: int
    """From :func:`gnnqlab.kernels.noise.stream`."""

    def __post_init__(self) -> None:
        check_counter(self.seed, self.epoch, self.stream)


def check_bits(bits: int) -> None:
    """Refuse a width that codes cannot have."""
    if bits not in WIDTHS:
        raise ValueError(f"bits must be one of {WIDTHS}, got {bits}: one bit has no level beside zero")


def quantize(
    x: Tensor,
    *,
    bits: int = 8,
    scale: str = "row",
    noise: Noise | None = None,
    out: QuantizedRows | None = None,
) -> QuantizedRows:
    """Round each element to a multiple of its row's, or the matrix's, scale.

    ``q = floor(x / s + u)`` with ``s = max|x| / L``, ``L = 2**(b - 1) - 1`` and ``u`` uniform in [0, 1) from the noise,
    so that ``E[q s] = x``; without noise ``u = 1/2``. Codes lie in [-L, L]. A zero stays zero under any noise; a row
    (or matrix) whose elements are all below 2**-100 becomes zeros of scale 0.

    Differs: ``s = max|x| / (2**(b - 1) - 1/2)``, as the paper prints it, sends the largest element to 127.5, and its
    codes to 128, which a byte does not hold.

    Args:
        x: float32 ``(N, D)``; a row's stride may exceed D.
        bits: b, 2 to 8; a code fills a byte whatever its width.
        scale: ``"row"``: each row has its own; ``"tensor"``: one for all of x, returned for each row.
        noise: of the rows; ``None`` rounds to nearest, which is biased.
        out: written and returned; made if not given.

    Returns:
        Codes and scales, with ``codes[i] * scales[i]`` off by less than ``scales[i]``, half of it without noise.

    Raises:
        NonFiniteRow: if a row holds NaN or Inf.
        ValueError: if a setting is unknown or a shape does not fit.

    Example:
        >>> quantize(torch.tensor([[-1.0, 0.0, 0.5], [0.0, 0.0, 0.0]]), bits=4).codes.tolist()
        [[-7, 0, 4], [0, 0, 0]]
    """
    check_bits(bits)
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {SCALES}, got {scale!r}")
    if x.dtype != torch.float32 or x.dim() != 2:
        raise ValueError(f"rows to quantize must be float32 of shape (N, D), got {describe(x)}")
    rows, columns = x.shape
    if noise is not None and noise.ids.shape != (rows,):
        raise ValueError(f"noise must have an id for each of {rows} rows, got shape {tuple(noise.ids.shape)}")
    if out is None:
        out = QuantizedRows(x.new_empty((rows, columns), dtype=torch.int8), x.new_empty(rows))
    levels, whole = 2 ** (bits - 1) - 1, scale == "tensor"
    ids = None if noise is None else noise.ids.contiguous()
    counter = (0, 0, 0) if noise is None else (noise.seed, noise.epoch, noise.stream)
    if not (x.is_cpu and native.active(x.device)) or rows == 0 or columns == 0:
        names = dict(zip(("seed", "epoch", "stream"), counter, strict=True))
        codes, scales, bad = reference.quantize(x, levels=levels, whole=whole, ids_N=ids, **names)
        if bool(bad.any()):
            raise NonFiniteRow(int(bad.nonzero()[0, 0]))
        out.codes.copy_(codes)
        out.scales.copy_(scales)
        return out
    if columns > 1 and x.stride(1) != 1:
        x = x.contiguous()
    refusal = _quantize(
        x.data_ptr(), x.stride(0), rows, columns,
        None if ids is None else ids.data_ptr(), int(ids is not None and ids.dtype == torch.int32), float(levels),
        int(whole), int(noise is not None), *counter, out.codes.data_ptr(), out.codes.stride(0),
        out.scales.data_ptr(), native.threads(),
    )  # fmt: skip
    if refusal:
        raise NonFiniteRow(refusal - 1)
    return out
