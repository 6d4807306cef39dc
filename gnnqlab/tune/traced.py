"""Data of a trace: messages with statistics of their rows, the nodes that rows enter, and Theorem 3's factors.

Letters: n rows of one message, T traced epochs, V nodes of the graph, E pairs (row, node whose sum it enters).
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

__all__ = ["Reach", "Theorem", "Trace", "TracedMessage", "VarianceOf", "untraced_reason"]

_TRACED = ("range", "norm", "of 1 bit", "of 2 bits", "of 4 bits")
"""Statistics that are recorded of each row."""
VarianceOf = Callable[[str, int], RowVariance]
"""(direction, D) -> variance formula of the codec."""


@dataclass(frozen=True, eq=False)
class TracedMessage:
    """Rows that one worker sends to another at one layer, in one direction."""

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
    """c_k as in AdaQP's published code, float64 ``(n,)``."""
    ranges: Tensor
    """``max - min`` of each row in each traced epoch, float32 ``(T, n)``."""
    norms: Tensor
    """``|x|`` of each row in each traced epoch, 0 for a constant one, float32 ``(T, n)``."""
    min_max_errors: Tensor
    """Root of the squared error of each row's min-max codes at 1, 2 and 4 bits, float32 ``(T, n, 3)``."""
    aggregate_first_columns: int
    """D if rows with dropout are aggregated before they are projected, because receivers cache them."""
    round: int = 0
    """Number of the exchange of this layer and direction, from 0."""
    to_all: bool = False
    """True if all receivers of a node get the same row."""
    exact: bool = False
    """True if all rows are float32 in every system."""

    @property
    def place(self) -> tuple[int, str]:
        return self.layer, self.direction

    @property
    def num_rows(self) -> int:
        return self.ids.numel()

    @property
    def holder(self) -> int:
        """Worker with the rows in its halo."""
        return self.receiver if self.direction == "forward" else self.sender

    def spreads(self, index: int, names: Sequence[str] = ("range",)) -> Tensor:
        """Return the statistics that a codec would record of each row at a traced epoch, float32 ``(n, K)``.

        Args:
            index: index of the traced epoch.
            names: names of the statistics, see `gnnqlab.bits.variance.SPREADS`.

        Raises:
            ValueError: if a trace does not have one of them.
        """
        if reason := untraced_reason(names):
            raise ValueError(reason)
        statistics = {"range": self.ranges, "norm": self.norms, **self._least}
        return torch.stack([statistics[name][index] for name in names], dim=1)  # (n,) each -> (n, K)

    @cached_property
    def _least(self) -> dict[str, Tensor]:
        """Root of the variance of each row in the better of both codes, as recorded by :class:`LeastVariance`."""
        row_statistics = torch.cat([self.min_max_errors, self.norms[..., None]], dim=2)  # (T, n, 4)
        errors = torch.stack([least_errors(each, self.columns) for each in row_statistics])  # (T, n, 3)
        return dict(zip(("of 1 bit", "of 2 bits", "of 4 bits"), errors.unbind(2), strict=True))

    def betas(self, index: int, variance: RowVariance, *, as_released: bool = False) -> Tensor:
        """Return the terms of the variance of each row at a traced epoch, β first, float64 ``(K, n)``."""
        return variance.betas(self.released_use if as_released else self.use, self.spreads(index, variance.spreads))

    def rows(self, seed: int) -> Rows:
        """Return the rows as the argument of a bit policy."""
        return Rows(
            layer=self.layer,
            direction=self.direction,
            sender=self.sender,
            receiver=self.sender if self.to_all else self.receiver,  # a broadcast has the same bit-widths for all
            ids=self.ids,
            seed=seed,
            round=self.round,
        )


def untraced_reason(names: Sequence[str]) -> str:
    """Return the reason why a trace does not give the variance of a codec with these statistics, or an empty text.

    Example:
        >>> untraced_reason(("norm", "range")), untraced_reason(("rest",))[:33]
        ('', 'a trace has range and norm and of')
    """
    if set(names) <= set(_TRACED):
        return ""
    return (
        f"a trace has {' and '.join(_TRACED)} of its rows, got a codec that needs {' and '.join(names)}; its variance "
        "is known only in training, so leave it out of forecasts or choose codec Rotated()"
    )


@dataclass(frozen=True, eq=False)
class Reach:
    """Pairs of a row and a node whose sum it enters, for one layer and direction with its messages concatenated."""

    row: Tensor
    """Row, int64 ``(E,)``."""
    node: Tensor
    """Global id of the node, int64 ``(E,)``."""
    squared_alpha: Tensor
    """Squared coefficient, float64 ``(E,)``."""

    def noise(self, squared_steps: Tensor, num_nodes: int) -> Tensor:
        """Return ``Σ_k α^2 D S^2`` of every node, float64 ``(V,)``, from ``D S^2`` of every row."""
        noise = torch.zeros(num_nodes, dtype=torch.float64)
        return noise.index_add_(0, self.node, self.squared_alpha * squared_steps[self.row])  # (E,) -> (V,)


@dataclass(frozen=True, eq=False)
class Theorem:
    """Inputs of Theorem 3 except bit-widths, at the weights of the last traced epoch."""

    terms: Sequence[WeightTerms]
    reach: Mapping[tuple[int, str], Reach]
    squared_gradient: float
    """``||∇L||^2`` of the weight matrices, exact."""


@dataclass(frozen=True, eq=False)
class Trace:
    """All messages of a training, over some epochs."""

    epochs: tuple[int, ...]
    """Epochs with recorded ranges."""
    messages: tuple[TracedMessage, ...]
    shards: tuple[Shard, ...]
    losses: tuple[float, ...]
    """One per epoch from 0 to the last traced one."""
    weights: Tensor
    """Flat weights of the last traced epoch's pass."""
    theorem: Theorem | None
    phases: Mapping[str, float]
    """Processor time by phase in threads of this process: the least of all epochs, mean over workers."""
    seed: int
    attention_layers: frozenset[int] = frozenset()
    """Layers with attention: their backward pass needs the neighbours' rows."""
    row_weight: float = 1.0
    """Number of rows that each row of a message stands for; 1 if all rows were traced."""

    @cached_property
    def independent_edges(self) -> dict[str, int]:
        """Edges of all workers whose terms need no remote rows, ``forward`` and ``backward``."""
        return {way: sum(shard.independent_edges(way) for shard in self.shards) for way in ("forward", "backward")}

    @cached_property
    def edges_of_copies(self) -> tuple[int, ...]:
        """Edges with a halo source of each worker."""
        return tuple(shard.edges_of_copies for shard in self.shards)

    @property
    def workers(self) -> int:
        return len(self.shards)

    @property
    def places(self) -> list[tuple[int, str]]:
        """Every (layer, direction) with messages, sorted."""
        return sorted({message.place for message in self.messages})

    @property
    def aggregate_first(self) -> Trace:
        """Trace for systems that aggregate rows with dropout before they project them; ranges are the same."""
        return replace(
            self, messages=tuple(replace(each, columns=each.aggregate_first_columns) for each in self.messages)
        )

    def messages_at(self, place: tuple[int, str]) -> list[TracedMessage]:
        """Return the messages of a layer and direction."""
        return [message for message in self.messages if message.place == place]

    def index(self, epoch: int) -> int:
        """Return the index of the last recorded epoch up to ``epoch``; of the first if there is none."""
        return max((index for index, recorded_epoch in enumerate(self.epochs) if recorded_epoch <= epoch), default=0)

    def noise(
        self, widths: Mapping[tuple[int, str], Tensor], index: int, variance: VarianceOf | None = None
    ) -> dict[Place, Tensor]:
        """Return the noise that each node receives, in units of the constant c of ``c D S^2``.

        Args:
            widths: (layer, direction) -> bit-width of every row, with messages concatenated.
            index: index of the recorded epoch.
            variance: (direction, D) -> variance formula of the codec; ``D S^2`` is six times the variance. By default
                that of min-max codes.
        """
        assert self.theorem is not None
        nodes = self.shards[0].num_global_nodes
        zeros = torch.zeros(nodes, dtype=torch.float64)  # (V,), for layers without messages
        layers = 1 + max(layer for layer, _ in self.places)
        noises: dict[Place, Tensor] = {
            (direction, layer): zeros for layer in range(layers) for direction in ("forward", "backward")
        }
        for (layer, direction), reach in self.theorem.reach.items():
            messages = self.messages_at((layer, direction))
            columns = messages[0].columns
            model = min_max(columns) if variance is None else variance(direction, columns)
            spreads = torch.cat([message.spreads(index, model.spreads) for message in messages])  # (n, K) -> (rows, K)
            # Divided by 1/6, the variance is D S^2, which Theorem 3 multiplies by its own constant.
            noises[direction, layer] = reach.noise(model.evaluate(spreads, widths[layer, direction]) / AVERAGE, nodes)
        return noises
