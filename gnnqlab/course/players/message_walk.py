"""One message through quantize, pack, wire and unpack: every number that a view of it shows.

The bytes are those of the codec itself. What stands beside them (fractions, noise) is computed from the same row and
the same key, so that a reader can follow each code; a test holds the two against each other.
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
    """A run of bytes on the wire that belong to one row."""

    kind: str
    """``parameters`` or ``payload``."""
    node: int
    bits: int
    first: int
    """Offset of the first byte in the message."""
    size: int


@dataclass(frozen=True, eq=False)
class MessageWalk:
    """A message on its way, seen from one of its rows."""

    message: RealMessage
    node: int
    """Global id of the row that is followed."""
    widths: tuple[int, ...]
    """Bits of every row, in the order of ``message.ids``."""
    draw: int = 0
    """Which noise: 0 is the message's own epoch, 1 the one after."""
    parameters: str = "float32"
    """Type in which zero-point and scale travel."""

    @classmethod
    def of(
        cls,
        message: RealMessage,
        *,
        bits: int | Tensor = 2,
        node: int | None = None,
        draw: int = 0,
        parameters: str = "float32",
    ) -> MessageWalk:
        """Start at a row, by default that with the most different values; every row in the same number of bits.

        Raises:
            ValueError: if the message has no such row, or a width is not 1, 2, 4 or 8.

        Example:
            >>> import torch
            >>> from gnnqlab.course.experiments.real_message import RealMessage
            >>> rows, ids = torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([7])
            >>> walk = MessageWalk.of(RealMessage(rows, ids, 0, 1, layer=1, epoch=0, seed=0), bits=2)
            >>> walk.codes.tolist(), walk.scale, walk.payload.tolist() == [0 + (1 << 2) + (3 << 4)]
            ([0, 1, 3], 1.0, True)
        """
        from gnnqlab.kernels.codec.rows import WIDTHS

        known = message.ids.tolist()
        if node is None:
            node = known[max(range(len(known)), key=lambda place: message.rows[place].unique().numel())]
        if node not in known:
            raise ValueError(f"node must be one whose row is in the message, {known[:8]} ..., got {node}")
        widths = (bits,) * len(known) if isinstance(bits, int) else tuple(bits.tolist())
        if not set(widths) <= set(WIDTHS):
            raise ValueError(f"bits must be among {WIDTHS}, got {sorted(set(widths))}")
        if len(widths) != len(known):
            raise ValueError(f"bits must be one width or one a row, {len(known)} here, got {len(widths)}")
        return cls(message, node, widths, draw, parameters)

    @property
    def position(self) -> int:
        """Where the row stands in the message's own order."""
        return self.message.ids.tolist().index(self.node)

    @property
    def bits(self) -> int:
        """Width of the row that is followed."""
        return self.widths[self.position]

    @property
    def width(self) -> str:
        """The same in words: ``2 bits``."""
        return human_bits(self.bits)

    @property
    def row(self) -> Tensor:
        """The row as it was, float32 ``(D,)``."""
        return self.message.rows[self.position]

    @property
    def epoch(self) -> int:
        return self.message.epoch + self.draw

    @cached_property
    def layout(self) -> Layout:
        """Where every row of the message stands."""
        import torch

        uniform = len(set(self.widths)) == 1
        widths = self.widths[0] if uniform else torch.tensor(self.widths, dtype=torch.uint8)
        return self._codec.layout(widths, *self.message.rows.shape)

    @cached_property
    def segment(self) -> Tensor:
        """The bytes on the wire, uint8: what the codec writes."""
        import torch

        message, layout = self.message, self.layout
        rows = layout.to_wire_order(torch.arange(message.ids.numel()))
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
        """The row as it arrives, float32 ``(D,)``."""
        return self.received[self.position]

    @property
    def zero(self) -> float:
        """The zero-point Z that travels: the row's smallest value."""
        return float(self._travelling[0])

    @property
    def scale(self) -> float:
        """The step S that travels: ``(max - min) / (2^b - 1)``."""
        return float(self._travelling[1])

    @property
    def payload(self) -> Tensor:
        """The row's own bytes on the wire, uint8 ``(ceil(D b / 8),)``."""
        own = next(run for run in self.wire if run.node == self.node and run.kind == "payload")
        return self.segment[own.first : own.first + own.size]

    @cached_property
    def codes(self) -> Tensor:
        """The codes in those bytes, uint8 ``(D,)``."""
        from gnnqlab.kernels.reference.codec import unpack

        return unpack(self.payload[None], self.bits, self.row.numel())[0]

    @property
    def marks(self) -> Tensor:
        """Where each value stands on the ruler, ``(x - Z) / S``, float64 ``(D,)``: to 1/65536 step, as in the codec."""
        if self.scale == 0:
            return self.row.double() * 0
        steps = (self.row - self._travelling[0]) * (65536.0 / self._travelling[1])
        return (steps.round().clamp(0, (2**self.bits - 1) << 16) / 65536).double()

    @cached_property
    def noise(self) -> Tensor:
        """The ``u`` that was added before rounding down, float64 ``(D,)`` in [0, 1)."""
        from gnnqlab.kernels.noise import uniform16

        key = self._noise
        ids = self.message.ids[self.position : self.position + 1]
        drawn = uniform16(ids, self.row.numel(), seed=key.seed, epoch=key.epoch, stream=key.stream)
        return drawn[0].double() / 65536

    @property
    def wire(self) -> tuple[WireSegment, ...]:
        """What each byte of the message is, in wire order: first all parameters, then all payloads."""
        from gnnqlab.kernels.codec.rows import row_bytes

        order = self.layout.order
        places = range(len(self.widths)) if order is None else order.tolist()
        per_row = self.layout.param_bytes // len(self.widths)
        runs, first = [], 0
        for kind in ("parameters", "payload"):
            for place in places:
                size = per_row if kind == "parameters" else int(row_bytes(self.row.numel(), self.widths[place]))
                runs.append(WireSegment(kind, int(self.message.ids[place]), self.widths[place], first, size))
                first += size
        return tuple(runs)

    @property
    def variance(self) -> dict[str, float]:
        """Theorem 1 for this row: ``exact``, ``average`` and ``worst`` of ``E||decoded - row||^2``."""
        from gnnqlab.theory.variance import decoded_moments

        moments = decoded_moments(self.row[None], self.bits)
        return {name: float(getattr(moments, name)) for name in ("exact", "average", "worst")}

    def to_frame(self) -> DataFrame:
        """One line an element: value, place on the ruler, fraction, noise, code, decoded value, error."""
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
        """One line a byte of the row's payload: the codes in it, its bits, its value."""
        import pandas as pd

        payload = self.payload.tolist()
        codes, per_byte = self.codes.tolist(), 8 // self.bits
        inside = [codes[number * per_byte : (number + 1) * per_byte] for number in range(len(payload))]
        return pd.DataFrame(
            {
                "codes": [", ".join(map(str, some)) for some in inside],
                "bits": [f"{value:08b}" for value in payload],
                "byte": payload,
            },
            index=pd.Index(range(len(payload)), name="byte of the payload"),
        )

    def wire_frame(self) -> DataFrame:
        """One line a run of bytes on the wire."""
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

        return Noise(self.message.seed, self.epoch, stream("forward", self.message.layer))

    @cached_property
    def _travelling(self) -> Tensor:
        """(Z, S) of the row, read back from the wire."""
        import torch

        own = next(run for run in self.wire if run.node == self.node and run.kind == "parameters")
        kind = torch.float32 if self.parameters == "float32" else torch.bfloat16
        return self.segment[own.first : own.first + own.size].clone().view(kind).float()
