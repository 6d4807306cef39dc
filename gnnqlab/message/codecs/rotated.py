"""Codes of rows that are rotated at random: their error depends on a row's norm, not on its range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from gnnqlab.bits.policy import WIDTHS
from gnnqlab.bits.variance import RowVariance
from gnnqlab.kernels.codec.rotate import ROTATED_WIDTHS, decode_rotated, encode_rotated
from gnnqlab.kernels.reference.codec import SMALLEST_RANGE
from gnnqlab.message.codecs.codec import Noise, PartCodec, PartRows, Stochastic
from gnnqlab.message.codecs.lloyd_max import relative_error
from gnnqlab.message.codecs.wide_codes import row_norms
from gnnqlab.settings import OneOf, Range, check

__all__ = ["Rotated"]


@dataclass(frozen=True)
class Rotated(PartCodec):
    """Randomized Hadamard rotation, Lloyd-Max levels, an unbiasing scale (DRIVE, NeurIPS 2021; EDEN, ICML 2022).

    ``x' = S R' q``: q are the levels nearest to ``R x`` over its root mean square, ``S = |x|^2 / <R x, q>``. Whatever a
    row is, its rotation looks normal, so the squared error over ``|x|^2`` is about 0.57 at 1 bit, 0.13 at 2, 0.036 at
    3 and 0.0096 at 4, where codes between a row's ends err by its range. One scale of four bytes travels with a row;
    the rotation is drawn from seed, epoch, layer, direction, round and global node id at both ends. Rows of 8, 16 and
    32 bits are those of :class:`gnnqlab.message.codecs.codec.Stochastic`, with its parameters: their error is small
    whatever the row.

    Constant rows are exact. Differs: EDEN is unbiased over uniform rotations, and over Hadamard ones nearly so. Along
    the row itself the error is always zero; across it a spiky or short row keeps a bias, up to half its norm at one
    bit (gradients of real trainings as well: ``gnnqlab bench codecs``). A second rotation ends it, so there are two by
    default. Differs: rows are not padded to a power of two; two windows that overlap rotate
    them, so that a row of D elements takes ``ceil(D b / 8)`` bytes as with every codec.

    Example:
        >>> codec, rows, first = Rotated(), torch.tensor([[2.5, 2.5, 2.5]]), torch.tensor([0])
        >>> layout, noise = codec.layout(1, 1, 3), Noise(0, 0, 0)
        >>> segment, out = torch.zeros(layout.num_bytes, dtype=torch.uint8), torch.zeros(1, 3)
        >>> _ = codec.encode(rows, first, first, layout, segment, noise)
        >>> codec.decode(segment, layout, out, first, accumulate=False, ids=first, noise=noise)
        >>> out.tolist(), layout.num_bytes
        ([[2.5, 2.5, 2.5]], 5)
    """

    alone: ClassVar[tuple[int, ...]] = (32, 16, 8)
    undecodable: ClassVar[str] = "rotated rows"
    integer_codes: ClassVar[bool] = True
    """Its payload is integer codes of the rows' widths, which can be counted."""

    rotations: Annotated[int, Range(1, 2)] = 2
    """Randomized Hadamard rotations one after another. DRIVE and EDEN have one; two end the bias that one leaves."""
    noise: Annotated[str, OneOf(("receiver", "node"))] = "receiver"
    """Whose a row's rotation is: ``receiver`` or ``node``, as of :class:`gnnqlab.message.codecs.codec.Stochastic`."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def widths(self) -> tuple[int, ...]:
        return WIDTHS

    def param_bytes(self, bits: int, columns: int) -> int:
        return 4 if bits in ROTATED_WIDTHS else self._wide.param_bytes(bits, columns)

    @property
    def _wide(self) -> Stochastic:
        return Stochastic(noise=self.noise)

    def row_variance(self, columns: int) -> RowVariance:
        """Return ``|x|^2`` times :func:`gnnqlab.message.codecs.lloyd_max.relative_error` at 1 to 4 bits (EDEN).

        Wider rows have codes between their ends: their variance is that of their range.
        """
        wide = self._wide.row_variance(columns)
        shares = {width: (relative_error(width, columns), 0.0) for width in ROTATED_WIDTHS}
        shares |= {width: (0.0, wide.unit * wide.shares[width][0]) for width in self.widths if width not in shares}
        return RowVariance(1.0, shares, ("norm", "range"))

    def notes(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return where encoding notes norms, 0 of constant rows, and ranges, ``(n, 2)``."""
        return torch.empty(rows.numel(), 2, device=x.device)

    def encode_part(self, part: PartRows, x: Tensor, noted: Tensor, noise: Noise) -> None:
        if part.width in ROTATED_WIDTHS:
            assert part.ids is not None
            rows, ids, scales = part.rows, part.ids, part.params.view(torch.float32)
            encode_rotated(x, rows, ids, part.bits, part.offsets, part.payload, scales, noted, **self._key(noise))
            return
        ranges = torch.empty(part.rows.numel(), device=x.device)
        self._wide.encode_part(part, x, ranges, noise)
        norms = row_norms(x, part.rows)
        noted[:, 0], noted[:, 1] = norms.where(ranges >= SMALLEST_RANGE, 0.0), ranges

    def decode_part(self, part: PartRows, out: Tensor, noise: Noise | None, *, accumulate: bool) -> None:
        if part.width not in ROTATED_WIDTHS:
            self._wide.decode_part(part, out, noise, accumulate=accumulate)
            return
        assert part.ids is not None and noise is not None
        rows, ids, scales = part.rows, part.ids, part.params.view(torch.float32)
        key = self._key(noise)
        decode_rotated(part.payload, scales, part.bits, part.offsets, out, rows, ids, accumulate=accumulate, **key)

    def _key(self, noise: Noise) -> dict[str, int]:
        return {"rotations": self.rotations, **noise.key(self.noise)}
