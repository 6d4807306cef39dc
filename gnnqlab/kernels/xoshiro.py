"""Rounding by a generator that lives in registers, beside the counter noise that the project rounds with.

TANGO (Chen et al., SC 2023, section 3.2) draws the noise of stochastic rounding from xoshiro256++, whose state it keeps
in registers: a generator in memory costs more than the rounding. This is that generator for comparison, and nothing
trains with it. ``gnnqlab bench int8`` says how little it saves beside counter noise; it gives up what counter noise is
for: to be a function of (seed, epoch, stream, node, column). A generator's next word depends on how many it has
drawn, so an element's noise depends on its place among the rows of a call. Rows that two workers hold would be rounded
differently, P workers would not train what one process trains, and a row could not be rounded again alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.kernels.codec.quantize import check_bits, raise_or_note
from gnnqlab.kernels.codec.rows import run_noting
from gnnqlab.kernels.noise import check_counter
from gnnqlab.kernels.reference import quantize as rounding
from gnnqlab.kernels.reference import xoshiro as reference
from gnnqlab.kernels.sparse.adjacency import describe
from gnnqlab.kernels.sparse.aggregate import QuantizedRows

__all__ = ["quantize_xoshiro", "xoshiro"]

_xoshiro = native.declare("xoshiro", "p i p")
_quantize_xoshiro = native.declare("quantize_xoshiro", "p i i i f i p i p i")


def quantize_xoshiro(x: Tensor, *, bits: int = 8, seed: int, out: QuantizedRows | None = None) -> QuantizedRows:
    """Round each element to a multiple of its row's scale with noise from generators in registers.

    ``q = floor(x / s + u)`` with ``s = max|x| / L`` and ``L = 2**(b - 1) - 1``, as in
    :func:`gnnqlab.kernels.codec.quantize.quantize` (TANGO Eqs. 1 to 3); ``u`` are 16-bit values of eight xoshiro256++
    generators for each block of 64 rows, which begin at words of SplitMix64 of (seed, block). The codes do not depend
    on threads, instruction set or backend.

    Args:
        x: float32 ``(N, D)``; a row's stride may exceed D.
        bits: b, 2 to 8; a code fills a byte whatever its width.
        seed: in [0, 2**63).
        out: written and returned; made if not given.

    Returns:
        Codes and scales, with ``codes[i] * scales[i]`` off by less than ``scales[i]``.

    Raises:
        NonFiniteRow: if a row holds NaN or Inf; on CUDA ``raise_refused`` does.
        ValueError: if a setting is unknown or a shape does not fit.

    Example:
        >>> quantize_xoshiro(torch.tensor([[-1.0, 0.0, 1.0]]), bits=4, seed=0).codes.tolist()
        [[-7, 0, 7]]
    """
    check_bits(bits)
    check_counter(seed, 0, 0)
    if x.dtype != torch.float32 or x.dim() != 2:
        raise ValueError(f"rows to quantize must be float32 of shape (N, D), got {describe(x)}")
    (rows, columns), levels = x.shape, 2 ** (bits - 1) - 1
    if out is None:
        out = QuantizedRows(x.new_empty((rows, columns), dtype=torch.int8), x.new_empty(rows))
    if not native.active(x.device) or rows == 0 or columns == 0:
        noise = reference.bits16(rows, columns, seed=seed).to(x.device)
        codes, scales, bad = rounding.rounded(x, noise, levels=levels)
        raise_or_note(bad)
        out.codes.copy_(codes)
        out.scales.copy_(scales)
        return out
    if columns > 1 and x.stride(1) != 1:
        x = x.contiguous()
    refusal = run_noting(
        _quantize_xoshiro, x.device,
        x.data_ptr(), x.stride(0), rows, columns, float(levels), seed,
        out.codes.data_ptr(), out.codes.stride(0), out.scales.data_ptr(),
    )  # fmt: skip
    if refusal:
        raise NonFiniteRow(refusal // 8)
    return out


def xoshiro(states: Tensor, draws: int) -> Tensor:
    """Draw words of eight xoshiro256++ generators side by side.

    Args:
        states: the bits of four 64-bit words for each generator, int64 ``(8, 4)``; not changed.
        draws: words of each.

    Returns:
        The bits of the words, int64 ``(draws, 8)``.

    Raises:
        ValueError: if the states have another shape or type.

    Example:
        >>> xoshiro(torch.tensor([[1, 2, 3, 4]] * 8), 2)[:, 0].tolist()
        [41943041, 58720359]
    """
    if states.dtype != torch.int64 or states.shape != (reference.LANES, reference.WORDS) or not states.is_cpu:
        raise ValueError(f"states must be int64 of shape (8, 4) on the CPU, got {describe(states)} on {states.device}")
    states = states.contiguous()
    if not native.active(states.device):
        return torch.from_numpy(reference.draw(states.numpy().view("uint64"), draws).view("int64"))
    out = torch.empty(draws, reference.LANES, dtype=torch.int64)
    _xoshiro(states.data_ptr(), draws, out.data_ptr())
    return out
