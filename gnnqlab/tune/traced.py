"""What a trace holds: messages with what is noted of their rows, the nodes that they reach, and Theorem 3's factors.

Letters: n rows of one message, T traced epochs, V nodes of the graph, E pairs (row, node that it reaches).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from gnnqlab.bits.policy import Rows
from gnnqlab.bits.variance import RowVariance, min_max
from gnnqlab.message.codecs.least_variance import least_errors
from gnnqlab.partition.shard import Shard
from gnnqlab.simulation.weight_terms import Place, WeightTerms
from gnnqlab.theory.variance import AVERAGE

__all__ = ["Reach", "Theorem", "Trace", "TracedMessage", "VarianceOf", "untraced"]

_TRACED = ("range", "norm", "of 1 bit", "of 2 bits", "of 4 bits")
"""What is kept of each row."""
VarianceOf = Callable[[str, int], RowVariance]
"""(direction, D) -> the variance of rows as their codec has it."""


@dataclass(frozen=True, eq=False)
class TracedMessage:
    """The rows that one worker sends another at one layer, in one direction."""

    layer: int
    direction: str
    sender: int
    receiver: int
    columns: int
    """D."""
    ids: Tensor
    """Global node ids in wire order, int64 ``(n,)``."""
    use: Tensor
    """c_k of :mod:`gnnqlab.bits.assigner.groups`, float64 ``(n,)``."""
    released_use: Tensor
    """The same as AdaQP's published code has it."""
    ranges: Tensor
    """``max - min`` of each row in each traced epoch, float32 ``(T, n)``."""
    norms: Tensor
    """``|x|`` of each row in each traced epoch, 0 of a constant one, float32 ``(T, n)``."""
    between: Tensor
    """Root of the squared error of each row's codes between its ends at 1, 2 and 4 bits, float32 ``(T, n, 3)``."""
    kept_columns: int
    """D where dropped rows are summed before they are projected, since receivers keep them."""
    round: int = 0
    """Which exchange of the layer and direction."""
    to_all: bool = False
    """Whether other receivers of a node's row get the same."""
    exact: bool = False
    """Whether its rows are float32, all of them, in every system."""

    @property
    def place(self) -> tuple[int, str]:
        return self.layer, self.direction

    @property
    def num_rows(self) -> int:
        return self.ids.numel()

    @property
    def holder(self) -> int:
        """The worker in whose halo the rows are."""
        return self.receiver if self.direction == "forward" else self.sender

    def spreads(self, index: int, names: Sequence[str] = ("range",)) -> Tensor:
        """Return what a codec would have noted of each row at the traced epoch of this index, float32 ``(n, K)``.

        Raises:
            ValueError: if a codec notes what no trace has.
        """
        if reason := untraced(names):
            raise ValueError(reason)
        traced = {"range": self.ranges, "norm": self.norms, **self._least}
        return torch.stack([traced[name][index] for name in names], dim=1)

    @cached_property
    def _least(self) -> dict[str, Tensor]:
        """Root of the variance of each row in the better of both codes, as :class:`LeastVariance` notes it."""
        noted = torch.cat([self.between, self.norms[..., None]], dim=2)
        least = torch.stack([least_errors(each, self.columns) for each in noted])
        return dict(zip(("of 1 bit", "of 2 bits", "of 4 bits"), least.unbind(2), strict=True))

    def betas(self, index: int, variance: RowVariance, *, as_released: bool = False) -> Tensor:
        """Return what the variance of each row is made of at a traced epoch, β first, float64 ``(K, n)``."""
        return variance.betas(self.released_use if as_released else self.use, self.spreads(index, variance.spreads))

    def rows(self, seed: int) -> Rows:
        """Return the rows as a bit policy is asked about them."""
        return Rows(
            layer=self.layer,
            direction=self.direction,
            sender=self.sender,
            receiver=self.sender if self.to_all else self.receiver,
            ids=self.ids,
            seed=seed,
            round=self.round,
        )


def untraced(names: Sequence[str]) -> str:
    """Say why a codec that notes these of its rows cannot be weighed by a trace; empty where it can.

    Example:
        >>> untraced(("norm", "range")), untraced(("rest",))[:33]
        ('', 'a trace has range and norm and of')
    """
    if set(names) <= set(_TRACED):
        return ""
    return (
        f"a trace has {' and '.join(_TRACED)} of its rows, got a codec that notes {' and '.join(names)}; "
        "its rows are weighed in training alone, so leave it out of forecasts or choose codec Rotated()"
    )


@dataclass(frozen=True, eq=False)
class Reach:
    """Which nodes the rows of one layer and direction reach: the rows of its messages stand one after another."""

    row: Tensor
    """Row, int64 ``(E,)``."""
    node: Tensor
    """Global id of the node whose sum it enters, int64 ``(E,)``."""
    squared_alpha: Tensor
    """With what squared coefficient, float64 ``(E,)``."""

    def noise(self, squared_steps: Tensor, num_nodes: int) -> Tensor:
        """Return ``Σ_k α^2 D S^2`` of every node, float64 ``(V,)``; steps are one a row, ``D S^2``."""
        noise = torch.zeros(num_nodes, dtype=torch.float64)
        return noise.index_add_(0, self.node, self.squared_alpha * squared_steps[self.row])


@dataclass(frozen=True, eq=False)
class Theorem:
    """What Theorem 3 needs beside the widths, at the weights of the last traced epoch."""

    terms: Sequence[WeightTerms]
    reach: Mapping[tuple[int, str], Reach]
    squared_gradient: float
    """``||∇L||^2`` of the weight matrices, exact."""


@dataclass(frozen=True, eq=False)
class Trace:
    """Every message of a training, over some epochs."""

    epochs: tuple[int, ...]
    """Epochs whose ranges are kept."""
    messages: tuple[TracedMessage, ...]
    shards: tuple[Shard, ...]
    losses: tuple[float, ...]
    """One an epoch from 0 to the last traced one."""
    weights: Tensor
    """Flat, those of the last traced epoch's pass."""
    theorem: Theorem | None
    phases: Mapping[str, float]
    """Processor time by phase in threads of this process: the least of all epochs, mean over workers."""
    seed: int
    attends: frozenset[int] = frozenset()
    """Layers whose weights of neighbours are learnt: their backward pass needs the neighbours' rows."""

    @property
    def workers(self) -> int:
        return len(self.shards)

    @property
    def places(self) -> list[tuple[int, str]]:
        """Every (layer, direction) in which rows travel, in order."""
        return sorted({message.place for message in self.messages})

    @property
    def kept(self) -> Trace:
        """The same training where dropped rows are summed before they are projected; ranges are those seen here."""
        return replace(self, messages=tuple(replace(each, columns=each.kept_columns) for each in self.messages))

    def at(self, place: tuple[int, str]) -> list[TracedMessage]:
        """Return the messages of a layer and direction."""
        return [message for message in self.messages if message.place == place]

    def index(self, epoch: int) -> int:
        """Return which of the kept epochs is the last one up to ``epoch``; the first if there is none."""
        return max((index for index, kept in enumerate(self.epochs) if kept <= epoch), default=0)

    def noise(
        self, widths: Mapping[tuple[int, str], Tensor], index: int, variance: VarianceOf | None = None
    ) -> dict[Place, Tensor]:
        """Return the noise that each node receives, in units of the constant c of ``c D S^2``.

        Args:
            widths: (layer, direction) -> width of every row of its messages, one message after another.
            index: which of the kept epochs.
            variance: direction and D -> the variance of its codec, of which ``D S^2`` is six times; by default that of
                codes between a row's ends.
        """
        assert self.theorem is not None
        nodes = self.shards[0].num_global_nodes
        nothing = torch.zeros(nodes, dtype=torch.float64)
        layers = 1 + max(layer for layer, _ in self.places)
        found: dict[Place, Tensor] = {
            (direction, layer): nothing for layer in range(layers) for direction in ("forward", "backward")
        }
        for (layer, direction), reach in self.theorem.reach.items():
            here = self.at((layer, direction))
            columns = here[0].columns
            of_codec = min_max(columns) if variance is None else variance(direction, columns)
            spreads = torch.cat([message.spreads(index, of_codec.spreads) for message in here])
            found[direction, layer] = reach.noise(of_codec.of(spreads, widths[layer, direction]) / AVERAGE, nodes)
        return found
