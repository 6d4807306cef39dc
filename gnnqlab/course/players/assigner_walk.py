"""Numbers of one bit assignment, from traced ranges to bit-widths, as the views show them.

The parts are those of a run's assigner: `gnnqlab.bits.assigner.groups` computes β and groups rows,
`gnnqlab.bits.assigner.problem` defines the problem, `gnnqlab.bits.assigner.solver` solves it. Only the cost of the link
is specified, not timed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.partition.cut import Cut, Partitioner
from gnnqlab.tune.offline_assigner import OfflineAssigner
from gnnqlab.tune.trace import trace
from gnnqlab.tune.traced import Trace, TracedMessage
from gnnqlab.tune.wire import Wire

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pandas import DataFrame
    from torch import Tensor

    from gnnqlab.bits.assigner.problem import Problem, Solution
    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.parts import Parts
    from gnnqlab.theory.cost import LinkCost

__all__ = ["AssignerWalk", "trace_parts"]


@dataclass(frozen=True)
class _ExistingCut(Partitioner):
    """Partitioner that returns an existing cut."""

    existing: Cut

    def cut(self, graph: Graph, workers: int) -> Cut:
        return self.existing


def trace_parts(
    parts: Parts, *, model: str = "gcn", hidden: int = 16, layers: int = 3, epochs: int = 5, seed: int = 0
) -> Trace:
    """Train some epochs on a partition, with workers as threads of this process, and record the ranges of all rows.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> seen = trace_parts(partition(course.ten_nodes(), course.Halves(), workers=2), hidden=8, layers=2)
        >>> [(message.sender, message.receiver, message.ids.tolist()) for message in seen.messages_at((0, "forward"))]
        [(0, 1, [3, 4]), (1, 0, [5, 7])]
    """
    from gnnqlab.nn.models.registry import ModelSettings
    from gnnqlab.systems.registry import make_system
    from gnnqlab.train.config.run_config import TrainSettings

    recipe = replace(make_system("vanilla"), partition=_ExistingCut(parts.cut))  # no partitioner runs
    shape = ModelSettings(name=model, hidden=hidden, layers=layers)
    settings = TrainSettings(seed=seed)
    return trace(parts.graph, shape, recipe, workers=parts.workers, epochs=epochs, settings=settings, theorem=False)


@dataclass(frozen=True, eq=False)
class AssignerWalk:
    """Assignment of one layer and direction, with one of its messages to follow."""

    assigner: OfflineAssigner = field(repr=False)
    wire: Wire
    settings: Assigned
    """λ, group size and the bit-widths to choose from."""
    layer: int
    """Number of the layer, from 0."""
    direction: str
    """``forward`` or ``backward``."""
    sender: int
    receiver: int

    @classmethod
    def from_trace(
        cls,
        seen: Trace,
        wire: Wire,
        *,
        lam: float = 0.5,
        group_size: int = 100,
        bit_widths: tuple[int, ...] = (2, 4, 8),
        layer: int | None = None,
        direction: str = "forward",
        sender: int = 0,
        receiver: int = 1,
    ) -> AssignerWalk:
        """Create the walk from a trace and a link.

        Args:
            seen: the traced messages.
            wire: the link between the workers.
            lam: λ.
            group_size: rows that share a bit-width.
            bit_widths: bit-widths to choose from.
            layer: layer of the messages, from 0; by default the second, whose inputs are computed embeddings.
            direction: ``forward`` for embeddings, ``backward`` for their gradients.
            sender: sender of the message to follow.
            receiver: receiver of that message.

        Raises:
            ValueError: if a setting is out of range, or no such message was traced.
        """
        settings = Assigned(lam=lam, group_size=group_size, bit_widths=tuple(bit_widths))
        # a model of one layer has only layer 0
        chosen_layer = max(place[0] for place in seen.places) and 1 if layer is None else layer
        return cls(OfflineAssigner(seen), wire, settings, chosen_layer, direction, sender, receiver)._require_message()

    def with_changes(self, **changes: Any) -> AssignerWalk:
        """Return a walk with other settings or another message, on the same trace.

        Raises:
            ValueError: as :meth:`from_trace`.
        """
        # λ, group size and bit-widths are settings of the assigner; other changes are fields of the walk.
        bits: dict[str, Any] = {name: changes.pop(name) for name in ("lam", "group_size") if name in changes}
        if "bit_widths" in changes:
            bits["bit_widths"] = tuple(changes.pop("bit_widths"))
        return replace(self, settings=replace(self.settings, **bits), **changes)._require_message()

    def _require_message(self) -> AssignerWalk:
        pairs = [(message.sender, message.receiver) for message in self.messages]
        if (self.sender, self.receiver) not in pairs:
            raise ValueError(
                f"a message must be one that was traced at layer {self.layer}, {self.direction}: {pairs}, got "
                f"{(self.sender, self.receiver)}"
            )
        return self

    @property
    def place(self) -> tuple[int, str]:
        return self.layer, self.direction

    @property
    def messages(self) -> list[TracedMessage]:
        """All messages of this layer and direction; their bit-widths are assigned together."""
        return self.assigner.messages(self.place)

    @property
    def number(self) -> int:
        """Index of the followed message in ``messages``."""
        pairs = [(message.sender, message.receiver) for message in self.messages]
        return pairs.index((self.sender, self.receiver))

    @property
    def message(self) -> TracedMessage:
        return self.messages[self.number]

    @property
    def index(self) -> int:
        """Index of the traced epoch used: that of a run's first assignment."""
        return self.assigner.trace.index(self.settings.first)

    @property
    def epoch(self) -> int:
        return self.assigner.trace.epochs[self.index]

    @property
    def beta(self) -> Tensor:
        """β of each row of the message, float64 ``(n,)``, in wire order."""
        return self.assigner.betas(self.index, self.place)[self.number]  # same order as ``messages``

    @cached_property
    def group_of_row(self) -> NDArray[Any]:
        """Group of each row of the message, from 0 (largest β), int64 ``(n,)``."""
        groups = self.assigner.groups(self.index, self.settings.group_size)[self.place]
        return groups[self.number].group_of_row

    @cached_property
    def cost(self) -> LinkCost:
        """θ and γ of every pair of workers."""
        return self.wire.cost()

    @cached_property
    def problem(self) -> Problem:
        problems = self.assigner.problems(self.settings, self.cost, index=self.index, transport=self.wire.transport)
        return problems[self.place]

    @cached_property
    def solution(self) -> Solution:
        from gnnqlab.bits.assigner.solver import solve

        return solve(self.problem)

    @cached_property
    def widths(self) -> list[NDArray[Any]]:
        """Bit-widths of every row, one array per message, in the order of ``messages``."""
        import numpy as np

        groups = self.assigner.groups(self.index, self.settings.group_size)[
            self.place
        ]  # per message: group of each row
        # index of each message's first group, without 0
        ends = np.cumsum([message_groups.rows.size for message_groups in groups])[:-1]
        # The solution has one bit-width per group, message after message; each row takes that of its group.
        return [
            part[message_groups.group_of_row]
            for message_groups, part in zip(groups, np.split(self.solution.widths, ends))
        ]

    @cached_property
    def busiest_end(self) -> tuple[str, int] | None:
        """``sends`` or ``receives``, and the worker that is the bottleneck there; ``None`` in ring rounds."""
        import torch

        if self.wire.transport == "ring":  # in ring rounds a worker has one partner per round
            return None
        # bit-widths of all messages as tensors
        message_widths = {self.place: [torch.from_numpy(rows) for rows in self.widths]}
        seconds = self.cost.seconds(self.assigner.sent_bytes(message_widths)[self.place])  # (P, P), sender × receiver
        # bytes leave and arrive at the same time, so take the larger sum
        ends = {verb: seconds.sum(axis=axis) for verb, axis in (("sends", 1), ("receives", 0))}
        verb = max(ends, key=lambda name: float(ends[name].max()))
        return verb, int(ends[verb].argmax())

    def widths_by_row(self) -> dict[tuple[int, int], int]:
        """Return bit-widths by ``(worker that holds the copy, node)``, the argument of `graph_drawing.draw_bits`."""
        forward = self.direction == "forward"
        return {
            (message.receiver if forward else message.sender, node): int(bits)
            for message, rows in zip(self.messages, self.widths, strict=True)
            for node, bits in zip(message.ids.tolist(), rows.tolist(), strict=True)
        }

    def row_bytes(self, bits: int) -> int:
        """Return bytes of one row on the wire, including quantization parameters."""
        from gnnqlab.bits.row import row_bytes

        # codes and two parameters
        return row_bytes(bits, self.message.columns, self.assigner.codec_of("forward").param_bytes)

    def transfer_ms(self, message: TracedMessage, bits: int) -> float:
        """Return milliseconds that a message takes over the link if all its rows have one bit-width."""
        pair = message.sender, message.receiver
        theta, gamma = float(self.cost.theta_s_per_byte[pair]), float(self.cost.gamma_s[pair])
        # affine cost model: γ + θ · bytes, seconds -> ms
        return 1e3 * (gamma + theta * message.num_rows * self.row_bytes(bits))

    def to_frame(self) -> DataFrame:
        """Return the rows of the message: ``node, use, range, beta, group, bits``, in wire order."""
        import pandas as pd

        message = self.message
        return pd.DataFrame(
            {
                "use": message.use.tolist(),
                "range": message.ranges[self.index].tolist(),
                "beta": self.beta.tolist(),
                "group": self.group_of_row.tolist(),
                "bits": self.widths[self.number].tolist(),
            },
            index=pd.Index(message.ids.tolist(), name="node"),
        )
