"""Eight-bit floating-point codecs with one scale per block of a row: FP8 and MXFP8.

Letters: n rows of a message, m of one part of it, D columns, B blocks of a row, W columns of a block.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.bits.row import EXACT
from gnnqlab.bits.variance import RowVariance
from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.codec.rows import note_non_finite
from gnnqlab.kernels.noise import uniform16
from gnnqlab.kernels.reference.codec import SMALLEST_RANGE
from gnnqlab.message.codecs.codec import Noise, PartCodec, PartRows
from gnnqlab.message.codecs.wide_codes import decode_32, row_norms
from gnnqlab.message.direction import of_direction
from gnnqlab.settings import OneOf, Range, check

__all__ = ["FP8", "MXFP8"]

_LARGEST_ELEMENT = 2.0**127
"""Largest accepted magnitude; rounding up a larger one could overflow."""


@dataclass(frozen=True)
class _Format:
    """Eight-bit floating-point format."""

    dtype: torch.dtype
    mantissa: int
    """Mantissa bits, without the implicit leading one."""
    lowest: int
    """Exponent of the smallest normal number; below it the step is constant (subnormal numbers)."""
    highest: int
    """Exponent of the largest number."""
    largest: float
    """Largest number."""


_FORMATS = {
    "e4m3": _Format(torch.float8_e4m3fn, 3, -6, 8, 448.0),
    "e5m2": _Format(torch.float8_e5m2, 2, -14, 15, 57344.0),
}
ELEMENTS = OneOf(tuple(_FORMATS))
ROUNDINGS = OneOf(("nearest", "stochastic"))
RECEIVERS = OneOf(("receiver", "node"))


class _ByBlock(PartCodec, ABC):
    """Common part of both codecs: eight bits per element, one scale per block; subclasses define the scales."""

    separate_widths: ClassVar[tuple[int, ...]] = (EXACT, 8)
    aligned: ClassVar[bool] = False
    integer_codes: ClassVar[bool] = True
    """True: each element is one byte, so codes can be counted although they are floats."""
    elements: str
    rounding: str
    noise: str

    @property
    @abstractmethod
    def _width(self) -> int:
        """W, columns of a block."""

    @property
    @abstractmethod
    def _scale_bytes(self) -> int:
        """Bytes of a block's scale."""

    @abstractmethod
    def _scales(self, largest_mB: Tensor) -> tuple[Tensor, Tensor]:
        """Return encoded scales and float32 scales of blocks with these largest magnitudes, each ``(m, B)``."""

    @abstractmethod
    def _decode_scales(self, scales: Tensor) -> Tensor:
        """Convert encoded scales, uint8, to float32."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def widths(self) -> tuple[int, ...]:
        return (8, EXACT)

    def biased(self, direction: str) -> str:
        """Return the reason why messages are biased; empty with stochastic rounding."""
        if self.rounding == "nearest":
            return "rounds to the nearest level, so a row has the same error in every draw"
        return ""

    def param_bytes(self, bits: int, columns: int) -> int:
        return 0 if bits == EXACT else -(-columns // self._width) * self._scale_bytes

    def row_variance(self, columns: int) -> RowVariance:
        """Return ``|x|^2 4^-M / (16 ln 2)``, M mantissa bits, for elements with log-uniform magnitudes.

        An element ``f 2^e`` has the step ``2^(e - M)``; the mean variance is a sixth of the squared step, and
        ``1 / f^2`` has the mean ``3 / (8 ln 2)`` if log2 f is uniform in [0, 1). For normally distributed rows the
        estimate is within a sixth; elements far below the largest of their block have more. With
        ``rounding="nearest"`` errors have a non-zero mean, so adaptive bit policies refuse it.
        """
        share = 4.0 ** -_FORMATS[self.elements].mantissa / (16 * math.log(2))
        return RowVariance(1.0, {8: (share,), EXACT: (0.0,)}, ("norm",))

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot use this codec, or an empty string."""
        for direction in ("forward", "backward"):
            weighs = of_direction(system.bits, direction).weighs_rows
            if self.rounding == "nearest" and weighs and of_direction(system.codec, direction) == self:
                return (
                    "rounding to the nearest is biased, and these bits assume the variance of unbiased codes (AdaQP "
                    "Theorem 1); choose rounding='stochastic' or other bits"
                )
        return ""

    def notes(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return the Euclidean norms of rows, float32 ``(n,)``."""
        return row_norms(x, rows)

    def encode_part(self, part: PartRows, x: Tensor, noted: Tensor, noise: Noise) -> None:
        """Encode scales and codes of one part.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf, or an element above 2^127.
        """
        x_mD = x.index_select(0, part.rows)  # (N, D) -> (m, D)
        _check_finite(x_mD)
        if part.width == EXACT:
            part.payload.copy_(x_mD.view(torch.uint8).flatten())
            return
        blocks = _blocks(x_mD, self._width)  # (m, D) -> (m, B, W)
        encoded_scales, scale_mB = self._scales(blocks.abs().amax(2))  # (m, B, W) -> (m, B) each
        part.params.copy_(encoded_scales.view(torch.uint8).flatten())
        # A block with scale 0 is divided by infinity and encodes to zeros.
        scaled_mBW = blocks / scale_mB.where(scale_mB > 0, torch.inf)[:, :, None]
        scaled_mD = scaled_mBW.flatten(1)[:, : x_mD.shape[1]]  # without the padding of the last block
        kind = _FORMATS[self.elements]
        if self.rounding == "stochastic":
            assert part.ids is not None
            scaled_mD = _round_by_noise(scaled_mD, kind, uniform16(part.ids, x_mD.shape[1], **noise.key(self.noise)))
        # Clamp first: the cast of a larger value gives Inf in e5m2.
        codes = scaled_mD.clamp(-kind.largest, kind.largest).to(kind.dtype)  # the cast rounds to nearest
        part.payload.copy_(codes.view(torch.uint8).flatten())  # (m, D) -> (m D,)

    def decode_part(self, part: PartRows, out: Tensor, noise: Noise | None, *, accumulate: bool) -> None:
        if part.width == EXACT:
            # One-byte scales in front may leave the payload unaligned for float32, so decode a copy.
            decode_32(part.payload.clone(), out, part.rows, accumulate=accumulate)
            return
        rows = part.rows
        codes = part.payload.view(_FORMATS[self.elements].dtype).view(rows.numel(), out.shape[1])  # (m, D)
        values = _blocks(codes.float(), self._width) * self._decode_scales(part.params).view(rows.numel(), -1, 1)
        decode_32(values.flatten(1)[:, : out.shape[1]].contiguous().view(torch.uint8), out, rows, accumulate=accumulate)


@dataclass(frozen=True, kw_only=True)
class FP8(_ByBlock):
    """Eight-bit floats with a float32 scale per block of a row: ``q = round(x / S)``, ``S = max|x| / max(format)``.

    ``stochastic`` rounding chooses one of the two neighbouring numbers of the format with probabilities such that
    ``E[q S] = x``. ``nearest``, the default and the rounding of hardware, is **not unbiased**: the error of an element
    is up to a sixteenth of it (E4M3), and identical in every epoch in which the element does not change. Constant
    blocks are exact up to float32 rounding; blocks without an element above 2^-100 decode to zeros. A row takes
    ``D + 4 ceil(D / block)`` bytes; rows of 32 bits are float32. Plain PyTorch on every device, without a kernel.

    Example:
        >>> codec, rows, first = FP8(), torch.tensor([[448.0, -1.0, 0.3]]), torch.tensor([0])
        >>> layout, noise = codec.layout(8, 1, 3), Noise(0, 0, 0)
        >>> segment, out = torch.zeros(layout.num_bytes, dtype=torch.uint8), torch.zeros(1, 3)
        >>> _ = codec.encode(rows, first, first, layout, segment, noise)
        >>> codec.decode(segment, layout, out, first, accumulate=False)
        >>> out.tolist(), layout.num_bytes
        ([[448.0, -1.0, 0.3125]], 7)
    """

    elements: Annotated[str, ELEMENTS] = "e4m3"
    """``e4m3``: 3 mantissa bits, up to 448; ``e5m2``: 2 bits, up to 57344, for rows with a large dynamic range."""
    block: Annotated[int, Range(1, unit="column")] = 128
    """Columns that share a scale, from the first column on; the last block of a row may have fewer."""
    rounding: Annotated[str, ROUNDINGS] = "nearest"
    """``nearest``, biased, or ``stochastic``."""
    noise: Annotated[str, RECEIVERS] = "receiver"
    """Rounding noise per ``receiver`` or per ``node``, see :class:`gnnqlab.message.codecs.codec.Stochastic`."""

    @property
    def _width(self) -> int:
        return self.block

    @property
    def _scale_bytes(self) -> int:
        return 4

    def _scales(self, largest_mB: Tensor) -> tuple[Tensor, Tensor]:
        scale_mB = largest_mB / _FORMATS[self.elements].largest  # S = max|x| / max(format)
        # Far smaller blocks would have a subnormal scale, which has few mantissa bits.
        scale_mB = torch.where(largest_mB < SMALLEST_RANGE, 0.0, scale_mB)
        return scale_mB, scale_mB

    def _decode_scales(self, scales: Tensor) -> Tensor:
        return scales.view(torch.float32)


@dataclass(frozen=True, kw_only=True)
class MXFP8(_ByBlock):
    """MXFP8 of the OCP Microscaling Formats (MX) specification, v1.0: blocks of 32, an E8M0 scale, eight-bit floats.

    A block's scale is ``X = 2^(floor(log2 max|x|) - e)``, e the exponent of the format's largest number, and its
    elements are ``round(x / X)``, clamped to that number. ``nearest`` rounding, the default as in the specification, is
    **not unbiased**, because of rounding and of the clamp, which cuts off up to an eighth of the largest element. With
    ``stochastic`` rounding X is doubled if an element would be clamped, and ``E[q X] = x``. Constant rows are
    rounded like all others. A row takes ``D + ceil(D / 32)`` bytes; rows of 32 bits are float32. Plain PyTorch on every
    device, without a kernel.

    Example:
        >>> codec, rows, first = MXFP8(), torch.tensor([[1.0, -0.3, 1.9]]), torch.tensor([0])
        >>> layout, noise = codec.layout(8, 1, 3), Noise(0, 0, 0)
        >>> segment, out = torch.zeros(layout.num_bytes, dtype=torch.uint8), torch.zeros(1, 3)
        >>> _ = codec.encode(rows, first, first, layout, segment, noise)
        >>> codec.decode(segment, layout, out, first, accumulate=False)
        >>> out.tolist(), layout.num_bytes
        ([[1.0, -0.3125, 1.75]], 4)
    """

    elements: Annotated[str, ELEMENTS] = "e4m3"
    """``e4m3`` or ``e5m2``."""
    rounding: Annotated[str, ROUNDINGS] = "nearest"
    """``nearest``, biased, or ``stochastic``."""
    noise: Annotated[str, RECEIVERS] = "receiver"
    """Rounding noise per ``receiver`` or per ``node``, see :class:`gnnqlab.message.codecs.codec.Stochastic`."""

    @property
    def _width(self) -> int:
        return 32

    @property
    def _scale_bytes(self) -> int:
        return 1

    def _scales(self, largest_mB: Tensor) -> tuple[Tensor, Tensor]:
        kind = _FORMATS[self.elements]
        # X = 2^(floor(log2 max|x|) - e), OCP MX v1.0.
        biased_mB = (_exponent(largest_mB) - kind.highest + 127).clamp(0, 254)  # E8M0: exponent with bias 127
        if self.rounding == "stochastic":  # clamping would bias the largest element
            biased_mB += largest_mB / _power(biased_mB) > kind.largest
        return biased_mB.to(torch.uint8), _power(biased_mB)  # (m, B) uint8 and float32

    def _decode_scales(self, scales: Tensor) -> Tensor:
        return _power(scales.int())


def _round_by_noise(v_mD: Tensor, kind: _Format, noise_mD: Tensor) -> Tensor:
    """Round each number stochastically to a neighbour in the format, without bias.

    Args:
        v_mD: float32, magnitudes up to the largest number of the format.
        noise_mD: uniform integers in [0, 65536).
    """
    # The step of the format at |v|: 2^(exponent - M), constant below the smallest normal number.
    step_mD = _power(_exponent(v_mD).clamp(min=kind.lowest) - kind.mantissa + 127)
    # Steps in fixed point with 16 fractional bits; adding the noise and shifting rounds up with the right probability.
    count_mD = (v_mD.abs() / step_mD * 65536.0).round().to(torch.int32).add_(noise_mD).bitwise_right_shift_(16)
    return torch.copysign(count_mD * step_mD, v_mD)  # (m, D); -0.0 stays -0.0


def _exponent(x: Tensor) -> Tensor:
    """Return ``floor(log2 |x|)`` of normal float32 numbers, -127 for smaller ones."""
    # Bits 23 to 30 of a float32 word are its exponent with bias 127.
    return (x.contiguous().view(torch.int32) >> 23 & 255) - 127


def _power(exponent: Tensor) -> Tensor:
    """Return ``2^(exponent - 127)`` of integers in [0, 254], exactly; 0 gives the subnormal number 2^-127."""
    return torch.where(exponent == 0, 1 << 22, exponent << 23).to(torch.int32).view(torch.float32)


def _blocks(x_mD: Tensor, width: int) -> Tensor:
    """Split rows ``(m, D)`` into blocks ``(m, B, W)``; the last block is padded with zeros."""
    rows, columns = x_mD.shape
    return torch.nn.functional.pad(x_mD, (0, -columns % width)).reshape(rows, -(-columns // width), width)


def _check_finite(x_mD: Tensor) -> None:
    if not x_mD.numel():
        return
    bad_m = ~(x_mD.abs().amax(1) <= _LARGEST_ELEMENT)  # True for NaN too, which fails every comparison
    if bad_m.is_cuda:
        note_non_finite(bad_m)
    elif bool(bad_m.any()):
        raise NonFiniteRow(int(bad_m.nonzero()[0, 0]))
