"""Base classes of the axis ``codec``: encode rows to the bytes of a message, and decode them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.axis_part import AxisPart
from gnnqlab.bits.variance import RowVariance
from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.codec.rows import note_non_finite
from gnnqlab.message.codecs.equal_rows import RowNoise, equal_rows, surplus_bytes, written_width
from gnnqlab.message.layout import Layout, Part, make_layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gnnqlab.kernels.sparse.codec_sum import MessageCodes
    from gnnqlab.message.exchange_key import ExchangeKey

__all__ = ["Codec", "Noise", "PartCodec", "PartRows", "require_finite"]

_LINE = 16
"""Float32 elements of a cache line; kernels use streaming stores for rows that begin on one."""


@dataclass(frozen=True)
class Noise:
    """Key of a message's rounding noise; with node id and column it determines every random bit."""

    seed: int
    epoch: int
    stream: int
    peer: int = 0
    """Index of the receiver among the sender's peers, around the ring from 0; 0 if rows have a single receiver."""

    def key(self, whose: str) -> dict[str, int]:
        """Return seed, epoch and stream: separate streams per ``receiver``, or a common one per ``node``."""
        # The lowest bits of the stream are free for rows with several receivers: their sender is not part of the key.
        own_stream = self.stream + (self.peer if whose == "receiver" else 0)
        return {"seed": self.seed, "epoch": self.epoch, "stream": own_stream}


class Codec(AxisPart):
    """Base class of codecs, which encode rows to the bytes of a message and decode them.

    To write your own, define `encode_rows` and `decode_rows`, and `widths` if it supports several bit-widths.
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
    """True if `encode` accepts bfloat16 rows; read by channels."""
    integer_codes: ClassVar[bool] = False
    """True if the payload holds integer codes with the rows' bit-widths, in whole bytes per row as laid out by
    :func:`gnnqlab.message.layout.make_layout`; read by :mod:`gnnqlab.message.codecs.entropy`."""
    min_contractive_bits: ClassVar[int] = 1
    """Smallest bit-width at which the rounding error of a row has a smaller range than the row itself; read by caches
    that send the error with the next message."""

    @property
    def noise(self) -> str:
        """Noise of a row: ``receiver`` if drawn separately for each receiver, else ``node``; read by theory checks."""
        return "receiver"

    @property
    def same_at_receivers(self) -> bool:
        """True if a row has the same bytes at all of its receivers, whatever other rows a message has; read by `Halo`.

        By default if the noise is that of the node. The parameters of a row must follow those of the row before it.
        """
        return self.noise == "node"

    @property
    def parameters(self) -> str:
        """Type of the quantization parameters on the wire; read by ``gnnqlab.systems.services``."""
        return "none"

    @property
    def reads_in_place(self) -> bool:
        """True if products may read the rows of a message by `message_codes`; read by channels."""
        return False

    @property
    def widths(self) -> tuple[int, ...]:
        """Supported bit-widths; by default the number of bits per element that `encode_rows` returns."""
        return (written_width(self.encode_rows),)

    def param_bytes(self, bits: int, columns: int) -> int:
        """Return the parameter bytes of a row with D columns at a bit-width.

        By default the bytes that `encode_rows` returns beyond ``ceil(D bits / 8)``.
        """
        return surplus_bytes(self.encode_rows, bits, columns)

    def row_variance(self, columns: int) -> RowVariance | None:
        """Return the variance model of a decoded row; ``None``: unknown, so adaptive bit policies are refused."""
        return None

    def biased(self, direction: str) -> str:
        """Return the reason why messages are biased, or an empty string; :mod:`gnnqlab.systems.unbiased` calls it."""
        return ""

    def shared_bytes(self, columns: Sequence[int], choices: Sequence[int], workers: int, epoch: int | None) -> float:
        """Return the bytes that all workers send in an epoch for state of the codec; forecasts read it.

        Args:
            columns: D of the rows of each exchange key, repeated for equal ones.
            choices: bit-widths that the policy may choose.
            workers: P.
            epoch: number of the epoch; ``None``: a mean over typical epochs.
        """
        return 0.0

    def at_work(self) -> Codec:
        """Create the codec of one worker; by default the part itself, which has no state."""
        return self

    def codec_at(self, place: ExchangeKey) -> Codec:
        """Return the codec of an exchange key; by default one serves all keys. `ChannelFactory` calls it."""
        return self

    def rows(self, num_rows: int, columns: int, device: torch.device) -> Tensor:
        """Allocate an uninitialised ``(n, D)`` output with the strides that decoding is fastest for."""
        return torch.empty(num_rows, columns, device=device)

    def layout(self, widths: int | Tensor, num_rows: int, columns: int) -> Layout:
        """Compute the layout of a message."""
        return make_layout(widths, num_rows, columns, param_bytes=self.param_bytes)

    def receive_view(self, out: Tensor) -> Tensor | None:
        """Return a uint8 view of ``out`` if a message may be received into it directly, else ``None``."""
        return None

    def send_view(self, x: Tensor) -> Tensor | None:
        """Return a uint8 view of ``x`` if it may be sent without encoding, else ``None``; channels call it."""
        return None

    def message_codes(self, segment: Tensor, layout: Layout, rows: Tensor) -> tuple[MessageCodes, ...] | None:
        """Return the rows of a message for products that read codes; ``None``: they must be decoded. Channels call it.

        Args:
            segment, layout, rows: as in :meth:`decode`.
        """
        return None

    def encode_rows(self, rows: Tensor, bits: int, noise: RowNoise | None) -> Tensor | NDArray[Any]:
        """Encode rows of one bit-width to ``(n, ...)`` of any type, with equally many bytes per row.

        Args:
            rows: float32 ``(n, D)``, finite.
            bits: bit-width of the rows, one of `widths`.
            noise: random numbers, identical at both ends of the message.
        """
        raise NotImplementedError(f"{type(self).__name__} must define encode_rows, or encode")

    def decode_rows(self, encoded: Tensor, bits: int, noise: RowNoise | None) -> Tensor | NDArray[Any]:
        """Decode the output of :meth:`encode_rows` to rows ``(n, D)``.

        Args:
            encoded: uint8 ``(n, B)``, with ``B`` bytes per row.
            bits, noise: as in :meth:`encode_rows`; ``None`` if a message is decoded without its noise key.
        """
        raise NotImplementedError(f"{type(self).__name__} must define decode_rows, or decode")

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        """Encode ``x[rows]`` into a uint8 segment of ``layout.num_bytes``; ``rows`` and ``ids`` are in wire order.

        Returns:
            Row statistics, float32 ``(n,)`` or ``(n, K)`` in wire order, from which ``row_variance`` follows; or
            ``None``.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf; on CUDA `raise_refused` raises it later.
        """
        for part in equal_rows(layout, segment, self.param_bytes):
            values_nD = x.index_select(0, rows[part.rows])  # (n, D) float32, rows of one bit-width
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
        """Decode a segment into ``out[rows]``, or add the rows there.

        Args:
            ids, noise: as in :meth:`encode`, for codecs that need them to decode.
        """
        put = out.index_add_ if accumulate else out.index_copy_
        for part in equal_rows(layout, segment, self.param_bytes):  # one bit-width after another
            row_noise = _noise_of(self, None if ids is None else ids[part.rows], noise)
            values = torch.as_tensor(self.decode_rows(part.read(), part.bits, row_noise))  # (n, B) uint8 -> (n, D)
            put(0, rows[part.rows], values.to(out.dtype))


def _noise_of(codec: Codec, ids: Tensor | None, noise: Noise | None) -> RowNoise | None:
    return None if ids is None or noise is None else RowNoise(ids, **noise.key(codec.noise))


@dataclass(frozen=True, eq=False)
class PartRows:
    """Rows of one part of a message, with views of their bytes."""

    width: int
    """Bit-width of the rows, or the largest one that they may have."""
    bits: int | Tensor
    """Common bit-width, or one per row."""
    offsets: Tensor | None
    """First byte of each row in ``payload``, int64 ``(m,)``; ``None`` if all rows have one bit-width."""
    payload: Tensor
    """Bytes of the codes, uint8."""
    params: Any
    """Views of the parameters, as returned by :meth:`PartCodec.part_parameters`."""
    rows: Tensor
    """Row indices into the source or output, int64 ``(m,)``."""
    ids: Tensor | None
    """Global node ids, int64 ``(m,)``; ``None``: decoded without ids."""


class PartCodec(Codec, ABC):
    """Base class of codecs that encode a message part by part: rows of one bit-width, or of all smaller ones together.

    Letters: m rows of a part, D columns.
    """

    renamed: ClassVar[dict[str, str]] = {**Codec.renamed, "alone": "separate_widths"}
    separate_widths: ClassVar[tuple[int, ...]] = (32, 16)
    """Bit-widths with a part of their own, widest first; all smaller ones form one part."""
    aligned: ClassVar[bool] = True
    """True if decoded rows begin on cache lines, where kernels write fastest."""
    undecodable: ClassVar[str] = ""
    """Name of the rows that need the ids and the noise of their message to be decoded; empty: none."""

    def rows(self, num_rows: int, columns: int, device: torch.device) -> Tensor:
        stride = -(-columns // _LINE) * _LINE if self.aligned else columns  # rounded up to whole cache lines
        return torch.empty(num_rows, stride, device=device)[:, :columns]  # (n, D) with row stride >= D

    def notes(self, x: Tensor, rows: Tensor) -> Tensor:
        """Allocate the row statistics that encoding fills, ``(n, ...)``: by default the range of each row."""
        return torch.empty(rows.numel(), device=x.device)

    def part_parameters(self, layout: Layout, segment: Tensor, part: Part) -> Any:
        """Return views of the parameters of a part: by default their bytes, uint8."""
        return segment[part.params]

    @abstractmethod
    def encode_part(self, part: PartRows, x: Tensor, noted: Tensor, noise: Noise) -> None:
        """Encode ``x[part.rows]``, x float32 ``(N, D)``; ``noted`` receives the statistics, see :meth:`notes`."""

    @abstractmethod
    def decode_part(self, part: PartRows, out: Tensor, noise: Noise | None, *, accumulate: bool) -> None:
        """Decode one part into ``out[part.rows]``, or add the rows there."""

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        """Encode rows part by part; return the row statistics of :meth:`notes`.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf, or its statistics overflow.
        """
        statistics = self.notes(x, rows)  # (n,) or (n, K) float32
        for part in layout.parts(self.separate_widths):
            # Views, so that the codec writes directly into the message.
            part_rows = self._part_rows(part, layout, segment, rows, ids)
            try:
                self.encode_part(part_rows, x, statistics[part.rows], noise)
            except NonFiniteRow as error:  # its position counts within the part
                raise NonFiniteRow(part.rows.start + error.position) from error
        return statistics

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
        """Decode a segment into ``out[rows]``, or add the rows there.

        Raises:
            ValueError: if rows are ``undecodable`` without ids and noise, and these are missing.
        """
        if self.undecodable and (ids is None or noise is None):
            raise ValueError(
                f"{self.undecodable} must be decoded with the ids and the noise of their message, got none; pass both"
            )
        for part in layout.parts(self.separate_widths):
            self.decode_part(self._part_rows(part, layout, segment, rows, ids), out, noise, accumulate=accumulate)

    def _part_rows(self, part: Part, layout: Layout, segment: Tensor, rows: Tensor, ids: Tensor | None) -> PartRows:
        params = self.part_parameters(layout, segment, part)
        part_ids = None if ids is None else ids[part.rows]
        return PartRows(part.width, part.bits, part.offsets, segment[part.payload], params, rows[part.rows], part_ids)


def require_finite(rows: Tensor) -> None:
    """Raise NonFiniteRow if a row holds NaN or Inf; on CUDA record it for `raise_refused`, without synchronizing."""
    if rows.is_cuda:
        note_non_finite(~torch.isfinite(rows).all(dim=1))
    elif not torch.isfinite(rows.sum()):  # one cheap pass first; a finite sum has finite terms
        is_finite = torch.isfinite(rows).all(dim=1)
        if not bool(is_finite.all()):
            raise NonFiniteRow(int((~is_finite).nonzero()[0, 0]))
