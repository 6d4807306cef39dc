"""Codes of rows that are rotated at random: their error depends on a row's norm, not on its range."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from gnnqlab.bits.policy import WIDTHS
from gnnqlab.bits.variance import RowVariance
from gnnqlab.kernels.codec.rotate import ROTATED_WIDTHS, decode_rotated, encode_rotated
from gnnqlab.kernels.reference.codec import SMALLEST_RANGE
from gnnqlab.message.codecs.codec import Codec, Noise, Stochastic
from gnnqlab.message.codecs.lloyd_max import relative_error
from gnnqlab.message.codecs.parts import Part, counted_from, parts_of
from gnnqlab.message.codecs.wide import row_norms
from gnnqlab.message.wire import Layout
from gnnqlab.settings import OneOf, Range, check

__all__ = ["Rotated"]


@dataclass(frozen=True)
class Rotated(Codec):
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

    def rows(self, num_rows: int, columns: int, device: torch.device) -> Tensor:
        return self._wide.rows(num_rows, columns, device)

    def row_variance(self, columns: int) -> RowVariance:
        """Return ``|x|^2`` times :func:`gnnqlab.message.codecs.lloyd_max.relative_error` at 1 to 4 bits (EDEN).

        Wider rows have codes between their ends: their variance is that of their range.
        """
        wide = self._wide.row_variance(columns)
        shares = {width: (relative_error(width, columns), 0.0) for width in ROTATED_WIDTHS}
        shares |= {width: (0.0, wide.unit * wide.shares[width][0]) for width in self.widths if width not in shares}
        return RowVariance(1.0, shares, ("norm", "range"))

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        """Rotate and pack rows; their norms, 0 of constant ones, and their ranges are found on the way.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf, or its range or a sum of its elements overflows.
        """
        spreads = torch.empty(layout.num_rows, 2, device=x.device)
        for of, part, params in self._parts(layout, segment):
            with counted_from(of.start):
                if part.width in ROTATED_WIDTHS:
                    encode_rotated(
                        x, rows[of], ids[of], part.bits, part.offsets, part.payload, params, spreads[of],
                        **self._key(noise),
                    )  # fmt: skip
                else:
                    ranges = torch.empty(of.stop - of.start, device=x.device)
                    self._wide.encode_part(part, x, rows[of], ids[of], params.view(-1, 2), ranges, noise)
                    norms = row_norms(x, rows[of])
                    spreads[of, 0], spreads[of, 1] = norms.where(ranges >= SMALLEST_RANGE, 0.0), ranges
        return spreads

    def decode(
        self,
        segment: Tensor,
        layout: Layout,
        out: Tensor,
        rows: Tensor,
        *,
        accumulate: bool,
        ids: Tensor | None = None,
        noise: Noise | None = None,
    ) -> None:
        """Put the rows of a segment at ``out[rows]``, or add them there.

        Raises:
            ValueError: without the ids and the noise with which the rows were encoded: they are the rotation.
        """
        if ids is None or noise is None:
            raise ValueError(
                "rotated rows are decoded with the ids and the noise of their message, got none; give both"
            )
        for of, part, params in self._parts(layout, segment):
            if part.width in ROTATED_WIDTHS:
                decode_rotated(
                    part.payload, params, part.bits, part.offsets, out, rows[of], ids[of], accumulate=accumulate,
                    **self._key(noise),
                )  # fmt: skip
            else:
                self._wide.decode_part(part, params.view(-1, 2), out, rows[of], accumulate=accumulate)

    def _parts(self, layout: Layout, segment: Tensor) -> Iterator[tuple[slice, Part, Tensor]]:
        """Yield rows, part and parameters, float32, of what one routine writes."""
        floats, wide = layout.split(segment)[0].view(torch.float32), 2 * (layout.rows_of(16) + layout.rows_of(8))
        for part in parts_of(layout, segment, alone=(32, 16, 8)):
            if part.width in ROTATED_WIDTHS:
                params = floats[wide:]
            else:
                params = floats[2 * part.params.start : 2 * part.params.stop]
            yield part.rows, part, params

    def _key(self, noise: Noise) -> dict[str, int]:
        return {"rotations": self.rotations, **noise.key(self.noise)}
