"""Choice of the cheapest codec and bit-width for samples of a model's own rows, by their measured error.

Letters: n rows, D columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gnnqlab.bits.row import EXACT
from gnnqlab.halo.row_transfers import check_stateless
from gnnqlab.kernels.codec.rows import raise_refused
from gnnqlab.kernels.noise import stream
from gnnqlab.message.codecs.codec import Codec, Float32, Noise, Stochastic
from gnnqlab.message.codecs.fp8 import FP8, MXFP8
from gnnqlab.message.codecs.least_variance import LeastVariance
from gnnqlab.message.codecs.rotated import Rotated

__all__ = ["CodecChoice", "MeasuredCodec", "choose_codec"]

_UNBIASED = (
    Stochastic(),
    Stochastic(parameters="bfloat16"),
    Rotated(),
    LeastVariance(),
    FP8(rounding="stochastic"),
    MXFP8(rounding="stochastic"),
)
_DRAWS = 3
"""Number of encodings with different noise over which errors are averaged."""


@dataclass(frozen=True)
class MeasuredCodec:
    """Measured bytes and error of one codec at one bit-width."""

    codec: Codec
    bits: int
    bytes_per_row: float
    """Mean bytes of a row with its parameters."""
    relative_error: float
    """``sqrt(E|decode(encode(x)) - x|^2 / |x|^2)`` over all samples."""


@dataclass(frozen=True)
class CodecChoice:
    """Result of :func:`choose_codec`; ``exchange_rows(x, plan, codec=choice.codec, bits=choice.bits)`` uses it."""

    codec: Codec
    bits: int
    max_relative_error: float
    table: tuple[MeasuredCodec, ...]
    """All candidates, the cheapest first."""

    def __str__(self) -> str:
        """Return the table as text; ``*`` marks the choice."""
        lines = [f"{'':2}{'codec':<40} bits  bytes/row  relative error"]
        for row in self.table:
            mark = "*" if (row.codec, row.bits) == (self.codec, self.bits) else ""
            lines.append(f"{mark:2}{row.codec!r:<40} {row.bits:4}  {row.bytes_per_row:9.1f}  {row.relative_error:.3g}")
        return "\n".join(lines)


def choose_codec(
    samples: Tensor | Sequence[Tensor],
    *,
    max_relative_error: float,
    codecs: Sequence[Codec] = _UNBIASED,
    seed: int = 0,
) -> CodecChoice:
    """Choose the codec and bit-width with the fewest bytes whose measured error is within a limit.

    Measure rows and gradients apart, with samples of both: ``codec=(rows.codec, gradients.codec)`` and
    ``bits=(rows.bits, gradients.bits)`` use two choices. Ranks must use the same choice: broadcast samples, or choose
    on one rank. Float32 has no error, so a choice always exists.

    Args:
        samples: rows as a model sends them, floating-point ``(n, D)``, or several such tensors.
        max_relative_error: limit of the root mean square error, relative to that of the rows, at least 0.
        codecs: candidates at all of their bit-widths, in addition to float32; by default all unbiased ones.
        seed: seed of the rounding noise.

    Raises:
        ValueError: if the samples have no rows, are not ``(n, D)`` and finite, the limit is negative, or a codec needs
            the state of a training.

    Example:
        >>> rows = torch.randn(100, 32, generator=torch.Generator().manual_seed(0))
        >>> choice = choose_codec(rows, max_relative_error=0.1, codecs=[Stochastic()])
        >>> choice.codec, choice.bits
        (Stochastic(parameters='float32', noise='receiver'), 8)
    """
    tensors = [samples] if isinstance(samples, Tensor) else list(samples)
    if not max_relative_error >= 0:
        raise ValueError(f"max_relative_error must be at least 0, got {max_relative_error}")
    for rows in tensors:
        if rows.dim() != 2 or not rows.is_floating_point() or not bool(torch.isfinite(rows).all()):
            raise ValueError(
                f"samples must be finite rows (n, D) of a floating type, got {rows.dtype} {tuple(rows.shape)}; pass "
                "rows as they are sent"
            )
    tensors = [rows.detach().float().contiguous() for rows in tensors if rows.numel()]
    if not tensors:
        raise ValueError("samples must have at least one row, got none; pass rows as a model sends them")
    for codec in codecs:
        check_stateless(codec)
    candidates = [(codec, bits) for codec in codecs for bits in codec.widths if bits != EXACT] + [(Float32(), EXACT)]
    table = sorted((_measure(codec, bits, tensors, seed) for codec, bits in candidates), key=_cost)
    chosen = next(row for row in table if row.relative_error <= max_relative_error)
    return CodecChoice(chosen.codec, chosen.bits, max_relative_error, tuple(table))


def _cost(row: MeasuredCodec) -> tuple[float, float]:
    return row.bytes_per_row, row.relative_error


def _measure(codec: Codec, bits: int, tensors: Sequence[Tensor], seed: int) -> MeasuredCodec:
    """Encode and decode all samples several times."""
    squared_error = squared_norm = 0.0
    num_bytes = num_rows = 0
    for index, x in enumerate(tensors):
        rows = torch.arange(x.shape[0], device=x.device)
        layout = codec.layout(bits, x.shape[0], x.shape[1])
        num_bytes, num_rows = num_bytes + layout.num_bytes, num_rows + x.shape[0]
        squared_norm += float(x.double().square().sum()) * _DRAWS
        for draw in range(_DRAWS):
            noise = Noise(seed, draw, stream("forward", index % 4096))
            segment = torch.empty(layout.num_bytes, dtype=torch.uint8, device=x.device)
            codec.encode(x, rows, rows, layout, segment, noise)
            if x.is_cuda:
                raise_refused(x.device)
            decoded = codec.rows(x.shape[0], x.shape[1], x.device)
            codec.decode(segment, layout, decoded, rows, accumulate=False, ids=rows, noise=noise)
            squared_error += float((decoded.double() - x.double()).square().sum())
    relative_error = math.sqrt(squared_error / squared_norm) if squared_norm else 0.0
    return MeasuredCodec(codec, bits, num_bytes / num_rows, relative_error)
