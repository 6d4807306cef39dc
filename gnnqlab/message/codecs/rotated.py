"""Codec with a random rotation: the error of a row depends on its norm, not on its range.

Letters: N source rows, m rows of one part of a message, D columns.
"""

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

    ``x' = S R' q``: q are the levels nearest to ``R x`` over its root mean square, ``S = |x|^2 / <R x, q>``. The
    elements of a rotated row are approximately normal for any row, so the squared error over ``|x|^2`` is about 0.57 at
    1 bit, 0.13 at 2, 0.036 at 3 and 0.0096 at 4, while the error of min-max codes grows with the row's range. Each row
    is sent with one scale of four bytes; both ends derive the rotation from seed, epoch, layer, direction, round and
    global node id. Rows of 8, 16 and 32 bits are encoded as by :class:`gnnqlab.message.codecs.codec.Stochastic`, with
    its parameters: their error is small for any row.

    Constant rows are exact. Differs: EDEN is unbiased over uniform rotations, and nearly so over Hadamard rotations.
    Along the row itself the error is always zero; orthogonal to it, short rows and rows with a few large elements have
    a bias of up to half their norm at one bit (also gradients of real trainings: ``gnnqlab bench codecs``). A second
    rotation removes it, so two are the default. Differs: rows are not padded to a power of two; two overlapping windows
    rotate them, so that a row of D elements takes ``ceil(D b / 8)`` bytes as with every codec.

    Example:
        >>> codec, rows, first = Rotated(), torch.tensor([[2.5, 2.5, 2.5]]), torch.tensor([0])
        >>> layout, noise = codec.layout(1, 1, 3), Noise(0, 0, 0)
        >>> segment, out = torch.zeros(layout.num_bytes, dtype=torch.uint8), torch.zeros(1, 3)
        >>> _ = codec.encode(rows, first, first, layout, segment, noise)
        >>> codec.decode(segment, layout, out, first, accumulate=False, ids=first, noise=noise)
        >>> out.tolist(), layout.num_bytes
        ([[2.5, 2.5, 2.5]], 5)
    """

    separate_widths: ClassVar[tuple[int, ...]] = (32, 16, 8)
    undecodable: ClassVar[str] = "rotated rows"
    integer_codes: ClassVar[bool] = True
    """True: the payload holds integer codes, which can be counted."""

    rotations: Annotated[int, Range(1, 2)] = 2
    """Number of successive randomized Hadamard rotations. DRIVE and EDEN use one; two remove its remaining bias."""
    noise: Annotated[str, OneOf(("receiver", "node"))] = "receiver"
    """Random rotation per ``receiver`` or per ``node``, see :class:`gnnqlab.message.codecs.codec.Stochastic`."""

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

        Rows of larger bit-widths have min-max codes, whose variance depends on the range (AdaQP Theorem 1).
        """
        base = self._wide.row_variance(columns)
        # Factors of the squared norm and of the squared range, of which each bit-width uses one.
        shares = {width: (relative_error(width, columns), 0.0) for width in ROTATED_WIDTHS}
        shares |= {width: (0.0, base.unit * base.shares[width][0]) for width in self.widths if width not in shares}
        return RowVariance(1.0, shares, ("norm", "range"))

    def notes(self, x: Tensor, rows: Tensor) -> Tensor:
        """Allocate norms (0 for constant rows) and ranges, ``(n, 2)``."""
        return torch.empty(rows.numel(), 2, device=x.device)

    def encode_part(self, part: PartRows, x: Tensor, noted: Tensor, noise: Noise) -> None:
        if part.width in ROTATED_WIDTHS:
            assert part.ids is not None
            rows, ids, scales = part.rows, part.ids, part.params.view(torch.float32)
            encode_rotated(x, rows, ids, part.bits, part.offsets, part.payload, scales, noted, **self._key(noise))
            return
        # Rows of 8 bits and more: min-max codes, whose error is small without a rotation.
        ranges = torch.empty(part.rows.numel(), device=x.device)  # (m,)
        self._wide.encode_part(part, x, ranges, noise)
        # The assigner compares all bit-widths of a row, so rows that are not rotated need their norm too.
        norms = row_norms(x, part.rows)  # (N, D) -> (m,)
        # Norm 0 marks constant rows: they are exact at every bit-width.
        noted[:, 0], noted[:, 1] = norms.where(ranges >= SMALLEST_RANGE, 0.0), ranges

    def decode_part(self, part: PartRows, out: Tensor, noise: Noise | None, *, accumulate: bool) -> None:
        if part.width not in ROTATED_WIDTHS:
            self._wide.decode_part(part, out, noise, accumulate=accumulate)
            return
        # The receiver derives the rotation from the node ids and the noise key; it is not sent.
        assert part.ids is not None and noise is not None
        rows, ids, scales = part.rows, part.ids, part.params.view(torch.float32)
        key = self._key(noise)
        decode_rotated(part.payload, scales, part.bits, part.offsets, out, rows, ids, accumulate=accumulate, **key)

    def _key(self, noise: Noise) -> dict[str, int]:
        return {"rotations": self.rotations, **noise.key(self.noise)}
