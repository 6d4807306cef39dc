"""Yesterday's rows, to be looked at: how old they are, and how wrong that makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.bundle import Bundle
from gnnqlab.lab.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor

    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.parts import Parts

__all__ = ["ages", "draw_old_rows", "old_rows"]


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

    from gnnqlab.train.coordinator import Coordinator

    runner = schedule.runner()
    coordinator = Coordinator.of(None, schedule, runner)
    lines = []
    why: dict[int, str] = {}
    for epoch, loss in enumerate(losses):
        step = _Posted(epoch)
        runner.run(step, (0, "forward"))
        lines.append((epoch, step.used, epoch - step.used, why.get(epoch, "")))
        if coordinator is not None:
            coordinator.after_epoch(epoch, loss, epoch_s)
            why.update({entry["epoch"]: f"{entry['what']}: {entry['why']}" for entry in coordinator.decisions})
    return pd.DataFrame(lines, columns=["epoch", "rows of", "age", "why"]).set_index("epoch")


class _Posted:
    """A step of one layer whose row is the number of the epoch that posted it."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self.used = -1

    def post(self) -> None:
        self.came = _Came(self._epoch)

    def wait(self) -> None:
        self.take(self.came)

    def take(self, came: _Came, rows: Tensor | None = None) -> None:
        self.used = int(came.finish())

    def prepare(self) -> None: ...
    def independent(self) -> None: ...
    def dependent(self) -> None: ...


class _Came:
    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def arrive(self) -> None: ...

    def finish(self) -> Tensor:
        import torch

        return torch.tensor(float(self._epoch))


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
        hidden, layers, dropout, lr, epochs, seed: of a GCN and its training.

    Returns:
        By ``epoch``, a column each: ``2 epochs old``, ``γ = 0.5``, ``fresh, 2 bits``.

    Raises:
        ValueError: if no row travels.

    Example:
        >>> from gnnqlab.lab import course
        >>> from gnnqlab.partition.parts import partition
        >>> frame = old_rows(partition(course.ten_nodes(), course.Halves(), workers=2), ages=(1, 3), epochs=20)
        >>> bool((frame["3 epochs old"] > frame["1 epoch old"]).iloc[5:].all())
        True
    """
    import pandas as pd
    import torch

    from gnnqlab.theory.variance import decoded_moments

    ids = torch.cat([shard.halo for shard in parts.shards]).unique()
    if ids.numel() == 0:
        raise ValueError("rows must travel to be old, but these parts share no edge; cut the graph into more parts")
    rows = _rows_by_epoch(parts.graph, ids, layer, hidden, layers, dropout, lr, epochs, seed)

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
        table[f"fresh, {width} bit{'s' if width > 1 else ''}"] = errors
    return pd.DataFrame(table, index=pd.Index(range(epochs), name="epoch"))


def _rows_by_epoch(
    graph: Graph, ids: Tensor, layer: int, hidden: int, layers: int, dropout: float, lr: float, epochs: int, seed: int
) -> list[Tensor]:
    """The rows that one layer aggregates, epoch by epoch."""
    from gnnqlab.nn.message_passing import Hop, LocalGraph
    from gnnqlab.nn.models.registry import ModelSettings, build_model
    from gnnqlab.train.config import TrainSettings
    from gnnqlab.train.objective import Objective
    from gnnqlab.train.trainer import Trainer

    model = ModelSettings(name="gcn", layers=layers, hidden=hidden, dropout=dropout)
    network = build_model(model, graph.num_features, graph.num_classes, seed=seed)
    local = LocalGraph(graph, seed=seed)
    trainer = Trainer(local, Objective.of(graph), network, TrainSettings(seed=seed, lr=lr))
    found: list[Tensor] = []
    aggregate: Callable[..., Tensor] = local._aggregate

    def keep(x: Tensor, alpha: str, hop: Hop) -> Tensor:
        if hop.index == layer:
            found.append(x.detach()[ids].clone())
        return aggregate(x, alpha, hop)

    local._aggregate = keep  # type: ignore[method-assign]
    for epoch in range(epochs):
        trainer.epoch(epoch)
    return found


def draw_old_rows(frames: Mapping[str, DataFrame], *, dark: bool = False) -> Bundle:
    """Draw `old_rows`, a panel a frame: solid blue for age, dashed green for smoothed, grey dots for few bits."""
    import pandas as pd
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=1, cols=len(frames), shared_yaxes=True, subplot_titles=list(frames), horizontal_spacing=0.05
    )
    shown: set[str] = set()
    for column, frame in enumerate(frames.values(), start=1):
        for kind, color, dash, names in _families(frame):
            for place, name in enumerate(names):
                figure.add_scatter(
                    x=frame.index.tolist(),
                    y=(100 * frame[name]).tolist(),
                    mode="lines",
                    name=name,
                    legendgroup=name,
                    showlegend=name not in shown,
                    line={"color": color[place % len(color)], "dash": dash, "width": 2.5},
                    hovertemplate=f"{name}: %{{y:.1f}} % · epoch %{{x}}<extra>{kind}</extra>",
                    row=1,
                    col=column,
                )
                shown.add(name)
    figure.update_xaxes(title_text="epoch")
    figure.update_yaxes(type="log", tickvals=[0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200])
    figure.update_yaxes(title_text="distance from the fresh row (% of its length)", row=1, col=1)
    words = [
        f"{label}: " + ", ".join(f"{name} {100 * frame[name].iloc[-10:].mean():.2g} %" for name in frame)
        for label, frame in frames.items()
    ]
    caption = f"By how much rows are wrong, mean of the last ten epochs. {'; '.join(words)}."
    finish(figure, title="How wrong is an old row?", caption=caption, dark=dark, height=420)
    figure.update_layout(legend={"y": -0.2, "yanchor": "top"}, margin={"t": 76, "b": 110})
    return Bundle(figure, pd.concat(frames, axis=1))


def _families(frame: DataFrame) -> list[tuple[str, list[str], str, list[str]]]:
    blues, greens = ["#9ecae1", "#4292c6", "#08519c", "#08306b"], ["#7fceb9", "#009e73", "#00523c"]
    return [
        ("old", blues, "solid", [name for name in frame if name.endswith(" old")]),
        ("smoothed", greens, "dash", [name for name in frame if name.startswith("γ")]),
        ("fresh", [OKABE_ITO["vermillion"], OKABE_ITO["orange"]], "dot", [n for n in frame if n.startswith("fresh")]),
    ]
