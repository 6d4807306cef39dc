"""Outlier codec: send the largest elements of a row separately, so that they do not increase the step of the rest.

Letters: n rows of a message, m of one part of it, D columns, K spikes of a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from gnnqlab.bits.policy import USUAL
from gnnqlab.bits.variance import RowVariance, min_max
from gnnqlab.kernels.reference.codec import SMALLEST_RANGE
from gnnqlab.message.codecs.codec import Noise, PartCodec, PartRows, Stochastic
from gnnqlab.message.codecs.wide_codes import encode_32
from gnnqlab.message.layout import Layout, Part, make_layout
from gnnqlab.settings import OneOf, Range, check

__all__ = ["Spikes", "split_spikes"]

_MAX_COLUMNS = 65536
"""Maximum number of columns: a position takes two bytes."""
_EXPONENT = 0x7F800000
"""Exponent bits of a float32 word."""


@dataclass(frozen=True, kw_only=True)
class Spikes(PartCodec):
    """Send the largest magnitudes of a row (spikes) in float16 with their positions, and the rest in stochastic codes.

    A spike x_p is sent as ``v U``: ``v = float16((x_p - c) / U)``, c the middle of the rest's range, U the power of two
    at or below the largest ``|x_p - c|`` of the row, because gradients underflow in float16. The remainder,
    ``x_p - v U``, is close to c and gets a code like the rest, so decoding, ``q S + Z`` and ``+ v U`` at the spikes, is
    unbiased like :class:`gnnqlab.message.codecs.codec.Stochastic`, and constant rows are exact. S is
    ``range / (2^b - 1)`` of the rest; the variance is ``D · range^2 / 6 / (2^b - 1)^2`` with that range.

    A row of less than 32 bits takes ``ceil(D b / 8) + 12 + 4 min(K, D - 1)`` bytes: codes, Z, S and U in float32, and
    two bytes for each position and value. Rows of 32 bits are float32. Spikes are found in plain PyTorch on every
    device, with a copy of the rows and four passes over it; kernels encode and decode the codes.

    Example:
        >>> codec, rows, first = Spikes(count=1), torch.tensor([[0.0, 1.0, 40.0, 3.0]]), torch.tensor([0])
        >>> layout, noise = codec.layout(2, 1, 4), Noise(0, 0, 0)
        >>> segment, out = torch.zeros(layout.num_bytes, dtype=torch.uint8), torch.zeros(1, 4)
        >>> codec.encode(rows, first, first, layout, segment, noise).tolist()
        [3.0]
        >>> codec.decode(segment, layout, out, first, accumulate=False)
        >>> [round(float(x)) for x in out[0]], layout.num_bytes
        ([0, 1, 40, 3], 17)
    """

    integer_codes: ClassVar[bool] = True
    """True: the payload holds integer codes, which can be counted."""
    min_contractive_bits: ClassVar[int] = 2
    """Smallest bit-width at which fed-back errors shrink: an element is off by up to one step either way, so the error
    has a range of up to ``2 / (2^b - 1)`` of the row's; at one bit that is twice the row's range."""

    count: Annotated[int, Range(1, 64)] = 4
    """K, number of spikes per row; a row of D columns has at most D - 1."""
    noise: Annotated[str, OneOf(("receiver", "node"))] = "receiver"
    """Rounding noise per ``receiver`` or per ``node``, see :class:`gnnqlab.message.codecs.codec.Stochastic`."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def widths(self) -> tuple[int, ...]:
        return USUAL

    @property
    def _base_codec(self) -> Stochastic:
        return Stochastic(noise=self.noise)

    def _count(self, columns: int) -> int:
        return max(0, min(self.count, columns - 1))  # at least one element remains, which defines the range of the rest

    @property
    def same_at_receivers(self) -> bool:
        """False: values and positions of spikes are separate blocks of a message, not parameters row by row."""
        return False

    def param_bytes(self, bits: int, columns: int) -> int:
        return 0 if bits == 32 else 12 + 4 * self._count(columns)

    def row_variance(self, columns: int) -> RowVariance:
        """Return ``D · range^2 / 6 / (2^b - 1)^2`` with the range of the rest (AdaQP Theorem 1)."""
        between_ends = min_max(columns)
        return RowVariance(between_ends.unit, between_ends.shares, ("rest",))

    def layout(self, widths: int | Tensor, num_rows: int, columns: int) -> Layout:
        """Compute the layout of a message.

        Raises:
            ValueError: if a position does not fit into two bytes.
        """
        if columns > _MAX_COLUMNS:
            raise ValueError(
                f"rows with spikes must have at most {_MAX_COLUMNS} columns, got {columns}; choose codec Rotated()"
            )
        return make_layout(widths, num_rows, columns, param_bytes=self.param_bytes)

    def encode_part(self, part: PartRows, x: Tensor, noted: Tensor, noise: Noise) -> None:
        columns = x.shape[1]
        if part.width == 32:
            encode_32(x, part.rows, part.payload, noted)
        # Positions and values are (m, K), units (m,).
        rest, part_units, part_places, part_values = split_spikes(x.index_select(0, part.rows), self._count(columns))
        if part.width == 32:  # the range without spikes is what a smaller bit-width would have to encode
            noted.copy_(_range(rest))
            return
        ends, units, places, values = part.params
        all_rows = torch.arange(rest.shape[0], device=x.device)  # (m,): the rest is a copy with rows numbered from 0
        self._base_codec.encode_part(replace(part, params=ends, rows=all_rows), rest, noted, noise)
        # The views are slices of the message, so copying into them writes it.
        units.copy_(part_units)
        values.copy_(part_values)
        places.copy_(part_places.to(torch.int16))

    def decode_part(self, part: PartRows, out: Tensor, noise: Noise | None, *, accumulate: bool) -> None:
        ends, units, places, values = part.params
        # q S + Z for all elements first, then + v U at the spikes.
        self._base_codec.decode_part(replace(part, params=ends), out, noise, accumulate=accumulate)
        if part.width < 32:
            positions = part.rows[:, None], places.long() & 0xFFFF  # stored as int16, read as unsigned
            # Positions within a row are distinct, so no element is added twice.
            out.index_put_(positions, values.float() * units[:, None], accumulate=True)  # (m, K)

    def part_parameters(self, layout: Layout, segment: Tensor, part: Part) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return views of (Z, S), U, positions and values of a part; a message stores each of them contiguously."""
        # Rows of 32 bits come first in wire order and have no parameters.
        num_exact, spikes = layout.rows_of(32), self._count(layout.columns)
        count = layout.num_rows - num_exact
        # Each kind is contiguous, widest type first, so that every view is aligned to its type.
        ends = [8 * count, 4 * count, 2 * count * spikes, 2 * count * spikes]
        params, units, places, values = layout.split(segment)[0].split(ends)
        part_slice = slice(0, 0) if part.width == 32 else slice(part.rows.start - num_exact, part.rows.stop - num_exact)
        return (
            params.view(torch.float32).view(count, 2)[part_slice],
            units.view(torch.float32)[part_slice],
            places.view(torch.int16).view(count, spikes)[part_slice],
            values.view(torch.float16).view(count, spikes)[part_slice],
        )


def split_spikes(x_mD: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Split the largest magnitudes off from rows.

    Args:
        x_mD: float32 rows, modified in place.
        count: K, fewer than D.

    Returns:
        The rest, float32 ``(m, D)``, with the remainder of each spike at its position; U, float32 ``(m,)``; positions,
        int64 ``(m, K)``; and values, float16 ``(m, K)``. A row that is not finite stays so.

    Example:
        >>> rest, unit, places, values = split_spikes(torch.tensor([[1.0, -9.0, 3.0]]), 1)
        >>> rest.tolist(), unit.tolist(), places.tolist(), values.tolist()
        ([[1.0, 2.0, 3.0]], [8.0], [[1]], [[-1.375]])
    """
    if count == 0:
        no_spikes = x_mD.new_empty(x_mD.shape[0], 0)
        return x_mD, x_mD.new_zeros(x_mD.shape[0]), no_spikes.long(), no_spikes.half()
    places_mK = x_mD.abs().topk(count, dim=1, sorted=False).indices  # (m, D) -> (m, K)
    spikes_mK = x_mD.gather(1, places_mK)
    # Overwrite the spikes in place, to take minimum and maximum of the rest without a copy.
    low_m = x_mD.scatter_(1, places_mK, torch.inf).amin(1)  # (m,)
    high_m = x_mD.scatter_(1, places_mK, -torch.inf).amax(1)
    over_mK = spikes_mK - (low_m * 0.5 + high_m * 0.5)[:, None]  # halved first: the sum could overflow
    largest_m = over_mK.abs().amax(1)
    # Rows without a finite, non-negligible spike get U = 0: their spikes stay in the rest.
    has_spikes_m = torch.isfinite(largest_m) & (largest_m >= SMALLEST_RANGE)
    # Masking all but the exponent rounds down to a power of two.
    unit_m = torch.where(has_spikes_m, (largest_m.view(torch.int32) & _EXPONENT).view(torch.float32), 0.0)
    values_mK = torch.where(has_spikes_m[:, None], over_mK / unit_m[:, None], 0.0).half()
    # The rest encodes the rounding error of float16 too, so that decoding is unbiased.
    x_mD.scatter_(1, places_mK, spikes_mK - values_mK.float() * unit_m[:, None])
    return x_mD, unit_m, places_mK, values_mK


def _range(x_mD: Tensor) -> Tensor:
    return x_mD.amax(1) - x_mD.amin(1) if x_mD.shape[1] else x_mD.new_zeros(x_mD.shape[0])
