"""Base classes of the axis ``codec``: how rows become the bytes of a message."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from gnnqlab.axis_part import AxisPart
from gnnqlab.bits.variance import RowVariance
from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.codec.rows import note_non_finite
from gnnqlab.message.codecs.equal_rows import RowNoise, equal_rows, surplus_bytes, written_width
from gnnqlab.message.layout import Layout, Part, make_layout

__all__ = ["Codec", "Noise", "PartCodec", "PartRows", "require_finite"]

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
    renamed: ClassVar[dict[str, str]] = {
        "fades_from": "min_contractive_bits", "departing": "send_view", "landing": "receive_view",
    }  # fmt: skip
    takes_bfloat16: ClassVar[bool] = False
    """Whether `encode` takes rows of bfloat16 as they are; channels read it."""
    integer_codes: ClassVar[bool] = False
    """Whether the payload is integer codes of the rows' bit-widths, in whole bytes a row as
    :func:`gnnqlab.message.layout.make_layout` has them; :mod:`gnnqlab.message.codecs.entropy` reads it."""
    min_contractive_bits: ClassVar[int] = 1
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
        return make_layout(widths, num_rows, columns, param_bytes=self.param_bytes)

    def receive_view(self, out: Tensor) -> Tensor | None:
        """Return the bytes of ``out`` if a message may be received there directly, else ``None``."""
        return None

    def send_view(self, x: Tensor) -> Tensor | None:
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
            try:
                require_finite(values_nD)
                part.write(self.encode_rows(values_nD, part.bits, _noise_of(self, ids[part.rows], noise)), self)
            except NonFiniteRow as error:
                raise NonFiniteRow(part.rows.start + error.position) from error
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


@dataclass(frozen=True, eq=False)
class PartRows:
    """The rows of one part of a message: where they are, and where their bytes are."""

    width: int
    """Their bit-width, or the widest that they may have."""
    bits: int | Tensor
    offsets: Tensor | None
    """First byte of each row in ``payload``, int64 ``(m,)``; ``None`` if rows follow at one width."""
    payload: Tensor
    """Uint8."""
    params: Any
    """Where their parameters are, as :meth:`PartCodec.part_parameters` returns it."""
    rows: Tensor
    """Int64 ``(m,)``."""
    ids: Tensor | None
    """Their global ids, int64 ``(m,)``; ``None``: not known to the receiver."""


class PartCodec(Codec, ABC):
    """Base class of codecs that write a message part by part: the rows of a width, or all that are narrower.

    Letters: m rows of a part, D columns.
    """

    alone: ClassVar[tuple[int, ...]] = (32, 16)
    """Widths whose rows are a part of their own, widest first; all that are narrower are one."""
    aligned: ClassVar[bool] = True
    """Whether rows are decoded to the beginnings of cache lines, where kernels write fastest."""
    undecodable: ClassVar[str] = ""
    """Name of the rows that decode only with the ids and the noise of their message; empty: none."""

    def rows(self, num_rows: int, columns: int, device: torch.device) -> Tensor:
        stride = -(-columns // _LINE) * _LINE if self.aligned else columns
        return torch.empty(num_rows, stride, device=device)[:, :columns]

    def notes(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return where encoding notes numbers of each row, ``(n, ...)``: by default its range."""
        return torch.empty(rows.numel(), device=x.device)

    def part_parameters(self, layout: Layout, segment: Tensor, part: Part) -> Any:
        """Return where the parameters of a part are in a message: by default their bytes."""
        return segment[part.params]

    @abstractmethod
    def encode_part(self, part: PartRows, x: Tensor, noted: Tensor, noise: Noise) -> None:
        """Write ``x[part.rows]``, x float32 ``(N, D)``; ``noted`` are its rows of :meth:`notes`."""

    @abstractmethod
    def decode_part(self, part: PartRows, out: Tensor, noise: Noise | None, *, accumulate: bool) -> None:
        """Put the rows of one part at ``out[part.rows]``, or add them there."""

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        """Write rows part by part; what :meth:`notes` notes of them is found on the way.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf, or numbers made of it overflow.
        """
        noted = self.notes(x, rows)
        for part in layout.parts(self.alone):
            own = self._part_rows(part, layout, segment, rows, ids)
            try:
                self.encode_part(own, x, noted[part.rows], noise)
            except NonFiniteRow as error:
                raise NonFiniteRow(part.rows.start + error.position) from error
        return noted

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
            ValueError: without ids and noise, if rows are ``undecodable`` without them.
        """
        if self.undecodable and (ids is None or noise is None):
            raise ValueError(
                f"{self.undecodable} are decoded with the ids and the noise of their message, got none; give both"
            )
        for part in layout.parts(self.alone):
            self.decode_part(self._part_rows(part, layout, segment, rows, ids), out, noise, accumulate=accumulate)

    def _part_rows(self, part: Part, layout: Layout, segment: Tensor, rows: Tensor, ids: Tensor | None) -> PartRows:
        of, params = part.rows, self.part_parameters(layout, segment, part)
        own = None if ids is None else ids[of]
        return PartRows(part.width, part.bits, part.offsets, segment[part.payload], params, rows[of], own)


def require_finite(rows: Tensor) -> None:
    """Raise NonFiniteRow if a row holds NaN or Inf; on CUDA note it for `raise_refused`."""
    if rows.is_cuda:
        note_non_finite(~torch.isfinite(rows).all(dim=1))
    elif not torch.isfinite(rows.sum()):
        finite = torch.isfinite(rows).all(dim=1)
        if not bool(finite.all()):
            raise NonFiniteRow(int((~finite).nonzero()[0, 0]))
