"""Numbers of one message at each step (quantize, pack, wire, unpack), as the views show them.

The bytes are written by the codec itself. Fractions and noise are computed from the same row and the same noise key,
so that a reader can follow each code; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor

    from gnnqlab.course.experiments.real_message import RealMessage
    from gnnqlab.message.layout import Layout

__all__ = ["MessageWalk", "WireSegment"]


@dataclass(frozen=True)
class WireSegment:
    """Consecutive bytes on the wire that belong to one row."""

    kind: str
    """``parameters`` or ``payload``."""
    node: int
    bits: int
    first: int
    """Offset of the first byte in the message."""
    size: int


@dataclass(frozen=True, eq=False)
class MessageWalk:
    """Message at every step, with one of its rows to follow."""

    message: RealMessage
    node: int
    """Global id of the node whose row is followed."""
    widths: tuple[int, ...]
    """Bit-width of every row, in the order of ``message.ids``."""
    draw: int = 0
    """Number of the noise: 0 is that of the message's epoch, 1 of the next one."""
    parameters: str = "float32"
    """Type of zero-point and scale on the wire."""

    @classmethod
    def from_message(
        cls,
        message: RealMessage,
        *,
        bits: int | Tensor = 2,
        node: int | None = None,
        draw: int = 0,
        parameters: str = "float32",
    ) -> MessageWalk:
        """Follow a row, by default that with the most distinct values; ``bits`` is one bit-width or one per row.

        Raises:
            ValueError: if the message has no such row, or a bit-width is not 1, 2, 4 or 8.

        Example:
            >>> import torch
            >>> from gnnqlab.course.experiments.real_message import RealMessage
            >>> rows, ids = torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([7])
            >>> walk = MessageWalk.from_message(RealMessage(rows, ids, 0, 1, layer=1, epoch=0, seed=0), bits=2)
            >>> walk.codes.tolist(), walk.scale, walk.payload.tolist() == [0 + (1 << 2) + (3 << 4)]
            ([0, 1, 3], 1.0, True)
        """
        from gnnqlab.kernels.codec.rows import WIDTHS

        ids = message.ids.tolist()
        if node is None:
            # most distinct values: rows after ReLU have many zeros
            node = ids[max(range(len(ids)), key=lambda place: message.rows[place].unique().numel())]
        if node not in ids:
            raise ValueError(f"node must be one whose row is in the message, {ids[:8]} ..., got {node}")
        widths = (bits,) * len(ids) if isinstance(bits, int) else tuple(bits.tolist())  # one bit-width per row
        if not set(widths) <= set(WIDTHS):
            raise ValueError(f"bits must be among {WIDTHS}, got {sorted(set(widths))}")
        if len(widths) != len(ids):
            raise ValueError(f"bits must be one bit-width or one per row, {len(ids)} here, got {len(widths)}")
        return cls(message, node, widths, draw, parameters)

    @property
    def position(self) -> int:
        """Index of the row in ``message.ids``."""
        return self.message.ids.tolist().index(self.node)

    @property
    def bits(self) -> int:
        """Bit-width of the row that is followed."""
        return self.widths[self.position]

    @property
    def width(self) -> str:
        """Bit-width in words: ``2 bits``."""
        return human_bits(self.bits)

    @property
    def row(self) -> Tensor:
        """Original row, float32 ``(D,)``."""
        return self.message.rows[self.position]

    @property
    def epoch(self) -> int:
        return self.message.epoch + self.draw

    @cached_property
    def layout(self) -> Layout:
        """Positions of all rows in the message."""
        import torch

        is_uniform = len(set(self.widths)) == 1  # one bit-width for all rows has a simpler layout
        widths = self.widths[0] if is_uniform else torch.tensor(self.widths, dtype=torch.uint8)
        return self._codec.layout(widths, *self.message.rows.shape)

    @cached_property
    def segment(self) -> Tensor:
        """Bytes on the wire, as the codec writes them, uint8."""
        import torch

        message, layout = self.message, self.layout
        rows = layout.to_wire_order(torch.arange(message.ids.numel()))  # wire order: rows sorted by bit-width
        segment = torch.empty(layout.num_bytes, dtype=torch.uint8)
        self._codec.encode(message.rows, rows, layout.to_wire_order(message.ids), layout, segment, self._noise)
        return segment

    @cached_property
    def received(self) -> Tensor:
        """All rows as the receiver decodes them, float32 ``(n, D)``."""
        import torch

        out = torch.empty_like(self.message.rows)
        rows = self.layout.to_wire_order(torch.arange(self.message.ids.numel()))
        self._codec.decode(self.segment, self.layout, out, rows, accumulate=False)
        return out

    @property
    def decoded(self) -> Tensor:
        """Decoded row, float32 ``(D,)``."""
        return self.received[self.position]

    @property
    def zero(self) -> float:
        """Zero-point Z on the wire: the row's smallest value."""
        return float(self._sent_parameters[0])  # (Z, S)

    @property
    def scale(self) -> float:
        """Scale S on the wire: ``(max - min) / (2^b - 1)``."""
        return float(self._sent_parameters[1])

    @property
    def payload(self) -> Tensor:
        """Bytes of the row's codes on the wire, uint8 ``(ceil(D b / 8),)``."""
        segment = next(run for run in self.wire if run.node == self.node and run.kind == "payload")
        return self.segment[segment.first : segment.first + segment.size]

    @cached_property
    def codes(self) -> Tensor:
        """Codes in those bytes, uint8 ``(D,)``."""
        from gnnqlab.kernels.reference.codec import unpack

        return unpack(self.payload[None], self.bits, self.row.numel())[0]  # (1, bytes) -> (D,)

    @property
    def marks(self) -> Tensor:
        """Position of each value on the levels, ``(x - Z) / S``, float64 ``(D,)``, to 1/65536 step as in the codec."""
        if self.scale == 0:
            return self.row.double() * 0  # a constant row: all codes are 0
        # The codec computes in fixed point: 16 fractional bits, so that noise is an integer and codes are reproducible.
        steps = (self.row - self._sent_parameters[0]) * (65536.0 / self._sent_parameters[1])
        return (steps.round().clamp(0, (2**self.bits - 1) << 16) / 65536).double()

    @cached_property
    def noise(self) -> Tensor:
        """Noise ``u``, added before rounding down, float64 ``(D,)`` in [0, 1)."""
        from gnnqlab.kernels.noise import uniform16

        key = self._noise
        ids = self.message.ids[self.position : self.position + 1]
        # 16-bit integers, (1, D)
        integers = uniform16(ids, self.row.numel(), seed=key.seed, epoch=key.epoch, stream=key.stream)
        return integers[0].double() / 65536  # -> [0, 1)

    @property
    def wire(self) -> tuple[WireSegment, ...]:
        """Content of the message in wire order: first all quantization parameters, then all payloads."""
        from gnnqlab.kernels.codec.rows import row_bytes

        order = self.layout.order
        places = range(len(self.widths)) if order is None else order.tolist()  # without an order, rows stay as they are
        param_bytes = self.layout.param_bytes // len(self.widths)  # bytes of Z and S of one row
        runs, start = [], 0
        for kind in ("parameters", "payload"):
            for place in places:
                # bytes of the codes of one row
                size = param_bytes if kind == "parameters" else int(row_bytes(self.row.numel(), self.widths[place]))
                runs.append(WireSegment(kind, int(self.message.ids[place]), self.widths[place], start, size))
                start += size
        return tuple(runs)

    @property
    def variance(self) -> dict[str, float]:
        """``E||decoded - row||^2`` of this row by Theorem 1: ``exact``, ``average`` and ``worst``."""
        from gnnqlab.theory.variance import decoded_moments

        moments = decoded_moments(self.row[None], self.bits)  # (1, D)
        return {name: float(getattr(moments, name)) for name in ("exact", "average", "worst")}

    def to_frame(self) -> DataFrame:
        """Return one line per element: value, position between levels, fraction, noise, code, decoded value, error."""
        import pandas as pd

        marks = self.marks
        return pd.DataFrame(
            {
                "value": self.row.tolist(),
                "(x - Z) / S": marks.tolist(),
                "fraction σ": (marks - marks.floor()).tolist(),
                "noise u": self.noise.tolist(),
                "code q": self.codes.tolist(),
                "decoded": self.decoded.tolist(),
                "error": (self.decoded - self.row).tolist(),
            },
            index=pd.Index(range(self.row.numel()), name="element"),
        )

    def byte_frame(self) -> DataFrame:
        """Return one line per byte of the row's payload: its codes, bits and value."""
        import pandas as pd

        payload = self.payload.tolist()
        codes, codes_per_byte = self.codes.tolist(), 8 // self.bits
        # codes of each byte, the first in the lowest bits
        byte_codes = [codes[number * codes_per_byte : (number + 1) * codes_per_byte] for number in range(len(payload))]
        return pd.DataFrame(
            {
                "codes": [", ".join(map(str, group)) for group in byte_codes],
                "bits": [f"{value:08b}" for value in payload],
                "byte": payload,
            },
            index=pd.Index(range(len(payload)), name="byte of the payload"),
        )

    def wire_frame(self) -> DataFrame:
        """Return one line per segment of bytes on the wire."""
        import pandas as pd

        rows = [(run.node, run.kind, run.bits, run.first, run.size) for run in self.wire]
        return pd.DataFrame(rows, columns=["node", "kind", "bits", "first byte", "bytes"]).set_index("node")

    @property
    def _codec(self):  # type: ignore[no-untyped-def]
        from gnnqlab.message.codecs.codec import Stochastic

        return Stochastic(parameters=self.parameters)

    @property
    def _noise(self):  # type: ignore[no-untyped-def]
        from gnnqlab.kernels.noise import stream
        from gnnqlab.message.codecs.codec import Noise

        # stream of the direction and layer
        return Noise(self.message.seed, self.epoch, stream("forward", self.message.layer))

    @cached_property
    def _sent_parameters(self) -> Tensor:
        """(Z, S) of the row, read back from the wire."""
        import torch

        segment = next(run for run in self.wire if run.node == self.node and run.kind == "parameters")
        kind = torch.float32 if self.parameters == "float32" else torch.bfloat16  # type of Z and S on the wire
        return self.segment[segment.first : segment.first + segment.size].clone().view(kind).float()
