"""Codec that chooses, for each row, min-max codes or rotated codes, whichever has the smaller error.

The choice is sent with the parameters of the row, so both ends need not agree on it in advance.

Letters: n rows of a message, m of one part of it, D columns.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.bits.policy import USUAL
from gnnqlab.bits.variance import RowVariance, min_max
from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.codec.rotate import decode_rotated, encode_rotated
from gnnqlab.kernels.codec.row_errors import ERROR_WIDTHS, NOTED, row_errors
from gnnqlab.kernels.codec.rows import decode_rows, encode_rows, row_bytes
from gnnqlab.message.codecs.codec import Noise, PartCodec, PartRows, Stochastic
from gnnqlab.message.codecs.lloyd_max import relative_error
from gnnqlab.message.layout import Layout
from gnnqlab.settings import OneOf, Range, check

__all__ = ["APPROXIMATE_BELOW", "SAFETY_FACTORS", "LeastVariance", "by_rotation", "least_errors"]

_SIGN, _EXPONENT, _MANTISSA = -(1 << 31), 0x7F800000, 0x007FFFFF
"""Bit masks of a float32 word, as int32."""
APPROXIMATE_BELOW = 20
"""Number of columns below which the predicted error of a rotated row is only approximate."""
SAFETY_FACTORS = {2: 2.5, 3: 1.5, 4: 2.0, 8: 2.0, 15: 1.5}
"""Number of columns -> factor by which the error of min-max codes must exceed the predicted error of rotated codes
before a short row is rotated; 1.25 for other numbers of columns.

About the largest ratio of measured to predicted error at 1, 2 or 4 bits with two rotations, for normal rows, rows with
a few spikes, rows after a ReLU and softmax gradients. Rows with a large dynamic range (exponentials of twice a normal)
had ratios of up to 3.6 with 2 to 4 columns. From `APPROXIMATE_BELOW` columns on, measured errors exceed predicted ones
by 5 %, and by 17 % for rows with a large dynamic range."""


@dataclass(frozen=True, kw_only=True)
class LeastVariance(PartCodec):
    """Stochastic min-max codes or rotated codes, whichever has the smaller variance for a row.

    At 1, 2 and 4 bits the variance of min-max codes is ``S^2 sum f (1 - f)``, f the fractional part of each element in
    steps (AdaQP's Theorem 1 before averaging over f); that of rotated codes is ``|x|^2`` times the relative error of
    Lloyd-Max levels (EDEN). Both are known before encoding and independent of the noise, so the choice adds no bias:
    rows are as unbiased as with :class:`gnnqlab.message.codecs.codec.Stochastic` and
    :class:`gnnqlab.message.codecs.rotated.Rotated`, the expected error is never larger than with either, and a bit
    policy that uses ``row_variance`` chooses bit-width and code together. With fewer than `APPROXIMATE_BELOW` columns
    the predicted error of rotated codes is approximate, so a row is rotated only if a safety factor is exceeded
    (`SAFETY_FACTORS`).

    Measured on cora (GCN, 3 layers of 256, after 60 epochs, 4 bits, 300 passes per seed), relative to the variance of
    the gradient with min-max codes in equally many bytes:

    * backward messages, which enter the gradient linearly: 0.44 and 0.49;
    * both directions, three seeds: 0.78 ± 0.15, 1.14 ± 0.21, 0.88 ± 0.11 (standard errors). Forward messages enter
      through activations and the loss, so the errors of rows do not determine the variance.

    Min-max codes with float32 parameters, four more bytes per row, represent the ends of a row exactly and reduce the
    variance to 0.44 to 0.82; this codec has 0.9 to 2.2 times the variance of those, depending on the seed.

    A row takes ``ceil(D b / 8) + 4`` bytes with either code. The four bytes are Z and S in bfloat16, Z rounded down and
    S up; or, with the sign bit set, the scale of a rotation in float32; or, if the exponent is all ones, a constant row
    without error: its sign and the upper 23 bits of its magnitude, whose other 8 bits are the first byte of its
    payload. Rows of 8, 16 and 32 bits are encoded as by ``Stochastic`` with float32 parameters. The codec is stateless.

    Differs: Theorem 1 has ``D range^2 / 6`` in place of ``sum f (1 - f)``; rows after a ReLU, with most elements at
    their minimum, have less than half of that, and the average would wrongly rotate them.

    Example:
        >>> codec, first = LeastVariance(), torch.tensor([0, 1, 2])
        >>> rows = torch.tensor([[0.0, 1.0, 1.0, 0.0], [-4.0, 0.1, 0.1, 4.0], [2.7, 2.7, 2.7, 2.7]])
        >>> layout, noise = codec.layout(1, 3, 4), Noise(0, 0, 0)
        >>> segment, out = torch.zeros(layout.num_bytes, dtype=torch.uint8), torch.zeros(3, 4)
        >>> _ = codec.encode(rows, first, first, layout, segment, noise)
        >>> codec.decode(segment, layout, out, first, accumulate=False, ids=first, noise=noise)
        >>> codec.rotated(segment, layout).tolist(), out[[0, 2]].tolist() == rows[[0, 2]].tolist(), layout.num_bytes
        ([False, True, False], True, 15)
    """

    separate_widths: ClassVar[tuple[int, ...]] = (32, 16, 8)
    undecodable: ClassVar[str] = "rows that may be rotated"
    integer_codes: ClassVar[bool] = True
    """True: the payload holds integer codes, which can be counted, both kinds together."""

    rotations: Annotated[int, Range(1, 2)] = 2
    """Number of successive randomized Hadamard rotations, as in codec `Rotated`."""
    noise: Annotated[str, OneOf(("receiver", "node"))] = "receiver"
    """Random numbers per ``receiver`` or per ``node``, see :class:`gnnqlab.message.codecs.codec.Stochastic`."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def widths(self) -> tuple[int, ...]:
        return USUAL

    def param_bytes(self, bits: int, columns: int) -> int:
        return 4 if bits in ERROR_WIDTHS else self._wide.param_bytes(bits, columns)

    @property
    def _wide(self) -> Stochastic:
        return Stochastic(noise=self.noise)

    def row_variance(self, columns: int) -> RowVariance:
        """Return the smaller of both variances at 1, 2 and 4 bits, as recorded per row; above that of the range.

        Rows are sorted by their error at 2 bits.
        """
        base = min_max(columns)
        order = ("of 2 bits", "of 1 bit", "of 4 bits", "range")
        width_of = {"of 1 bit": 1, "of 2 bits": 2, "of 4 bits": 4}
        # Bit-width -> factor of each squared statistic: 1 for the deviation recorded at this width, else of the range.
        shares = {
            width: tuple(
                float(width_of[name] == width) if name in width_of else base.unit * base.shares[width][0] * (width > 4)
                for name in order
            )
            for width in self.widths
        }
        return RowVariance(1.0, shares, order)

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        """Choose and write the code of each row.

        Returns:
            Float32 ``(n, 4)``: standard deviations at 2, 1 and 4 bits, 0 for constant rows, and ranges.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf, or its range, or a sum of its elements where it is rotated,
                overflows.
        """
        notes = super().encode(x, rows, ids, layout, segment, noise)  # (n, 5): errors at 1, 2, 4 bits, norm, range
        assert notes is not None
        return torch.cat([least_errors(notes, layout.columns)[:, [1, 0, 2]], notes[:, 4:]], dim=1)  # (n, 5) -> (n, 4)

    def notes(self, x: Tensor, rows: Tensor) -> Tensor:
        """Compute the errors of rows in each code, ``(n, 5)``, which determine the code of a row."""
        statistics = torch.empty(rows.numel(), NOTED, device=x.device)  # (n, 5) float32
        row_errors(x, rows, statistics)
        return statistics

    def rotated(self, segment: Tensor, layout: Layout) -> Tensor:
        """Return a mask of the rotated rows among those of 1, 2 and 4 bits, bool, in wire order."""
        parts = [part for part in layout.parts(self.separate_widths) if part.width in ERROR_WIDTHS]
        words = [segment[part.params].view(torch.int32) for part in parts]  # (4 m,) uint8 -> (m,) int32
        return torch.cat([_is_rotated(each) for each in words]) if words else torch.zeros(0) > 0

    def encode_part(self, part: PartRows, x: Tensor, noted: Tensor, noise: Noise) -> None:
        if part.width not in ERROR_WIDTHS:
            self._wide.encode_part(part, x, torch.empty(part.rows.numel(), device=x.device), noise)
            return
        rows, ids, payload, words = part.rows, part.ids, part.payload, part.params.view(torch.int32)
        assert ids is not None
        if not x.shape[1]:
            words.zero_()
            return
        # Both errors are known before a code is drawn, so the choice does not depend on the noise and adds no bias.
        is_rotated, key = by_rotation(noted, part.bits, x.shape[1]), noise.key(self.noise)
        for subset in _split(~is_rotated):
            # Encode the rows of this kind where they are in the payload of the whole part.
            pick, (bits, offsets) = rows[subset], _places(part, subset, x.shape[1])
            # Z and S in bfloat16 fill one 32-bit word; S is not negative, so the sign bit of the word stays 0.
            params = torch.empty(pick.numel(), 2, dtype=torch.bfloat16, device=x.device)
            with _numbered(subset):
                encode_rows(x, pick, ids[subset], bits, offsets, payload, params, ranges=None, **key)
            words[subset] = params.view(torch.int32)[:, 0]
        for subset in _split(is_rotated):
            pick, (bits, offsets) = rows[subset], _places(part, subset, x.shape[1])
            scales, spreads = torch.empty(pick.numel(), device=x.device), torch.empty(pick.numel(), 2, device=x.device)
            with _numbered(subset):
                encode_rotated(
                    x, pick, ids[subset], bits, offsets, payload, scales, spreads, rotations=self.rotations, **key
                )
            # The sign bit marks a rotated row, because its scale is positive.
            words[subset] = scales.view(torch.int32) | _SIGN
        # Rewrite constant rows, which were just rotated: their scale is the magnitude, their first code the sign.
        for subset in _split(noted[:, 3] == 0, views=False):
            first_bytes, magnitude = _starts(part, subset, x.shape[1]), words[subset] & ~_SIGN
            sign_bits = (payload[first_bytes] & 1).to(torch.int32) * _SIGN
            words[subset] = sign_bits | _EXPONENT | (magnitude >> 8)
            payload[first_bytes] = (magnitude & 0xFF).to(torch.uint8)

    def decode_part(self, part: PartRows, out: Tensor, noise: Noise | None, *, accumulate: bool) -> None:
        if part.width not in ERROR_WIDTHS:
            self._wide.decode_part(part, out, noise, accumulate=accumulate)
            return
        rows, ids, payload, words = part.rows, part.ids, part.payload, part.params.view(torch.int32)
        if not out.shape[1]:
            return
        assert ids is not None and noise is not None
        # All ones in the exponent mean NaN or Inf, which no scale can be, so this value can mark constant rows.
        is_constant, is_rotated = (words & _EXPONENT) == _EXPONENT, _is_rotated(words)  # (m,) bool
        for subset in _split(~(is_constant | is_rotated)):
            bits, offsets = _places(part, subset, out.shape[1])
            params = words[subset].view(torch.bfloat16).view(-1, 2)  # (rows,) int32 -> (rows, 2): Z and S
            decode_rows(payload, params, bits, offsets, out, rows[subset], accumulate=accumulate)
        for subset in _split(is_rotated):
            bits, offsets = _places(part, subset, out.shape[1])
            scales = (words[subset] & ~_SIGN).view(torch.float32)
            decode_rotated(
                payload, scales, bits, offsets, out, rows[subset], ids[subset], accumulate=accumulate,
                rotations=self.rotations, **noise.key(self.noise),
            )  # fmt: skip
        for subset in _split(is_constant, views=False):
            # 23 bits of the magnitude are in the word, the lowest 8 in the first payload byte.
            low_bytes = payload[_starts(part, subset, out.shape[1])].to(torch.int32)
            magnitude = ((words[subset] & _MANTISSA) << 8 | low_bytes).view(torch.float32)
            values = torch.where(words[subset] < 0, -magnitude, magnitude)[:, None].expand(-1, out.shape[1])
            (out.index_add_ if accumulate else out.index_copy_)(0, rows[subset], values)


def by_rotation(noted: Tensor, bits: int | Tensor, columns: int) -> Tensor:
    """Return a mask of the rows to encode by rotation: those with a smaller error that way, and constant rows.

    With fewer than `APPROXIMATE_BELOW` columns the error must be smaller by a factor (`SAFETY_FACTORS`).

    Args:
        noted: row statistics of :func:`gnnqlab.kernels.codec.row_errors.row_errors`, ``(n, 5)``.
        bits: 1, 2 or 4, common to all rows or one per row.
        columns: D.

    Returns:
        bool ``(n,)``.

    Example:
        >>> noted = torch.tensor([[3.0, 1.0, 0.2, 2.0, 6.0]])
        >>> [by_rotation(noted, bits, 256).item() for bits in (1, 2, 4)]  # 2 sqrt(0.57), 2 sqrt(0.13), 2 sqrt(0.009)
        [True, True, True]
        >>> noted = torch.tensor([[1.5, 0.7, 0.1, 2.0, 6.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
        >>> by_rotation(noted, torch.tensor([1, 1]), 256).tolist()
        [False, True]
    """
    is_smaller = _rotates(noted, columns)
    if isinstance(bits, int):
        return is_smaller[:, ERROR_WIDTHS.index(bits)] | (noted[:, 3] == 0)
    # Select in each row the comparison at its own bit-width.
    of_width = torch.stack([bits == each for each in ERROR_WIDTHS], dim=1)  # (n,) -> (n, 3) bool
    return (is_smaller & of_width).any(1) | (noted[:, 3] == 0)


def least_errors(noted: Tensor, columns: int) -> Tensor:
    """Return the standard deviation of each row in its chosen code at 1, 2 and 4 bits, float32 ``(n, 3)``.

    Args:
        noted: row statistics of :func:`gnnqlab.kernels.codec.row_errors.row_errors`, ``(n, 5)``.
        columns: D.

    Example:
        >>> least_errors(torch.tensor([[9.0, 0.5, 9.0, 2.0, 6.0]]), 10**9).mul(100).round().tolist()
        [[151.0, 50.0, 20.0]]
    """
    return torch.where(_rotates(noted, columns), _rotated_errors(noted, columns), noted[:, :3])


def _is_rotated(words: Tensor) -> Tensor:
    return (words < 0) & ((words & _EXPONENT) != _EXPONENT)


def _rotates(statistics: Tensor, columns: int) -> Tensor:
    """Return a mask of the rows with a smaller error by rotation at 1, 2 and 4 bits, bool ``(n, 3)``."""
    # The factor compares squared errors, ``statistics`` has their roots.
    margin = SAFETY_FACTORS.get(columns, 1.25) if columns < APPROXIMATE_BELOW else 1.0
    return _rotated_errors(statistics, columns) * margin**0.5 < statistics[:, :3]


def _rotated_errors(statistics: Tensor, columns: int) -> Tensor:
    """Return the standard deviation of rotated codes at 1, 2 and 4 bits, ``(n, 3)``."""
    return statistics[:, 3:4] * _rotated_shares(columns, statistics.device)  # (n, 1) norms times (3,) -> (n, 3)


@functools.cache
def _rotated_shares(columns: int, device: torch.device) -> Tensor:
    shares = [relative_error(width, max(columns, 1)) for width in ERROR_WIDTHS]
    return torch.tensor(shares, device=device).sqrt()  # relative error of the square -> (3,) of the norm


def _split(mask: Tensor, *, views: bool = True) -> Iterator[Any]:
    """Yield the positions of the chosen rows, if any; if all are chosen and ``views``, a slice, which avoids copies."""
    places = mask.nonzero()[:, 0]  # (m,) bool -> (k,) int64; synchronizes a GPU
    if places.numel():
        yield slice(None) if views and places.numel() == mask.numel() else places


def _places(part: PartRows, subset: Any, columns: int) -> tuple[int | Tensor, Tensor | None]:
    """Return bit-widths and first payload bytes of some rows of a part."""
    if isinstance(part.bits, Tensor):
        assert part.offsets is not None
        return part.bits[subset], part.offsets[subset]
    return part.bits, None if isinstance(subset, slice) else _starts(part, subset, columns)


def _starts(part: PartRows, subset: Tensor, columns: int) -> Tensor:
    """Return the first payload byte of some rows of a part."""
    if part.offsets is not None:
        return part.offsets[subset]
    assert isinstance(part.bits, int)
    # Rows of one bit-width have equally many bytes, so their starts are not stored.
    return subset * int(row_bytes(columns, part.bits))


@contextmanager
def _numbered(subset: Any) -> Iterator[None]:
    """Convert the position of a non-finite row among the rows of ``subset`` to its position in the part."""
    try:
        yield
    except NonFiniteRow as error:
        if isinstance(subset, slice):
            raise
        raise NonFiniteRow(int(subset[error.position])) from error
