"""Codes of eight-bit floating point with a scale for each block of a row, as the hardware of today carries them.

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
"""What is rounded up from here could overflow."""


@dataclass(frozen=True)
class _Format:
    """An eight-bit floating-point type."""

    dtype: torch.dtype
    mantissa: int
    """Bits behind the leading one."""
    lowest: int
    """Exponent of its smallest normal number; steps grow no finer below."""
    highest: int
    """Exponent of its largest number."""
    largest: float


_FORMATS = {
    "e4m3": _Format(torch.float8_e4m3fn, 3, -6, 8, 448.0),
    "e5m2": _Format(torch.float8_e5m2, 2, -14, 15, 57344.0),
}
ELEMENTS = OneOf(tuple(_FORMATS))
ROUNDINGS = OneOf(("nearest", "stochastic"))
RECEIVERS = OneOf(("receiver", "node"))


class _ByBlock(PartCodec, ABC):
    """What both codecs do alike: eight bits an element, and scales that each says in its own way."""

    alone: ClassVar[tuple[int, ...]] = (EXACT, 8)
    aligned: ClassVar[bool] = False
    integer_codes: ClassVar[bool] = True
    """Each element is a byte: they can be counted, though they are floats."""
    elements: str
    rounding: str
    noise: str

    @property
    @abstractmethod
    def _width(self) -> int:
        """W."""

    @property
    @abstractmethod
    def _scale_bytes(self) -> int:
        """Bytes of a block's scale."""

    @abstractmethod
    def _scales(self, largest_mB: Tensor) -> tuple[Tensor, Tensor]:
        """Return scales as they travel, and as float32, of blocks with these largest magnitudes."""

    @abstractmethod
    def _said(self, scales: Tensor) -> Tensor:
        """Return the float32 scales of bytes."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def widths(self) -> tuple[int, ...]:
        return (8, EXACT)

    def biased(self, direction: str) -> str:
        """Say why a message is biased; empty where the noise rounds."""
        return "rounds to the nearest, so that a row errs alike in every draw" if self.rounding == "nearest" else ""

    def param_bytes(self, bits: int, columns: int) -> int:
        return 0 if bits == EXACT else -(-columns // self._width) * self._scale_bytes

    def row_variance(self, columns: int) -> RowVariance:
        """Return ``|x|^2 4^-M / (16 ln 2)``, M bits of mantissa, of rows whose elements have any scale alike.

        An element ``f 2^e`` has the step ``2^(e - M)``, of which a squared sixth is the variance on average; where
        log2 f is uniform in [0, 1), ``1 / f^2`` has the mean ``3 / (8 ln 2)``. Normal rows come within a sixth of it;
        elements far below the largest of their block have more. With ``rounding`` ``nearest`` errors have no mean of
        zero, so systems that weigh rows refuse that.
        """
        share = 4.0 ** -_FORMATS[self.elements].mantissa / (16 * math.log(2))
        return RowVariance(1.0, {8: (share,), EXACT: (0.0,)}, ("norm",))

    def refuses(self, system: Any) -> str:
        """Say why a system cannot have these codes."""
        for direction in ("forward", "backward"):
            weighs = of_direction(system.bits, direction).weighs_rows
            if self.rounding == "nearest" and weighs and of_direction(system.codec, direction) == self:
                return (
                    "rounding to the nearest is biased, and rows are weighed by the variance of unbiased codes (AdaQP "
                    "Theorem 1); choose rounding='stochastic' or other bits"
                )
        return ""

    def notes(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return the norms of rows."""
        return row_norms(x, rows)

    def encode_part(self, part: PartRows, x: Tensor, noted: Tensor, noise: Noise) -> None:
        """Write scales and codes of one part.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf, or an element above 2^127.
        """
        found = x.index_select(0, part.rows)
        _check_finite(found)
        if part.width == EXACT:
            part.payload.copy_(found.view(torch.uint8).flatten())
            return
        blocks = _blocks(found, self._width)
        said, scale_mB = self._scales(blocks.abs().amax(2))
        part.params.copy_(said.view(torch.uint8).flatten())
        scaled = (blocks / scale_mB.where(scale_mB > 0, torch.inf)[:, :, None]).flatten(1)[:, : found.shape[1]]
        kind = _FORMATS[self.elements]
        if self.rounding == "stochastic":
            assert part.ids is not None
            scaled = _rounded_by_noise(scaled, kind, uniform16(part.ids, found.shape[1], **noise.key(self.noise)))
        codes = scaled.clamp(-kind.largest, kind.largest).to(kind.dtype)
        part.payload.copy_(codes.view(torch.uint8).flatten())

    def decode_part(self, part: PartRows, out: Tensor, noise: Noise | None, *, accumulate: bool) -> None:
        if part.width == EXACT:
            decode_32(
                part.payload.clone(), out, part.rows, accumulate=accumulate
            )  # scales of one byte leave it unaligned
            return
        rows = part.rows
        codes = part.payload.view(_FORMATS[self.elements].dtype).view(rows.numel(), out.shape[1])
        values = _blocks(codes.float(), self._width) * self._said(part.params).view(rows.numel(), -1, 1)
        decode_32(values.flatten(1)[:, : out.shape[1]].contiguous().view(torch.uint8), out, rows, accumulate=accumulate)


@dataclass(frozen=True, kw_only=True)
class FP8(_ByBlock):
    """Eight-bit floats and a float32 scale for each block of a row, ``q = round(x / S)``, ``S = max|x| / max(format)``.

    ``stochastic`` rounding goes to one of the two neighbours in the format, to each with the probability that makes
    ``E[q S] = x``. ``nearest``, the default and what hardware does, is **not unbiased**: an element errs by up to a
    sixteenth of itself (E4M3) in the same way in every epoch where it does not change. Constant blocks are exact up to
    a rounding of float32; of blocks without an element above 2^-100 zeros arrive. A row takes ``D + 4 ceil(D / block)``
    bytes; rows of 32 bits are float32 as it stands. Plain PyTorch on every device: there is no kernel.

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
    """``e4m3``: 3 bits of mantissa, up to 448; ``e5m2``: 2 bits, up to 57344, for rows of very unequal elements."""
    block: Annotated[int, Range(1, unit="column")] = 128
    """Columns that share a scale, counted from the first; the last block of a row may have fewer."""
    rounding: Annotated[str, ROUNDINGS] = "nearest"
    """``nearest``, biased, or ``stochastic``."""
    noise: Annotated[str, RECEIVERS] = "receiver"
    """Whose a row's rounding is: ``receiver`` or ``node``, as of :class:`gnnqlab.message.codecs.codec.Stochastic`."""

    @property
    def _width(self) -> int:
        return self.block

    @property
    def _scale_bytes(self) -> int:
        return 4

    def _scales(self, largest_mB: Tensor) -> tuple[Tensor, Tensor]:
        scale_mB = largest_mB / _FORMATS[self.elements].largest
        scale_mB = torch.where(largest_mB < SMALLEST_RANGE, 0.0, scale_mB)
        return scale_mB, scale_mB

    def _said(self, scales: Tensor) -> Tensor:
        return scales.view(torch.float32)


@dataclass(frozen=True, kw_only=True)
class MXFP8(_ByBlock):
    """MXFP8 of the OCP Microscaling Formats (MX) specification, v1.0: blocks of 32, an E8M0 scale, eight-bit floats.

    A block's scale is ``X = 2^(floor(log2 max|x|) - e)``, e the exponent of the format's largest number, and its
    elements are ``round(x / X)``, clamped to that number. With ``nearest``, the default and the specification's, this
    is **not unbiased**, by rounding and by the clamp: up to an eighth of the largest element is cut off. With
    ``stochastic`` rounding X is doubled where an element would be clamped, and ``E[q X] = x``. Constant rows err like
    all others. A row takes ``D + ceil(D / 32)`` bytes; rows of 32 bits are float32 as it stands. Plain PyTorch on every
    device: there is no kernel.

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
    """Whose a row's rounding is: ``receiver`` or ``node``, as of :class:`gnnqlab.message.codecs.codec.Stochastic`."""

    @property
    def _width(self) -> int:
        return 32

    @property
    def _scale_bytes(self) -> int:
        return 1

    def _scales(self, largest_mB: Tensor) -> tuple[Tensor, Tensor]:
        kind = _FORMATS[self.elements]
        said_mB = (_exponent(largest_mB) - kind.highest + 127).clamp(0, 254)
        if self.rounding == "stochastic":
            said_mB += largest_mB / _power(said_mB) > kind.largest
        return said_mB.to(torch.uint8), _power(said_mB)

    def _said(self, scales: Tensor) -> Tensor:
        return _power(scales.int())


def _rounded_by_noise(v_mD: Tensor, kind: _Format, noise_mD: Tensor) -> Tensor:
    """Return a neighbour in the format of each number not above its largest, on average the number."""
    step_mD = _power(_exponent(v_mD).clamp(min=kind.lowest) - kind.mantissa + 127)
    count_mD = (v_mD.abs() / step_mD * 65536.0).round().to(torch.int32).add_(noise_mD).bitwise_right_shift_(16)
    return torch.copysign(count_mD * step_mD, v_mD)


def _exponent(x: Tensor) -> Tensor:
    """``floor(log2 |x|)`` of normal float32 numbers, -127 of smaller ones."""
    return (x.contiguous().view(torch.int32) >> 23 & 255) - 127


def _power(biased: Tensor) -> Tensor:
    """``2^(biased - 127)`` of integers in [0, 254], exactly; the first is no normal number."""
    return torch.where(biased == 0, 1 << 22, biased << 23).to(torch.int32).view(torch.float32)


def _blocks(x_mD: Tensor, width: int) -> Tensor:
    """Return rows in blocks ``(m, B, W)``, the last one filled with zeros."""
    rows, columns = x_mD.shape
    return torch.nn.functional.pad(x_mD, (0, -columns % width)).reshape(rows, -(-columns // width), width)


def _check_finite(x_mD: Tensor) -> None:
    if not x_mD.numel():
        return
    bad_m = ~(x_mD.abs().amax(1) <= _LARGEST_ELEMENT)
    if bad_m.is_cuda:
        note_non_finite(bad_m)
    elif bool(bad_m.any()):
        raise NonFiniteRow(int(bad_m.nonzero()[0, 0]))
