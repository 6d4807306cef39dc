"""Symmetric quantization of rows: the step is the largest magnitude over the largest code, zero is code 0.

Operands of integer products. TANGO (Chen et al., SC 2023, section 3.2) quantizes a tensor with one scale and rounds
stochastically; a scale per row is ours, and needs no rows of other workers. Letters: N rows, D columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, overload

import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.kernels.codec.rows import raise_or_note, run_noting
from gnnqlab.kernels.dense.code_rows import PairedRows, QuantizedRows, check_paired, pack_pairs
from gnnqlab.kernels.noise import check_counter
from gnnqlab.kernels.reference import quantize as reference
from gnnqlab.kernels.sparse.adjacency import describe

__all__ = ["SCALES", "WIDTHS", "NoiseCounter", "check_bits", "largest_magnitude", "quantize"]

WIDTHS = (2, 3, 4, 5, 6, 7, 8)
"""Bit-widths of codes supported by products."""
SCALES = ("row", "tensor")

# x, stride, N, D; ids, are int32; L, largest, is stochastic; seed, epoch, stream; codes, stride, scales; threads.
_quantize = native.declare("quantize", "p i i i p i f p i i i i p i p i")
_quantize_pairs = native.declare("quantize_pairs", "p i i i p i f p i i i i p i p i")


@dataclass(frozen=True, eq=False)
class NoiseCounter:
    """Counter of rounding noise, a function of (seed, epoch, stream, id, column); see :mod:`gnnqlab.kernels.noise`."""

    ids: Tensor
    """Ids of the rows, int64 or int32 ``(N,)`` below 2**32."""
    seed: int
    epoch: int
    stream: int
    """From :func:`gnnqlab.kernels.noise.stream`."""

    def __post_init__(self) -> None:
        check_counter(self.seed, self.epoch, self.stream)


def check_bits(bits: int) -> None:
    """Check that a bit-width is supported."""
    if bits not in WIDTHS:
        raise ValueError(f"bits must be one of {WIDTHS}, got {bits}; a symmetric code of one bit has no level but zero")


@overload
def quantize(
    x: Tensor,
    *,
    bits: int = ...,
    scale: str = ...,
    noise: NoiseCounter | None = ...,
    out: QuantizedRows | None = ...,
    largest: float | Tensor | None = ...,
    packed: Literal[False] = ...,
) -> QuantizedRows: ...
@overload
def quantize(
    x: Tensor,
    *,
    bits: int,
    scale: str = ...,
    noise: NoiseCounter | None = ...,
    out: None = ...,
    largest: float | Tensor | None = ...,
    packed: Literal[True],
) -> PairedRows: ...
def quantize(
    x: Tensor,
    *,
    bits: int = 8,
    scale: str = "row",
    noise: NoiseCounter | None = None,
    out: QuantizedRows | None = None,
    largest: float | Tensor | None = None,
    packed: bool = False,
) -> QuantizedRows | PairedRows:
    """Round each element to a multiple of the scale of its row, or of the matrix.

    ``q = floor(x / s + u)`` with ``s = max|x| / L``, ``L = 2**(b - 1) - 1`` and ``u`` uniform in [0, 1) from the noise,
    so that ``E[q s] = x`` (TANGO Eqs. 1 to 3); without noise ``u = 1/2``. Codes lie in [-L, L]. A zero stays zero under
    any noise; a row (or matrix) whose elements are all below 2**-100 becomes zeros of scale 0.

    Differs: ``s = max|x| / (2**(b - 1) - 1/2)``, as printed in the paper, maps the largest element to 127.5, and its
    code to 128, which exceeds int8.

    Args:
        x: float32 ``(N, D)``; a row's stride may exceed D.
        bits: b, 2 to 8; every code takes one byte unless it is packed.
        scale: ``"row"``: one scale per row; ``"tensor"``: one scale for all of x, returned for each row.
        noise: counter of the rounding noise; ``None`` rounds to nearest, which is biased.
        out: output, written and returned; allocated by default.
        largest: with one scale for all, the largest magnitude of the matrix that x is a part of; by default that of x.
            A tensor ``()`` is not checked here, which would need a synchronization; if it is NaN or infinite, the row
            with that element is refused.
        packed: store two codes of at most four bits per byte; the codes are identical. Only aggregation
            (:func:`gnnqlab.kernels.sparse.aggregate.spmm`) reads such rows. Not with ``out``.

    Returns:
        Codes and scales; the error of ``codes[i] * scales[i]`` is below ``scales[i]``, or half of it without noise.

    Raises:
        NonFiniteRow: if a row holds NaN or Inf; on CUDA ``raise_refused`` raises it.
        ValueError: if a setting is unknown or a shape does not match.

    Example:
        >>> quantize(torch.tensor([[-1.0, 0.0, 0.5], [0.0, 0.0, 0.0]]), bits=4).codes.tolist()
        [[-7, 0, 4], [0, 0, 0]]
    """
    check_bits(bits)
    if packed:
        check_paired(bits)
        if out is not None:
            raise ValueError("packed rows cannot be written to out; pass out=None")
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {SCALES}, got {scale!r}")
    if x.dtype != torch.float32 or x.dim() != 2:
        raise ValueError(f"rows to quantize must be float32 of shape (N, D), got {describe(x)}")
    rows, columns = x.shape
    if noise is not None and noise.ids.shape != (rows,):
        raise ValueError(f"noise must have an id for each of {rows} rows, got shape {tuple(noise.ids.shape)}")
    is_valid = isinstance(largest, Tensor) or largest is None or 0.0 <= largest < math.inf
    if not is_valid or (largest is not None and scale != "tensor"):
        raise ValueError(f"largest must be a finite magnitude with scale 'tensor', got {largest} and {scale!r}")
    use_kernel = native.active(x.device) and rows > 0 and columns > 0
    if packed and not use_kernel:
        return pack_pairs(quantize(x, bits=bits, scale=scale, noise=noise, largest=largest))
    result = _room(x, packed) if out is None else out
    levels, magnitude = 2 ** (bits - 1) - 1, None  # L: symmetric, so the code -2**(b - 1) is not used
    if scale == "tensor":
        if isinstance(largest, Tensor):
            magnitude = largest  # () on the device: its value is not read here
        else:
            magnitude = largest_magnitude(x) if largest is None else x.new_full((), largest)
    ids = None if noise is None else noise.ids.contiguous()
    counter = (0, 0, 0) if noise is None else (noise.seed, noise.epoch, noise.stream)
    if not use_kernel:
        names = dict(zip(("seed", "epoch", "stream"), counter, strict=True))
        codes, scales, bad_row = reference.quantize(x, levels=levels, largest=magnitude, ids_N=ids, **names)
        raise_or_note(bad_row)  # on the CPU raises; on CUDA records without synchronization
        result.codes.copy_(codes)
        result.scales.copy_(scales)
        return result
    if columns > 1 and x.stride(1) != 1:
        x = x.contiguous()  # the kernel takes any row stride, but adjacent columns
    refusal = run_noting(
        _quantize_pairs if packed else _quantize, x, x.stride(0), rows, columns, ids,
        int(ids is not None and ids.dtype == torch.int32), float(levels), magnitude, int(noise is not None), *counter,
        result.codes, result.codes.stride(0), result.scales,
    )  # fmt: skip
    if refusal:
        raise NonFiniteRow(refusal // 8)  # the kernel has no other reason to refuse a row
    return result


def largest_magnitude(x: Tensor) -> Tensor:
    """Return the largest magnitude of a matrix as a tensor ``()`` on its device: NaN if an element is, 0 if empty."""
    if x.numel() == 0:
        return x.new_zeros(())
    return torch.stack(torch.aminmax(x)).abs().amax()  # one pass; abs of x would copy the matrix


def _room(x: Tensor, is_packed: bool) -> QuantizedRows | PairedRows:
    (rows, columns), scales = x.shape, x.new_empty(x.shape[0])
    if is_packed:
        return PairedRows(x.new_empty((rows, -(-columns // 2)), dtype=torch.uint8), scales, columns)  # (N, ceil(D / 2))
    return QuantizedRows(x.new_empty((rows, columns), dtype=torch.int8), scales)  # (N, D)
