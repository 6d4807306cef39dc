"""Rows at named points of a training, before encoding and after decoding, in a chosen epoch.

A point is a direction and a layer, ``backward 1``. Letters: n rows of a message, D columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnqlab.bits.exact_at import DIRECTIONS, point_of
from gnnqlab.graph.sources import load
from gnnqlab.message.caches.cache import NoCache
from gnnqlab.message.direction import of_direction
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.observe import MessageEncoded, Observer, Observers
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.as_launched import threads_as_launched
from gnnqlab.systems.system import System
from gnnqlab.train.config.run_config import TrainSettings

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.cut import Cut
    from gnnqlab.partition.parts import Parts
    from gnnqlab.run.run import Run

__all__ = [
    "RoundedRows", "require_repeatable", "points_of", "points_table", "rounded_rows", "rounded_rows_of",
]  # fmt: skip

_CLOSE = 1e-3
"""Relative difference of losses up to which a training counts as repeated: all-reduces may add in another order, and a
weight that differs by one rounding error changes a few codes."""


@dataclass(frozen=True, eq=False)
class RoundedRows:
    """Rows of one message at a point, before and after rounding."""

    point: str
    """Direction and layer: ``backward 1``."""
    epoch: int
    sender: int
    receiver: int
    nodes: Tensor
    """Global node ids, int64 ``(n,)``."""
    bits: Tensor
    """Bit-width of each row, int64 ``(n,)``."""
    before: Tensor
    """Rows before encoding, float32 ``(n, D)``, in the unit of the layer."""
    after: Tensor
    """Rows as decoded by the receiver, float32 ``(n, D)``."""
    num_bytes: int
    """Payload and quantization parameters."""

    @classmethod
    def from_message(cls, message: MessageEncoded) -> RoundedRows:
        """Return the rows of an observed message, before and after rounding."""
        return cls(
            point=f"{message.direction} {message.layer}",
            epoch=message.epoch,
            sender=message.rank,
            receiver=message.receiver,
            nodes=message.node_ids,
            bits=message.bit_widths,
            before=message.values,
            after=message.decode(),
            num_bytes=message.num_bytes,
        )

    @property
    def error(self) -> Tensor:
        """``after - before``, float32 ``(n, D)``; exactly 0 at a point in float32."""
        return self.after - self.before

    @property
    def squared(self) -> float:
        """``|after - before|^2 / |before|^2`` over all rows; 0 if all are zero."""
        length = float(self.before.double().square().sum())
        return float(self.error.double().square().sum()) / length if length else 0.0

    def __repr__(self) -> str:
        count, columns = self.before.shape
        return (
            f"RoundedRows({self.point}, epoch {self.epoch}, worker {self.sender} to worker {self.receiver}: {count} "
            f"rows of {columns}, relative error {100 * self.squared**0.5:.3g} %)"
        )


class _Rounded(Observer):
    """Observer of the messages that one worker sends in one epoch at some points."""

    points: tuple[str, ...] = ()
    epoch = 0

    def __init__(self) -> None:
        self.rows: list[RoundedRows] = []

    def on_message_encoded(self, event: MessageEncoded) -> None:
        # a whole direction, or one point
        if event.epoch == self.epoch and {event.direction, f"{event.direction} {event.layer}"} & set(self.points):
            self.rows.append(RoundedRows.from_message(event))


def rounded_rows(
    parts: Parts,
    system: System,
    at: Sequence[str] = DIRECTIONS,
    *,
    epoch: int = 20,
    model: ModelSettings | None = None,
    settings: TrainSettings | None = None,
) -> list[RoundedRows]:
    """Train workers as threads of this process, and return the messages sent at some points in an epoch.

    Rows, noise and bit-widths are those of launched workers; ``after`` is decoded from the bytes that were sent.

    Args:
        parts: an edge-cut of a graph.
        system: the system to train with; its bit-widths must depend on settings and epoch only.
        at: points, ``backward 1``, or ``forward`` for all layers; all points by default.
        epoch: epoch of the messages; the epochs before it are trained first.
        model: settings of the model; by default a GCN of 2 layers and 8 columns without dropout.
        settings: learning rate, seed and so on.

    Returns:
        Messages by point (forward before backward, by layer), sender and receiver.

    Raises:
        ValueError: if this training has no such point, or cannot be repeated in this process (see
            :func:`require_repeatable`).

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> from gnnqlab.systems import exact_at, fixed_bits
        >>> small = partition(course.ten_nodes(), course.Halves(), workers=2)
        >>> found = rounded_rows(small, exact_at(fixed_bits(bits=2), "backward 1"), ("forward 1", "backward 1"))
        >>> [(rows.point, rows.nodes.tolist(), rows.squared > 0) for rows in found if rows.sender == 0]
        [('forward 1', [3, 4], True), ('backward 1', [5, 7], False)]
    """
    shape = model or ModelSettings(layers=2, hidden=8, dropout=0.0)
    return _trained_messages(parts.graph, parts.cut, system, shape, settings or TrainSettings(), at, epoch, {})


def rounded_rows_of(run: Run, at: Sequence[str] = DIRECTIONS, *, epoch: int) -> list[RoundedRows]:
    """Repeat a launched run in this process up to an epoch, and return the messages sent at some points in it.

    Seeds, noise and dropout masks are functions of the configuration, so the run need not have stored its rows. The
    losses are compared with those of its records.

    Args:
        run: a run of node classification on an edge-cut.
        at: points, see :func:`rounded_rows`.
        epoch: an epoch that the run has trained.

    Raises:
        ValueError: as :func:`rounded_rows`, or if the run has no such epoch.
        RuntimeError: if the losses differ, for instance because settings were changed while the run trained.
    """
    config, records = run.config, run.records
    config.require_nodes("rounded_rows_of")
    losses = {} if records.empty else records.groupby("epoch")["loss"].first().to_dict()  # the same loss on all ranks
    if epoch not in losses:
        raise ValueError(f"epoch must be one that run {run.id} has trained, got {epoch}; it has {len(losses)} of them")
    graph = load(config.graph)
    cut = cut_graph(graph, config.system_on_hosts.partition, config.workers)
    return _trained_messages(graph, cut, config.system_on_hosts, config.model, config.train, at, epoch, losses)


def points_of(graph: Graph, cut: Cut, system: System, model: ModelSettings) -> list[str]:
    """Return the points at which rows are exchanged: forward before backward, by layer.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> from gnnqlab.systems import vanilla
        >>> small = partition(course.ten_nodes(), course.Halves(), workers=2)
        >>> points_of(small.graph, small.cut, vanilla(), ModelSettings(name="graphsage", layers=2, hidden=8))
        ['forward 0', 'forward 1', 'backward 0', 'backward 1']
    """
    messages = _trained_messages(graph, cut, system, model, TrainSettings(), DIRECTIONS, 0, {})
    return list(dict.fromkeys(rows.point for rows in messages))


def points_table(rows: Sequence[RoundedRows]) -> DataFrame:
    """Return one line per point: messages, rows, mean bits, kB, and the relative error of the rows (%).

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> from gnnqlab.systems import vanilla
        >>> found = rounded_rows(partition(course.ten_nodes(), course.Halves(), workers=2), vanilla(), epoch=1)
        >>> points_table(found)["off by (%)"].tolist()
        [0.0, 0.0, 0.0, 0.0]
    """
    import pandas as pd

    lines = {}
    for point in dict.fromkeys(message.point for message in rows):  # in order of first appearance
        rows_at_point = [message for message in rows if message.point == point]
        square, error = (
            # sums of squares of the rows and of their errors
            sum(float(tensor.double().square().sum()) for tensor in tensors)
            for tensors in ([message.before for message in rows_at_point], [message.error for message in rows_at_point])
        )
        lines[point] = (
            len(rows_at_point),
            sum(message.nodes.numel() for message in rows_at_point),
            float(torch.cat([message.bits for message in rows_at_point]).double().mean()),
            sum(message.num_bytes for message in rows_at_point) / 1e3,
            100 * (error / square) ** 0.5 if square else 0.0,  # root of the relative squared error, percent
        )
    columns = ["messages", "rows", "mean bits", "kB", "off by (%)"]
    return pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("point")


def require_repeatable(system: System, workers: int) -> None:
    """Check that a system's rows can be reproduced by training in this process.

    Raises:
        ValueError: if the exchange is not of halo rows, there is a cache, or only one worker.
    """
    exchange = system.exchange
    if exchange.takes_cuts_of != "nodes" or exchange.sends_blocks:
        raise ValueError(
            f"rows at a point are those of halo nodes, got exchange {type(exchange).__name__}; choose exchange Halo() "
            "and an edge-cut"
        )
    if system.cache != NoCache():
        raise ValueError(
            f"a message must hold the rows themselves to show their rounding, got cache {type(system.cache).__name__}, "
            "which may send differences; choose cache NoCache()"
        )
    if workers < 2:
        raise ValueError(f"rows are exchanged between workers, got {workers}; choose at least 2")


def _trained_messages(
    graph: Graph,
    cut: Cut,
    system: System,
    model: ModelSettings,
    settings: TrainSettings,
    at: Sequence[str],
    epoch: int,
    losses: dict[int, float],
) -> list[RoundedRows]:
    points = (at,) if isinstance(at, str) else tuple(at)  # a single point may be given as text
    for point in points:
        point_of(point)
    require_repeatable(system, cut.workers)  # validates the spelling of each point
    observers = [_Rounded() for _ in range(cut.workers)]
    for observer in observers:
        observer.points, observer.epoch = points, epoch
    worker_observers = [Observers([observer], rank) for rank, observer in enumerate(observers)]
    workers, policy = threads_as_launched(graph, cut, system, model, settings, worker_observers)
    # All epochs must be trained: weights, and noise through them, depend on every earlier message.
    for number in range(epoch + 1):
        loss = workers.step(number)  # returns the loss of the epoch
        recorded_loss = losses.get(number, loss)  # without records, every loss is accepted
        if abs(loss - recorded_loss) > _CLOSE * abs(recorded_loss):
            raise RuntimeError(
                f"a repeated run must have its losses, got {loss:.6g} in epoch {number} where the run has "
                f"{recorded_loss:.6g}; was it changed while it trained, or trained on another device?"
            )
    for direction in DIRECTIONS:
        of_direction(policy, direction).require_points()  # points that the policy names must exist as well
    messages = [rows for observer in observers for rows in observer.rows]
    # a direction counts if any of its layers was sent
    missing_points = [
        point for point in points if not any(point in (rows.point, rows.point.split()[0]) for rows in messages)
    ]
    if missing_points:
        known_points = sorted({rows.point for rows in messages}, key=_order)
        raise ValueError(
            f"rows must be exchanged at every point, got {missing_points}; of the given points, use {known_points}"
        )
    return sorted(messages, key=lambda rows: (*_order(rows.point), rows.sender, rows.receiver))


def _order(point: str) -> tuple[int, int]:
    direction, layer = point_of(point)
    return DIRECTIONS.index(direction), layer or 0
