"""The axis ``codec``: how a row becomes bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from gnnqlab.axis_part import AxisPart
from gnnqlab.bits.policy import USUAL
from gnnqlab.bits.variance import RowVariance, min_max
from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.codec.rows import decode_rows, encode_rows, note_non_finite
from gnnqlab.message.codecs.equal_rows import RowNoise, equal_rows, surplus_bytes, written_width
from gnnqlab.message.codecs.parts import Part, counted_from, parts_of
from gnnqlab.message.codecs.wide import decode_16, decode_32, encode_16, encode_32
from gnnqlab.message.wire import Layout, lay_out
from gnnqlab.settings import OneOf, check

__all__ = ["Codec", "Float32", "Noise", "Stochastic"]

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


class Codec(AxisPart):
    """Base class of codecs: rows into the bytes of a message and back.

    One of your own defines `encode_rows` and `decode_rows`, and `widths` if it writes rows of several bit-widths.
    The codecs of this package define `encode` and `decode` instead, over whole messages.

    Example:
        >>> @dataclass(frozen=True)
        ... class Half(Codec):
        ...     def encode_rows(self, rows, bits, noise):
        ...         return rows.half()
        ...
        ...     def decode_rows(self, encoded, bits, noise):
        ...         return encoded.view(torch.float16)
        >>> Half().widths, Half().param_bytes(16, 7), Half().layout(16, num_rows=3, columns=7).num_bytes
        ((16,), 0, 42)
    """

    required: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("encode_rows", "decode_rows"),
        ("widths", "param_bytes", "encode", "decode"),
    )
    takes_bfloat16: ClassVar[bool] = False
    """Whether `encode` takes rows of bfloat16 as they are; channels read it."""
    integer_codes: ClassVar[bool] = False
    """Whether the payload is integer codes of the rows' bit-widths, in whole bytes a row as
    :func:`gnnqlab.message.wire.lay_out` has them; :mod:`gnnqlab.message.codecs.entropy` reads it."""
    fades_from: ClassVar[int] = 1
    """Narrowest bit-width at which a message takes more of a row's range than it leaves; caches that send the rest
    with the next message read it."""

    @property
    def noise(self) -> str:
        """Return ``receiver`` if each receiver of a row has noise of its own, else ``node``; theory checks read it."""
        return "receiver"

    @property
    def parameters(self) -> str:
        """Return the type in which the parameters of rows are sent; ``gnnqlab.systems.services`` reads it."""
        return "none"

    @property
    def widths(self) -> tuple[int, ...]:
        """Return the bit-widths that this codec can write; by default the one that `encode_rows` takes an element."""
        return (written_width(self.encode_rows),)

    def param_bytes(self, bits: int, columns: int) -> int:
        """Return the bytes of parameters that a row of a bit-width, with D columns, has on the wire.

        By default what `encode_rows` writes beyond ``ceil(D bits / 8)``.
        """
        return surplus_bytes(self.encode_rows, bits, columns)

    def row_variance(self, columns: int) -> RowVariance | None:
        """Return the variance of a decoded row; ``None``: unknown, and bits that weigh rows are refused."""
        return None

    def biased(self, direction: str) -> str:
        """Return why messages are wrong on average, or an empty text; :mod:`gnnqlab.systems.unbiased` calls it."""
        return ""

    def rows(self, num_rows: int, columns: int, device: torch.device) -> Tensor:
        """Return an uninitialised ``(n, D)`` buffer in the form that decoding fills fastest."""
        return torch.empty(num_rows, columns, device=device)

    def layout(self, widths: int | Tensor, num_rows: int, columns: int) -> Layout:
        """Lay out a message."""
        return lay_out(widths, num_rows, columns, param_bytes=self.param_bytes)

    def landing(self, out: Tensor) -> Tensor | None:
        """Return the bytes of ``out`` if a message may be received there directly, else ``None``."""
        return None

    def departing(self, x: Tensor) -> Tensor | None:
        """Return the bytes of ``x`` if a message may be sent from there, else ``None``; channels call it."""
        return None

    def encode_rows(self, rows: Tensor, bits: int, noise: RowNoise | None) -> Tensor | NDArray[Any]:
        """Return the rows of one bit-width encoded, ``(n, ...)`` of any type, equally many bytes a row.

        Args:
            rows: float32 ``(n, D)``, finite.
            bits: their bit-width, one of `widths`.
            noise: random numbers that both ends of the message draw alike.
        """
        raise NotImplementedError(f"{type(self).__name__} must define encode_rows, or encode")

    def decode_rows(self, encoded: Tensor, bits: int, noise: RowNoise | None) -> Tensor | NDArray[Any]:
        """Return the rows ``(n, D)`` that :meth:`encode_rows` encoded.

        Args:
            encoded: uint8 ``(n, B)``, with ``B`` bytes a row.
            bits, noise: those of encoding; no noise where a message is decoded without its key.
        """
        raise NotImplementedError(f"{type(self).__name__} must define decode_rows, or decode")

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        """Write ``x[rows]`` (both in wire order) into a uint8 segment of ``layout.num_bytes``.

        Returns:
            What a codec notes of each row, float32 ``(n,)`` or ``(n, K)`` in wire order, if it notes anything: the
            spreads that its ``row_variance`` is of, by which rows are weighed where it has one.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf; on CUDA `raise_refused` does.
        """
        for part in equal_rows(layout, segment, self.param_bytes):
            values_nD = x.index_select(0, rows[part.rows])
            with counted_from(part.rows.start):
                _expect_finite(values_nD)
                part.write(self.encode_rows(values_nD, part.bits, _noise_of(self, ids[part.rows], noise)), self)
        return None

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
        put = out.index_add_ if accumulate else out.index_copy_
        for part in equal_rows(layout, segment, self.param_bytes):
            row_noise = _noise_of(self, None if ids is None else ids[part.rows], noise)
            decoded = torch.as_tensor(self.decode_rows(part.read(), part.bits, row_noise))
            put(0, rows[part.rows], decoded.to(out.dtype))


def _noise_of(codec: Codec, ids: Tensor | None, noise: Noise | None) -> RowNoise | None:
    return None if ids is None or noise is None else RowNoise(ids, **noise.key(codec.noise))


@dataclass(frozen=True)
class Float32(Codec):
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
class Stochastic(Codec):
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
    more variance at the same bytes: 1.36 ± 0.20 times on ``amazon_computers`` in 1 bit with GCN on 8 workers, as
    :func:`gnnqlab.simulation.gradient_noise.gradient_noise` measures it. With two workers a row has one receiver and
    both are the same, bit for bit."""

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
