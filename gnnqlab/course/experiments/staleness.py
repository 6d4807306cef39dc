"""Stale rows: staleness by schedule, distance from fresh rows, and timelines of an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnnqlab.adaptive import Training
from gnnqlab.bits.in_words import human_bits
from gnnqlab.former_names import former_functions
from gnnqlab.graph.graph import Graph
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lanes, lines, panels
from gnnqlab.lab.figures.theme import OKABE_ITO
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.nn.message_passing import LocalGraph
from gnnqlab.nn.models.registry import ModelSettings, build_model
from gnnqlab.observe import Aggregated, Observer, Observers
from gnnqlab.theory.variance import decoded_moments
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer
from gnnqlab.worker_context import WorkerContext

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.parts import Parts

__all__ = ["AggregatedRows", "staleness_by_epoch", "draw_epoch", "draw_stale_row_errors", "stale_row_errors"]
__getattr__ = former_functions(
    __name__, {"ages": "staleness_by_epoch", "old_rows": "stale_row_errors", "draw_old_rows": "draw_stale_row_errors"}
)


def staleness_by_epoch(schedule: Any, losses: Sequence[float], *, epoch_s: float = 1.0) -> DataFrame:
    """Return the staleness of the rows used in each epoch, by the schedule and the Coordinator of a training.

    Args:
        schedule: a part of the axis ``schedule``.
        losses: loss of each epoch, input of the Coordinator.
        epoch_s: seconds of every epoch.

    Returns:
        By ``epoch``: ``rows of`` (the epoch that posted them), ``age``, and ``why``, the reason of a decision.

    Example:
        >>> from gnnqlab.exchange import AdaptivePipeline, Overlapped, Pipelined
        >>> [staleness_by_epoch(each, [4, 3, 2])["age"].tolist() for each in (Pipelined(), Overlapped())]
        [[0, 1, 1], [0, 0, 0]]
        >>> staleness_by_epoch(AdaptivePipeline(bound=2), [9, 8, 7, 6, 5, 4])["age"].tolist()
        [0, 1, 1, 0, 1, 1]
    """
    import pandas as pd

    runner, no_nodes = schedule.build(), torch.zeros(0)  # the schedule needs no rows, only its decisions
    training = Training(worker=WorkerContext(rank=0, workers=1, seed=0, ids=no_nodes.long(), importance=no_nodes))
    adaptives = runner.adaptives(training)
    lines = []
    reasons: dict[int, str] = {}
    for epoch, loss in enumerate(losses):
        step = _Posted(epoch)
        runner.run(step, ExchangeKey(0, "forward"))  # runs the schedule with a step that only records epochs
        lines.append((epoch, step.used, epoch - step.used, reasons.get(epoch, "")))
        for adaptive in adaptives:
            adaptive.after_epoch(epoch, loss, {"epoch_s": epoch_s})  # decisions at the end of an epoch, as in training
            reasons.update({entry["epoch"]: f"{entry['what']}: {entry['why']}" for _, entry in adaptive.entries()})
    return pd.DataFrame(lines, columns=["epoch", "rows of", "age", "why"]).set_index("epoch")


def stale_row_errors(
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
    """Return the relative error of stale rows, compared with that of quantized fresh rows.

    The error is the distance from the rows of the current epoch over the norm of these, for all boundary rows. The
    training runs in one process, with float32 rows.

    Args:
        parts: the partition, which determines the boundary rows.
        ages: staleness in epochs.
        smoothing: γ of the mean ``m <- γ m + (1 - γ) row`` over rows of one epoch of staleness.
        bits: bit-widths of fresh rows with stochastic rounding; their error is the root of the expected squared error.
        layer: layer whose inputs are compared, from 0.
        dropped_by: ``receiver``: compare rows before dropout, which are sent if rows are reused over epochs; the mask
            of the epoch that uses them is no error. ``owner``: compare rows with the mask of their own epoch.
        hidden, layers, dropout, lr, epochs, seed: settings of a GCN and its training.

    Returns:
        By ``epoch``, one column each: ``2 epochs old``, ``γ = 0.5``, ``fresh, 2 bits``.

    Raises:
        ValueError: if there is no boundary row, or ``dropped_by`` has another value.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> frame = stale_row_errors(partition(course.ten_nodes(), course.Halves(), workers=2), ages=(1, 3), epochs=20)
        >>> bool((frame["3 epochs old"] > frame["1 epoch old"]).iloc[5:].all())
        True
    """
    import pandas as pd

    # each boundary node once, although several workers may receive it
    ids = torch.cat([shard.halo for shard in parts.shards]).unique()
    if ids.numel() == 0:
        raise ValueError("stale rows need a cut edge, but these parts share none; cut the graph into more parts")
    if dropped_by not in ("receiver", "owner"):
        raise ValueError(f"dropped_by must be 'receiver' or 'owner', got {dropped_by!r}")
    model = ModelSettings(name="gcn", layers=layers, hidden=hidden, dropout=dropout)
    rows = _rows_by_epoch(parts.graph, ids, layer, model, dropped_by == "receiver", lr, epochs, seed)

    def error_of(estimate: Tensor, fresh_rows: Tensor) -> float:
        return float((estimate - fresh_rows).norm() / fresh_rows.norm())

    table: dict[str, list[float]] = {}
    for age in ages:
        name = f"{age} epoch{'s' if age > 1 else ''} old"
        # NaN until a row of that age exists
        table[name] = [float("nan")] * age + [error_of(rows[t - age], rows[t]) for t in range(age, epochs)]
    for gamma in smoothing:
        mean, distances = rows[0], [float("nan")]  # the first epoch has no earlier row
        for t in range(1, epochs):
            mean = torch.lerp(rows[t - 1], mean, gamma)  # γ m + (1 - γ) row of one epoch before, as in PipeGCN
            distances.append(error_of(mean, rows[t]))
        table[f"γ = {gamma:g}"] = distances
    for width in bits:
        # expected squared error: no noise is drawn
        squares = [float(decoded_moments(fresh_rows, width).exact.sum()) for fresh_rows in rows]
        errors = [square**0.5 / float(fresh_rows.norm()) for square, fresh_rows in zip(squares, rows)]
        table[f"fresh, {human_bits(width)}"] = errors
    return pd.DataFrame(table, index=pd.Index(range(epochs), name="epoch"))


def _rows_by_epoch(
    graph: Graph,
    ids: Tensor,
    layer: int,
    model: ModelSettings,
    without_dropout: bool,
    lr: float,
    epochs: int,
    seed: int,
) -> list[Tensor]:
    """Return the rows that one layer aggregates in each epoch ``(n, D)``, before or after dropout."""
    network = build_model(model, graph.num_features, graph.num_classes, seed=seed)
    local_graph = LocalGraph(graph, seed=seed)  # one process: rows are exact
    rows = AggregatedRows(layer, ids)
    settings = TrainSettings(seed=seed, lr=lr)
    trainer = Trainer(local_graph, label_objective(graph), network, settings, observers=Observers([rows]))
    # aggregates before the projection, so rows of all epochs have the same dimension
    local_graph.exchange.uses_stale_rows = local_graph.exchange.aggregates_before_projection = without_dropout
    for epoch in range(epochs):
        trainer.epoch(epoch)
    return rows.by_epoch


class AggregatedRows(Observer):
    """Observer that stores some of the rows aggregated by one layer, epoch by epoch."""

    def __init__(self, layer: int, ids: Tensor) -> None:
        self.by_epoch: list[Tensor] = []
        self._layer, self._ids = layer, ids

    def on_aggregated(self, event: Aggregated) -> None:
        if event.layer == self._layer:
            self.by_epoch.append(event.input[self._ids].clone())  # a copy, because the buffer is reused


class _Posted:
    """Layer step with one row: the number of the epoch that posted it."""

    rounds, chained = 1, False

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self.used = -1

    def post(self, round: int) -> _PendingRow:
        return _PendingRow(self._epoch)

    def wait(self, round: int, came: Any) -> None:
        self.used = int(came.decode())

    def prepare(self) -> None: ...
    def independent(self) -> None: ...
    def dependent(self, round: int) -> None: ...


class _PendingRow:
    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    sampled_in = None

    def wait(self) -> None: ...

    def decode(self, out: Tensor | None = None) -> Tensor:
        return torch.tensor(float(self._epoch))  # the "row" is the number of its epoch

    def to_store(self) -> None: ...


def draw_stale_row_errors(frames: Mapping[str, DataFrame], *, dark: bool = False) -> FigureData:
    """Draw `stale_row_errors`, one panel per frame: blue stale, dashed green smoothed, dotted quantized rows."""
    import pandas as pd

    distance = {
        "title_text": "distance from the fresh row (% of its norm)",
        "tickvals": [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200],
    }
    charts = {
        label: lines(
            100 * frame, y=list(_styles(frame)), styles=_styles(frame), mode="lines", log="y", x_axis="epoch",
            y_axis=distance,
        )
        for label, frame in frames.items()
    }  # fmt: skip
    words = [
        f"{label}: " + ", ".join(f"{name} {_percent(100 * frame[name].iloc[-10:].mean())}" for name in frame)
        for label, frame in frames.items()
    ]
    caption = f"Relative error of rows, mean of the last ten epochs. {'; '.join(words)}."  # mean of the last ten epochs
    title = "Error of a stale row"
    figure = panels(
        charts, share_y=True, gap=0.05, title=title, caption=caption, dark=dark, height=420, legend_below=True
    )
    return FigureData(figure, pd.concat(frames, axis=1))


def _percent(value: float) -> str:
    return f"{value:.0f} %" if value >= 10 else f"{value:.2g} %"


def _styles(frame: DataFrame) -> dict[str, str]:
    old_names, smoothed_names, fresh_names = (
        [name for name in frame if kind(name)]
        for kind in (
            lambda name: name.endswith(" old"),
            lambda name: name.startswith("γ"),
            lambda name: name.startswith("fresh"),
        )
    )
    return {
        **dict(zip(old_names, cycle(("#9ecae1", "#4292c6", "#08519c", "#08306b")))),
        **dict(zip(smoothed_names, cycle(("#7fceb9 dash", "#009e73 dash", "#00523c dash")))),
        **dict(zip(fresh_names, cycle(("vermillion dot", "orange dot")))),
    }


def draw_epoch(timelines: Mapping[str, DataFrame], *, rank: int = 0, dark: bool = False) -> FigureData:
    """Draw one whole epoch of one worker, one panel per run: its activities, and the transfers of the bytes it uses.

    Bytes left of 0 were transferred before the epoch began.

    Args:
        timelines: label -> ``run.timeline``; the recorded epoch of median length is drawn.
        rank: the worker.
        dark: colours for a dark page.

    Raises:
        ValueError: if a timeline has no record of that worker.
    """
    import pandas as pd

    frames = {label: _one_epoch(timeline, rank) for label, timeline in timelines.items()}
    # Height in pixels: a constant part for axes and one row per lane.
    height = 130 + sum(60 + 26 * frame["line"].nunique() for frame in frames.values())
    gap = 64 / (height - 176)  # space for the tick labels of one panel and the title of the next
    styles = {"rows, encode, decode": "green", "wait": "vermillion x", "bytes forward": "sky /"}
    styles |= {"bytes backward": "orange \\"}
    charts, words = {}, []
    for label, frame in frames.items():
        layers = sorted(set(frame["layer"]))  # in the order in which an epoch needs them
        order = ["worker", *(f"layer {layer + 1} →" for layer in layers), *(f"layer {n + 1} ←" for n in layers[::-1])]
        charts[label] = lanes(
            # a minimum of 0.15 ms keeps short activities visible
            frame.assign(end=frame["end (ms)"].clip(lower=frame["start (ms)"] + 0.15)),
            lane="line",
            start="start (ms)",
            end="end",
            by="part",
            styles=styles,
            width=0.7,
            details="layer",
            hover="layer %{customdata}, %{x:.1f} ms from %{base:.1f} ms",
            order=[line for line in order if line in set(frame["line"])],
            x_axis="milliseconds since the epoch's first layer began",
        )
        charts[label].add_vline(x=0, line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 1})
        wait_spans = frame[frame["part"] == "wait"]
        waits = float((wait_spans["end (ms)"] - wait_spans["start (ms)"]).sum())  # ms of waiting in this epoch
        length = float(frame[frame["line"] == "worker"]["end (ms)"].max())
        words.append(f"{label} takes {length:.3g} ms to the end of its last layer and waits {waits:.3g} ms of them")
    figure = panels(
        charts,
        rows=len(charts),
        share_x=True,
        gap=min(gap, 0.9 / max(len(frames) - 1, 1)),
        title=f"An epoch of worker {rank}: activities and transfers",
        caption=f"One epoch of worker {rank}, without the gradient all-reduce: {'; '.join(words)}.",
        dark=dark,
        height=height,
        legend_below=True,
    )
    return FigureData(figure, pd.concat(frames, names=["run"]).reset_index(level=0).set_index("run"))


def _one_epoch(timeline: DataFrame, rank: int) -> DataFrame:
    worker_rows = timeline[timeline["rank"] == rank]  # one worker
    if worker_rows.empty:
        raise ValueError(f"nothing was recorded of worker {rank}; launch with timeline_every=5")
    # activities of the worker itself, without transfers
    activities = worker_rows[worker_rows["what"] != "transfer"].groupby("epoch")
    lengths = (activities["end_s"].max() - activities["start_s"].min()).iloc[1:]  # the first epoch includes set-up
    # an epoch of median length, not of mean length
    epoch = int(lengths.sort_values(kind="stable").index[(len(lengths) - 1) // 2])
    epoch_rows = worker_rows[worker_rows["epoch"] == epoch].copy()
    start_s = epoch_rows[epoch_rows["what"] != "transfer"]["start_s"].min()
    # seconds -> ms after the first activity
    epoch_rows["start (ms)"], epoch_rows["end (ms)"] = (
        1e3 * (epoch_rows["start_s"] - start_s),
        1e3 * (epoch_rows["end_s"] - start_s),
    )
    way = {"forward": "→", "backward": "←"}
    is_transfer = epoch_rows["what"] == "transfer"
    epoch_rows["line"] = [
        f"layer {layer + 1} {way[direction]}" if transfer else "worker"
        for layer, direction, transfer in zip(epoch_rows["layer"], epoch_rows["direction"], is_transfer)
    ]
    epoch_rows["part"] = [
        f"bytes {direction}" if transfer else "wait" if activity == "wait" else "rows, encode, decode"
        for activity, direction, transfer in zip(epoch_rows["what"], epoch_rows["direction"], is_transfer)
    ]
    return epoch_rows[["epoch", "line", "part", "layer", "start (ms)", "end (ms)"]].sort_values("start (ms)")
