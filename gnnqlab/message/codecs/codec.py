"""The axis ``codec``: how a row becomes bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol

import torch
from torch import Tensor

from gnnqlab.bits.policy import USUAL
from gnnqlab.bits.variance import RowVariance, min_max
from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.codec.rows import decode_rows, encode_rows, note_non_finite
from gnnqlab.message.codecs.wide import decode_16, decode_32, encode_16, encode_32
from gnnqlab.message.wire import Layout, lay_out
from gnnqlab.settings import OneOf, check

__all__ = ["Codec", "Float32", "LaidOut", "Noise", "Part", "Stochastic", "counted_from", "parts_of"]

_LINE = 16
"""Elements of a cache line: rows that begin on one are written past the caches."""


@dataclass(frozen=True)
class Noise:
    """The key of a message's noise; with row id and column it fixes every random bit."""

    seed: int
    epoch: int
    stream: int
    peer: int = 0
    """Which of its sender's peers a row goes to, around the ring from 0; always 0 where a node's rows have one."""

    def key(self, whose: str) -> dict[str, int]:
        """Return seed, epoch and stream of what is drawn: for each ``receiver`` anew, or alike for a ``node``."""
        own = self.stream + (self.peer if whose == "receiver" else 0)
        return {"seed": self.seed, "epoch": self.epoch, "stream": own}


class Codec(Protocol):
    """Turns rows into the bytes of a message and back.

    One whose payload is integer codes, in whole bytes a row as :func:`gnnqlab.message.wire.lay_out` has them, may say
    so by ``integer_codes = True``: then they can be counted (:mod:`gnnqlab.message.codecs.entropy`).
    """

    @property
    def widths(self) -> tuple[int, ...]:
        """Bit-widths this codec can write."""

    def param_bytes(self, bits: int, columns: int) -> int:
        """Return the bytes of parameters that a row of a width, with D columns, has on the wire."""

    def rows(self, num_rows: int, columns: int, device: torch.device) -> Tensor:
        """Return an uninitialised ``(n, D)`` buffer in the form that decoding fills fastest."""

    def layout(self, widths: int | Tensor, num_rows: int, columns: int) -> Layout:
        """Lay out a message."""

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        """Write ``x[rows]`` (both in wire order) into a uint8 segment of ``layout.num_bytes``.

        Returns:
            What a codec notes of each row, float32 ``(n,)`` or ``(n, K)`` in wire order, if it notes anything: the
            spreads that its ``row_variance`` is of, by which rows are weighed where it has one.
        """

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

        Args:
            ids, noise: those that the rows were encoded with; a codec whose codes mean nothing without them needs them.
        """

    def landing(self, out: Tensor) -> Tensor | None:
        """Return the bytes of ``out`` if a message may be received there directly, else ``None``."""


class LaidOut(ABC):
    """What codecs share whose rows are laid out by their widths, and decoded out of a buffer of bytes."""

    @abstractmethod
    def param_bytes(self, bits: int, columns: int) -> int:
        """Return the bytes of parameters that a row of a width, with D columns, has on the wire."""

    def rows(self, num_rows: int, columns: int, device: torch.device) -> Tensor:
        return torch.empty(num_rows, columns, device=device)

    def layout(self, widths: int | Tensor, num_rows: int, columns: int) -> Layout:
        return lay_out(widths, num_rows, columns, param_bytes=self.param_bytes)

    def landing(self, out: Tensor) -> Tensor | None:
        return None


@dataclass(frozen=True)
class Float32:
    """Rows as they are: four bytes an element, no parameters.

    Rows that lie together already are the bytes of a message: `departing` sends them from where they are.
    """

    @property
    def widths(self) -> tuple[int, ...]:
        return (32,)

    def param_bytes(self, bits: int, columns: int) -> int:
        return 0

    def rows(self, num_rows: int, columns: int, device: torch.device) -> Tensor:
        return torch.empty(num_rows, columns, device=device)  # without gaps, so that messages land in it

    def layout(self, widths: int | Tensor, num_rows: int, columns: int) -> Layout:
        return lay_out(32, num_rows, columns, param_bytes=self.param_bytes)

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        """Gather rows.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf; on CUDA `raise_refused` does.
        """
        gathered = segment.view(torch.float32).view(layout.num_rows, layout.columns)
        torch.index_select(x, 0, rows, out=gathered)
        _expect_finite(gathered)
        return None

    def departing(self, x: Tensor) -> Tensor | None:
        """Return the bytes of ``x`` if they may be sent from there, else ``None``; errors as :meth:`encode`.

        A class derived from this one that encodes otherwise has its rows encoded.
        """
        if type(self).encode is not Float32.encode or not x.is_contiguous():
            return None
        _expect_finite(x)
        return x.view(torch.uint8).flatten()

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
        received = segment.view(torch.float32).view(layout.num_rows, layout.columns)
        if accumulate:
            out.index_add_(0, rows, received)
        else:
            out.index_copy_(0, rows, received)

    def landing(self, out: Tensor) -> Tensor | None:
        return out.view(torch.uint8).flatten() if out.is_contiguous() else None


def _expect_finite(rows: Tensor) -> None:
    if rows.is_cuda:
        note_non_finite(~torch.isfinite(rows).all(dim=1))
    elif not torch.isfinite(rows.sum()):
        finite = torch.isfinite(rows).all(dim=1)
        if not bool(finite.all()):
            raise NonFiniteRow(int((~finite).nonzero()[0, 0]))


@dataclass(frozen=True, kw_only=True)
class Stochastic(LaidOut):
    """Stochastic integer quantization, one scale and zero-point a row (AdaQP Eqs. 4, 5; SYLVIE Eq. 3).

    ``q = floor((h - Z) / S + u)``, ``S = (max - min) / (2^b - 1)``, ``Z = min``, so ``E[q S + Z] = h``. One message
    may hold rows of 1, 2, 4, 8 and 16 bits, and rows of 32 bits, which are float32 as it stands.
    """

    integer_codes: ClassVar[bool] = True
    """Its payload is integer codes of the rows' widths, which can be counted."""
    fades_from: ClassVar[int] = 2
    """Narrowest width at which a message leaves less than it takes: an element errs by up to a step either way, so the
    error has up to ``2 / (2^b - 1)`` of the row's range, twice all of it at one bit. What is fed back would grow."""

    parameters: Annotated[str, OneOf(_PARAMETERS)] = "float32"
    """Type in which Z and S travel: ``float32``; ``bfloat16``, rounded outwards before encoding; or
    ``bfloat16-after``, cut after encoding against float32 ones, as AdaQP's published code does: decoding is biased."""
    noise: Annotated[str, OneOf(("receiver", "node"))] = "receiver"
    """``receiver``: the same row errs independently at each of its receivers, as AdaQP's Eq. 24 adds errors up;
    ``node``: alike at all of them. Differs with ``node``: errors that agree do not average out, so the gradient has
    more variance at the same bytes (:func:`gnnqlab.course.experiments.receiver_noise.receiver_noise` measures it). With
    two workers a row has one receiver and both are the same, bit for bit."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def widths(self) -> tuple[int, ...]:
        return USUAL

    def param_bytes(self, bits: int, columns: int) -> int:
        return 0 if bits == 32 else 2 * self._parameter_dtype.itemsize

    def row_variance(self, columns: int) -> RowVariance:
        """Return ``D · range^2 / 6 / (2^b - 1)^2`` (AdaQP Theorem 1), whatever type parameters travel in."""
        return min_max(columns)

    def rows(self, num_rows: int, columns: int, device: torch.device) -> Tensor:
        stride = -(-columns // _LINE) * _LINE
        return torch.empty(num_rows, stride, device=device)[:, :columns]

    @property
    def _parameter_dtype(self) -> torch.dtype:
        return _PARAMETERS[self.parameters]

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        """Quantize and pack rows; their ranges are found on the way.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf, or its range overflows.
        """
        ranges = torch.empty(layout.num_rows, device=x.device)
        sent = self._parameters(layout, segment)
        params = torch.empty(sent.shape, device=x.device) if self.parameters == "bfloat16-after" else sent
        for part in parts_of(layout, segment):
            of = part.rows
            with counted_from(of.start):
                self.encode_part(part, x, rows[of], ids[of], params[part.params], ranges[of], noise)
        if params is not sent:
            sent.copy_(params)
        return ranges

    def encode_part(
        self, part: Part, x: Tensor, rows: Tensor, ids: Tensor, params: Tensor, ranges: Tensor, noise: Noise
    ) -> None:
        """Write the rows of one part of a message, their parameters (Z, S) and ranges."""
        key = noise.key(self.noise)
        if part.width == 32:
            encode_32(x, rows, part.payload, ranges)
        elif part.width == 16:
            encode_16(x, rows, ids, part.payload, params, ranges, **key)
        else:
            encode_rows(x, rows, ids, part.bits, part.offsets, part.payload, params, ranges=ranges, **key)

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
        params = self._parameters(layout, segment)
        for part in parts_of(layout, segment):
            self.decode_part(part, params[part.params], out, rows[part.rows], accumulate=accumulate)

    def decode_part(self, part: Part, params: Tensor, out: Tensor, rows: Tensor, *, accumulate: bool) -> None:
        """Put the rows of one part of a message at ``out[rows]``, or add them there."""
        if part.width == 32:
            decode_32(part.payload, out, rows, accumulate=accumulate)
        elif part.width == 16:
            decode_16(part.payload, params, out, rows, accumulate=accumulate)
        else:
            decode_rows(part.payload, params, part.bits, part.offsets, out, rows, accumulate=accumulate)

    def _parameters(self, layout: Layout, segment: Tensor) -> Tensor:
        return layout.split(segment)[0].view(self._parameter_dtype).view(-1, 2)


_PARAMETERS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "bfloat16-after": torch.bfloat16}
"""Name -> type of Z and S on the wire."""


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of a message that one routine writes: those of a width alone, or all that are narrower."""

    width: int
    """Their width, or the widest that they may have."""
    rows: slice
    params: slice
    """Which they are of the rows with parameters."""
    payload: Tensor
    bits: int | Tensor
    offsets: Tensor | None


def parts_of(layout: Layout, segment: Tensor, alone: tuple[int, ...] = (32, 16)) -> Iterator[Part]:
    """Yield the rows of a message by the routine that writes them, with their part of the payload.

    Args:
        alone: widths that have a routine of their own, widest first; one writes all that are narrower.
    """
    if not layout.num_rows:
        return
    payload, first, exact = layout.split(segment)[1], 0, layout.rows_of(32)
    for width in alone:
        count = layout.rows_of(width)
        if count:
            of = slice(first, first + count)
            size = count * -(-layout.columns * width // 8)
            params = slice(0, 0) if width == 32 else slice(of.start - exact, of.stop - exact)
            yield Part(width, of, params, payload[:size], width, None)
            payload, first = payload[size:], of.stop
    if first == layout.num_rows:
        return
    bits, offsets = layout.bits, layout.offsets
    if first:
        assert isinstance(bits, Tensor) and offsets is not None
        bits, offsets = bits[first:], offsets[first:] - offsets[first]
    of = slice(first, layout.num_rows)
    yield Part(alone[-1] // 2, of, slice(first - exact, layout.num_rows - exact), payload, bits, offsets)


@contextmanager
def counted_from(first: int) -> Iterator[None]:
    """Count the row that a routine refuses from the beginning of the message."""
    try:
        yield
    except NonFiniteRow as error:
        if not first:
            raise
        raise NonFiniteRow(first + error.position) from error
