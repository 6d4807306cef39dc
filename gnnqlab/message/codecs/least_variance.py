"""Each row in the code that errs less: between its ends, or rotated.

The choice is the row's own, so nobody agrees on it beforehand: it travels with the row's parameters.

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

__all__ = ["SHORT", "SURE", "LeastVariance", "by_rotation", "least_errors"]

_SIGN, _EXPONENT, _MANTISSA = -(1 << 31), 0x7F800000, 0x007FFFFF
"""Of a float32 word, as int32."""
SHORT = 20
"""Columns below which what Lloyd-Max levels leave of a rotated row is a guide: few elements have few rotations."""
SURE = {2: 2.5, 3: 1.5, 4: 2.0, 8: 2.0, 15: 1.5}
"""Columns -> how many times more codes between its ends must leave of a short row before it is rotated; 1.25 for those
that are not named. It is about the most that was measured over the guide at 1, 2 or 4 bits, two rotations, on rows that
are normal, a few spikes, after a ReLU or a softmax's gradient: worst where one window of few columns is the whole row.
Elements of sizes far apart (exponentials of twice a normal) left more in 2 to 4 columns, up to 3.6. From `SHORT`
columns on it was a twentieth, and a sixth of such."""


@dataclass(frozen=True, kw_only=True)
class LeastVariance(PartCodec):
    """Stochastic codes between a row's ends or codes of its rotation, whichever has the smaller variance for that row.

    At 1, 2 and 4 bits the variance of codes between ends is ``S^2 sum f (1 - f)``, f the fraction of a step of each
    element (AdaQP's Theorem 1 before it averages over f); that of rotated codes is ``|x|^2`` times what Lloyd-Max
    levels leave (EDEN). Both are known before a row is encoded and depend on no noise, so that the choice biases
    nothing: rows are as unbiased as those of :class:`gnnqlab.message.codecs.codec.Stochastic` and
    :class:`gnnqlab.message.codecs.rotated.Rotated`, none is expected to err more than in either, and whoever assigns
    widths by ``row_variance`` chooses width and code together. Below `SHORT` columns what levels leave is a guide only,
    so a row is rotated there only where that is surely less (`SURE`).

    What the gradient makes of it (cora, GCN, 3 layers of 256 after 60 epochs, 4 bits, 300 passes a seed, beside codes
    between ends in as many bytes): messages backward enter it linearly, less of each row is less of all, and they leave
    0.44 and 0.49 of the variance. Rows forward enter through activations and the loss, so that no sum of rows' errors
    orders what comes of them, and distances have heavy tails: in both directions together the variance is 0.78 ± 0.15,
    1.14 ± 0.21 and 0.88 ± 0.11 times theirs (standard errors); 16 passes know it to a third. Float32 parameters, four
    bytes more a row, leave a row's ends exact: codes between ends have 0.44 to 0.82 of the variance with them, which
    rows of this codec do not reach at every seed (0.9 to 2.2 times it).

    A row takes ``ceil(D b / 8) + 4`` bytes whichever it is. The four are Z and S in bfloat16, Z rounded down and S up;
    or, with the sign bit set, the scale of a rotation in float32; or, where the exponent is all ones, a constant row,
    exact: its sign and the upper 23 bits of its magnitude, whose other 8 bits are the first byte of its payload. Rows
    of 8, 16 and 32 bits are those of ``Stochastic`` with float32 parameters. No state, so nothing is in checkpoints.

    Differs: Theorem 1 has ``D range^2 / 6`` in place of ``sum f (1 - f)``; rows after a ReLU, where most elements lie
    on an end, have less than half of that, and the average would rotate them.

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

    alone: ClassVar[tuple[int, ...]] = (32, 16, 8)
    undecodable: ClassVar[str] = "rows that may be rotated"
    integer_codes: ClassVar[bool] = True
    """Its payload is integer codes of the rows' widths, which can be counted: those of both kinds together."""

    rotations: Annotated[int, Range(1, 2)] = 2
    """Randomized Hadamard rotations one after another, as of :class:`gnnqlab.message.codecs.rotated.Rotated`."""
    noise: Annotated[str, OneOf(("receiver", "node"))] = "receiver"
    """Whose a row's noise is: ``receiver`` or ``node``, as of :class:`gnnqlab.message.codecs.codec.Stochastic`."""

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
        """Return the lesser of both variances at 1, 2 and 4 bits, each noted of a row; of wider ones that of its range.

        Rows are sorted by what they leave at 2 bits.
        """
        wide = min_max(columns)
        order = ("of 2 bits", "of 1 bit", "of 4 bits", "range")
        own = {"of 1 bit": 1, "of 2 bits": 2, "of 4 bits": 4}
        shares = {
            width: tuple(
                float(own[name] == width) if name in own else wide.unit * wide.shares[width][0] * (width > 4)
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
            Float32 ``(n, 4)``: roots of the least variances at 2, 1 and 4 bits, 0 of constant rows, and ranges.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf, or its range, or a sum of its elements where it is rotated,
                overflows.
        """
        noted = super().encode(x, rows, ids, layout, segment, noise)
        assert noted is not None
        return torch.cat([least_errors(noted, layout.columns)[:, [1, 0, 2]], noted[:, 4:]], dim=1)

    def notes(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return the errors of rows in each code, by which the code of a row is chosen."""
        noted = torch.empty(rows.numel(), NOTED, device=x.device)
        row_errors(x, rows, noted)
        return noted

    def rotated(self, segment: Tensor, layout: Layout) -> Tensor:
        """Return which of a message's rows of 1, 2 and 4 bits are rotated, bool, in wire order."""
        parts = [part for part in layout.parts(self.alone) if part.width in ERROR_WIDTHS]
        words = [segment[part.params].view(torch.int32) for part in parts]
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
        rotated, key = by_rotation(noted, part.bits, x.shape[1]), noise.key(self.noise)
        for some in _split(~rotated):
            own, (bits, offsets) = rows[some], _places(part, some, x.shape[1])
            ends = torch.empty(own.numel(), 2, dtype=torch.bfloat16, device=x.device)
            with _numbered(some):
                encode_rows(x, own, ids[some], bits, offsets, payload, ends, ranges=None, **key)
            words[some] = ends.view(torch.int32)[:, 0]
        for some in _split(rotated):
            own, (bits, offsets) = rows[some], _places(part, some, x.shape[1])
            scales, spreads = torch.empty(own.numel(), device=x.device), torch.empty(own.numel(), 2, device=x.device)
            with _numbered(some):
                encode_rotated(
                    x, own, ids[some], bits, offsets, payload, scales, spreads, rotations=self.rotations, **key
                )
            words[some] = scales.view(torch.int32) | _SIGN
        for some in _split(noted[:, 3] == 0, whole=False):  # its scale is minus its magnitude, its first code its sign
            first, magnitude = _starts(part, some, x.shape[1]), words[some] & ~_SIGN
            negative = (payload[first] & 1).to(torch.int32) * _SIGN
            words[some] = negative | _EXPONENT | (magnitude >> 8)
            payload[first] = (magnitude & 0xFF).to(torch.uint8)

    def decode_part(self, part: PartRows, out: Tensor, noise: Noise | None, *, accumulate: bool) -> None:
        if part.width not in ERROR_WIDTHS:
            self._wide.decode_part(part, out, noise, accumulate=accumulate)
            return
        rows, ids, payload, words = part.rows, part.ids, part.payload, part.params.view(torch.int32)
        if not out.shape[1]:
            return
        assert ids is not None and noise is not None
        constant, rotated = (words & _EXPONENT) == _EXPONENT, _is_rotated(words)
        for some in _split(~(constant | rotated)):
            bits, offsets = _places(part, some, out.shape[1])
            ends = words[some].view(torch.bfloat16).view(-1, 2)
            decode_rows(payload, ends, bits, offsets, out, rows[some], accumulate=accumulate)
        for some in _split(rotated):
            bits, offsets = _places(part, some, out.shape[1])
            scales = (words[some] & ~_SIGN).view(torch.float32)
            decode_rotated(
                payload, scales, bits, offsets, out, rows[some], ids[some], accumulate=accumulate,
                rotations=self.rotations, **noise.key(self.noise),
            )  # fmt: skip
        for some in _split(constant, whole=False):
            last = payload[_starts(part, some, out.shape[1])].to(torch.int32)
            magnitude = ((words[some] & _MANTISSA) << 8 | last).view(torch.float32)
            values = torch.where(words[some] < 0, -magnitude, magnitude)[:, None].expand(-1, out.shape[1])
            (out.index_add_ if accumulate else out.index_copy_)(0, rows[some], values)


def by_rotation(noted: Tensor, bits: int | Tensor, columns: int) -> Tensor:
    """Return which rows are written by way of their rotation: those that err less so, and constant ones.

    Short ones, of fewer than `SHORT` columns, have to err less by a factor (`SURE`).

    Args:
        noted: of rows, as :func:`gnnqlab.kernels.codec.row_errors.row_errors` does, ``(n, 5)``.
        bits: 1, 2 or 4, or one a row.
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
    less = _rotates(noted, columns)
    if isinstance(bits, int):
        return less[:, ERROR_WIDTHS.index(bits)] | (noted[:, 3] == 0)
    of_width = torch.stack([bits == each for each in ERROR_WIDTHS], dim=1)
    return (less & of_width).any(1) | (noted[:, 3] == 0)


def least_errors(noted: Tensor, columns: int) -> Tensor:
    """Return the root of the variance of each row in the code that it chooses at 1, 2 and 4 bits, float32 ``(n, 3)``.

    Args:
        noted: of rows, as :func:`gnnqlab.kernels.codec.row_errors.row_errors` does, ``(n, 5)``.
        columns: D.

    Example:
        >>> least_errors(torch.tensor([[9.0, 0.5, 9.0, 2.0, 6.0]]), 10**9).mul(100).round().tolist()
        [[151.0, 50.0, 20.0]]
    """
    return torch.where(_rotates(noted, columns), _rotated_errors(noted, columns), noted[:, :3])


def _is_rotated(words: Tensor) -> Tensor:
    return (words < 0) & ((words & _EXPONENT) != _EXPONENT)


def _rotates(noted: Tensor, columns: int) -> Tensor:
    """Which rows err less when they are rotated at 1, 2 and 4 bits, for sure where they are short, ``(n, 3)``."""
    sure = SURE.get(columns, 1.25) if columns < SHORT else 1.0
    return _rotated_errors(noted, columns) * sure**0.5 < noted[:, :3]


def _rotated_errors(noted: Tensor, columns: int) -> Tensor:
    """Roots of the variance of rotated codes at 1, 2 and 4 bits, ``(n, 3)``."""
    return noted[:, 3:4] * _rotated_shares(columns, noted.device)


@functools.cache
def _rotated_shares(columns: int, device: torch.device) -> Tensor:
    shares = [relative_error(width, max(columns, 1)) for width in ERROR_WIDTHS]
    return torch.tensor(shares, device=device).sqrt()


def _split(chosen: Tensor, *, whole: bool = True) -> Iterator[Any]:
    """Yield the places of rows, if there are any; of all, where that is meant, as a slice, which copies nothing."""
    places = chosen.nonzero()[:, 0]
    if places.numel():
        yield slice(None) if whole and places.numel() == chosen.numel() else places


def _places(part: PartRows, some: Any, columns: int) -> tuple[int | Tensor, Tensor | None]:
    """Return widths and first payload bytes of some rows of a part."""
    if isinstance(part.bits, Tensor):
        assert part.offsets is not None
        return part.bits[some], part.offsets[some]
    return part.bits, None if isinstance(some, slice) else _starts(part, some, columns)


def _starts(part: PartRows, some: Tensor, columns: int) -> Tensor:
    """Return the first payload byte of some rows of a part."""
    if part.offsets is not None:
        return part.offsets[some]
    assert isinstance(part.bits, int)
    return some * int(row_bytes(columns, part.bits))


@contextmanager
def _numbered(some: Any) -> Iterator[None]:
    """Tell which row of the part a routine refuses, that was given some of them."""
    try:
        yield
    except NonFiniteRow as error:
        if isinstance(some, slice):
            raise
        raise NonFiniteRow(int(some[error.position])) from error
