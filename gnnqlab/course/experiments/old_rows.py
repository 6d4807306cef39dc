"""Yesterday's rows, measured: how old they are, and how wrong that makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnnqlab.adaptive import Training
from gnnqlab.bits.in_words import human_bits
from gnnqlab.exchange.hop import Hop
from gnnqlab.exchange.watched import Watched
from gnnqlab.graph.graph import Graph
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.place import Place
from gnnqlab.nn.message_passing import LocalGraph
from gnnqlab.nn.models.registry import ModelSettings, build_model
from gnnqlab.seat import Seat
from gnnqlab.theory.variance import decoded_moments
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.partition.parts import Parts

__all__ = ["ages", "old_rows"]


def ages(schedule: Any, losses: Sequence[float], *, epoch_s: float = 1.0) -> DataFrame:
    """Return how old the rows are that each epoch uses, by the schedule and the Coordinator that training has.

    Args:
        schedule: a part of the axis ``schedule``.
        losses: of the epochs, what the Coordinator looks at.
        epoch_s: seconds of every epoch.

    Returns:
        By ``epoch``: ``rows of`` (the epoch that posted them), ``age`` and ``why``, if somebody decided that.

    Example:
        >>> from gnnqlab.exchange import AdaptivePipeline, Overlapped, Pipelined
        >>> ages(Pipelined(), [4, 3, 2])["age"].tolist(), ages(Overlapped(), [4, 3, 2])["age"].tolist()
        ([0, 1, 1], [0, 0, 0])
        >>> ages(AdaptivePipeline(bound=2), [9, 8, 7, 6, 5, 4])["age"].tolist()
        [0, 1, 1, 0, 1, 1]
    """
    import pandas as pd

    runner, nobody = schedule.build(), torch.zeros(0)
    training = Training(seat=Seat(rank=0, workers=1, seed=0, ids=nobody.long(), importance=nobody))
    adaptives = runner.adaptives(training)
    lines = []
    why: dict[int, str] = {}
    for epoch, loss in enumerate(losses):
        step = _Posted(epoch)
        runner.run(step, Place(0, "forward"))
        lines.append((epoch, step.used, epoch - step.used, why.get(epoch, "")))
        for adaptive in adaptives:
            adaptive.after_epoch(epoch, loss, {"epoch_s": epoch_s})
            why.update({entry["epoch"]: f"{entry['what']}: {entry['why']}" for _, entry in adaptive.entries()})
    return pd.DataFrame(lines, columns=["epoch", "rows of", "age", "why"]).set_index("epoch")


def old_rows(
    parts: Parts,
    *,
    ages: Sequence[int] = (1, 2, 5),
    smoothing: Sequence[float] = (),
    bits: Sequence[int] = (2,),
    layer: int = 1,
    hidden: int = 64,
    layers: int = 3,
    dropout: float = 0.0,
    dropped_by: str = "receiver",
    lr: float = 0.01,
    epochs: int = 60,
    seed: int = 0,
) -> DataFrame:
    """Return by how much an old row is wrong, beside a fresh row in few bits.

    The distance from the row of this epoch, over all rows that travel, relative to their length. The training is that
    of one process, with exact rows.

    Args:
        parts: says which rows travel.
        ages: in epochs.
        smoothing: γ; the mean ``m <- γ m + (1 - γ) row`` over rows that are one epoch old.
        bits: fresh rows with stochastic rounding, the root of their expected squared error.
        layer: whose input, from 0.
        dropped_by: ``receiver``: rows are those before dropout, which travel where rows are kept over epochs; the mask
            of the epoch that uses them is no error. ``owner``: rows with the mask of the epoch they are from.
        hidden, layers, dropout, lr, epochs, seed: of a GCN and its training.

    Returns:
        By ``epoch``, a column each: ``2 epochs old``, ``γ = 0.5``, ``fresh, 2 bits``.

    Raises:
        ValueError: if no row travels, or somebody else drops.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> frame = old_rows(partition(course.ten_nodes(), course.Halves(), workers=2), ages=(1, 3), epochs=20)
        >>> bool((frame["3 epochs old"] > frame["1 epoch old"]).iloc[5:].all())
        True
    """
    import pandas as pd

    ids = torch.cat([shard.halo for shard in parts.shards]).unique()
    if ids.numel() == 0:
        raise ValueError("rows must travel to be old, but these parts share no edge; cut the graph into more parts")
    if dropped_by not in ("receiver", "owner"):
        raise ValueError(f"dropped_by must be 'receiver' or 'owner', got {dropped_by!r}")
    model = ModelSettings(name="gcn", layers=layers, hidden=hidden, dropout=dropout)
    rows = _rows_by_epoch(parts.graph, ids, layer, model, dropped_by == "receiver", lr, epochs, seed)

    def wrong(other: Tensor, fresh: Tensor) -> float:
        return float((other - fresh).norm() / fresh.norm())

    table: dict[str, list[float]] = {}
    for age in ages:
        name = f"{age} epoch{'s' if age > 1 else ''} old"
        table[name] = [float("nan")] * age + [wrong(rows[t - age], rows[t]) for t in range(age, epochs)]
    for gamma in smoothing:
        mean, distances = rows[0], [float("nan")]
        for t in range(1, epochs):
            mean = torch.lerp(rows[t - 1], mean, gamma)
            distances.append(wrong(mean, rows[t]))
        table[f"γ = {gamma:g}"] = distances
    for width in bits:
        squares = [float(decoded_moments(fresh, width).exact.sum()) for fresh in rows]
        errors = [square**0.5 / float(fresh.norm()) for square, fresh in zip(squares, rows)]
        table[f"fresh, {human_bits(width)}"] = errors
    return pd.DataFrame(table, index=pd.Index(range(epochs), name="epoch"))


def _rows_by_epoch(
    graph: Graph, ids: Tensor, layer: int, model: ModelSettings, undropped: bool, lr: float, epochs: int, seed: int
) -> list[Tensor]:
    """The rows that one layer aggregates, epoch by epoch: before dropout, or behind it."""

    network = build_model(model, graph.num_features, graph.num_classes, seed=seed)
    local = LocalGraph(graph, seed=seed)
    trainer = Trainer(local, label_objective(graph), network, TrainSettings(seed=seed, lr=lr))
    found: list[Tensor] = []

    def keep(hop: Hop, matrix: Adjacency, x: Tensor, sums: Tensor) -> None:
        if hop.layer == layer:
            found.append(x.detach()[ids].clone())

    local.exchange = Watched(local.exchange, keep)
    local.exchange.keeps_rows = local.exchange.looks_first = undropped
    for epoch in range(epochs):
        trainer.epoch(epoch)
    return found


class _Posted:
    """A step of one layer whose row is the number of the epoch that posted it."""

    rounds, chained = 1, False

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self.used = -1

    def post(self, round: int) -> _Came:
        return _Came(self._epoch)

    def wait(self, round: int, came: Any) -> None:
        self.used = int(came.decode())

    def prepare(self) -> None: ...
    def independent(self) -> None: ...
    def dependent(self, round: int) -> None: ...


class _Came:
    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    sampled_in = None

    def wait(self) -> None: ...

    def decode(self, out: Tensor | None = None) -> Tensor:
        import torch

        return torch.tensor(float(self._epoch))
