"""Timeline of one layer's exchange on all workers, and the share of communication hidden behind computation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lanes, panels
from gnnqlab.lab.figures.theme import ACTIVITY_NAMES, ACTIVITY_STYLES

if TYPE_CHECKING:
    from pandas import DataFrame, Series
    from plotly.graph_objects import Figure

__all__ = [
    "common_epoch", "epoch_seconds", "exposed_table", "hidden_share", "layer_timeline", "median_epoch", "shown_layer",
    "timeline_chart",
]  # fmt: skip


_Spans = list[tuple[float, float]]


def layer_timeline(
    timeline: DataFrame, *, layer: int = 1, direction: str = "forward", epoch: int | None = None
) -> DataFrame:
    """Return the parts of one layer's exchange in one epoch, in milliseconds since the first worker began.

    Args:
        timeline: ``run.timeline``.
        layer: from 0.
        direction: ``forward`` or ``backward``.
        epoch: a recorded epoch; by default the one whose exchange took the median time.

    Raises:
        ValueError: if nothing of that layer and direction was recorded, or not in that epoch.
    """
    exchanges = _exchange_of(timeline, layer, direction)
    if exchanges.empty:
        raise ValueError(
            f"nothing was recorded of layer {layer}, {direction}; launch with timeline_every=5, or choose one of the "
            f"layers {sorted(set(timeline['layer']))}"
        )
    recorded_epochs = sorted(set(exchanges["epoch"]))
    if epoch is None:
        epoch = median_epoch(epoch_seconds(exchanges))
    if epoch not in recorded_epochs:
        raise ValueError(f"epoch must be one that was recorded, {recorded_epochs}, got {epoch}")
    parts = exchanges[exchanges["epoch"] == epoch]
    begin = parts["start_s"].min()  # comparable if all workers are on one machine
    table = parts[["rank", "what", "peer"]].copy()
    table["start (ms)"] = 1e3 * (parts["start_s"] - begin)  # seconds -> ms
    table["end (ms)"] = 1e3 * (parts["end_s"] - begin)
    table.insert(0, "epoch", epoch)
    return table.sort_values(["rank", "start (ms)"], ignore_index=True)


def epoch_seconds(parts: DataFrame) -> Series:
    """Return the seconds from the first start to the last end of some parts of a timeline, by epoch."""
    by_epoch = parts.groupby("epoch")
    seconds: Series = by_epoch["end_s"].max() - by_epoch["start_s"].min()
    return seconds


def median_epoch(took: Series) -> int:
    """Return the epoch with the median length, the shorter of two."""
    return int(took.sort_values(kind="stable").index[(len(took) - 1) // 2])


def common_epoch(each: Sequence[Series]) -> int | None:
    """Return the epoch to show of several runs by their :func:`epoch_seconds`; ``None`` if they have none in common."""
    import pandas as pd

    # Relative to each run's median, so that a slow run does not decide alone.
    relative_lengths = pd.concat([seconds / seconds.median() for seconds in each], axis=1, join="inner").sum(axis=1)
    return median_epoch(relative_lengths) if len(relative_lengths) else None


def shown_layer(timeline: DataFrame) -> int | None:
    """Return the layer to show in a single chart: the second, whose rows are embeddings, else the first recorded one.

    ``None`` if no forward exchange was recorded.
    """
    layers = set(timeline.loc[timeline["direction"] == "forward", "layer"])
    return 1 if 1 in layers else min(layers, default=None)


def hidden_share(timeline: DataFrame) -> float:
    """Return the share of transfer time that no worker spent waiting: 1 - waiting time / transfer time.

    Over all recorded exchanges; overlapping transfers to a worker count once.

    Raises:
        ValueError: if no transfer was recorded.
    """
    transfers = timeline[timeline["what"] == "transfer"]
    if transfers.empty:
        raise ValueError("a share needs recorded transfers, got none; launch with timeline_every=5")
    place = ["epoch", "layer", "direction", "rank"]
    # One span per exchange and worker, from its first to its last byte.
    spans = transfers.groupby(place).agg(start=("start_s", "min"), end=("end_s", "max"))
    waits = timeline[timeline["what"] == "wait"].copy()
    waits["seconds"] = waits["end_s"] - waits["start_s"]
    wait_seconds = waits.groupby(place)["seconds"].sum().reindex(spans.index, fill_value=0.0)
    under_way = (spans["end"] - spans["start"]).sum()
    return max(0.0, 1.0 - float(wait_seconds.sum() / under_way)) if under_way > 0 else 0.0


def exposed_table(timeline: DataFrame) -> DataFrame:
    """Return the transfer time of messages to each worker, exposed and hidden.

    Overlapping transfers count once. Transfer time in which the worker waits is *exposed*, the rest is *hidden*.

    Args:
        timeline: ``run.timeline``, of one epoch.

    Returns:
        Milliseconds by worker: ``under way, exposed, hidden``.

    Example:
        >>> import pandas as pd
        >>> parts = [(0, "transfer", 0.000, 0.010), (0, "central", 0.000, 0.004), (0, "wait", 0.004, 0.010)]
        >>> timeline = pd.DataFrame(parts, columns=["rank", "what", "start_s", "end_s"])
        >>> exposed_table(timeline).round(6).loc["worker 0"].tolist()
        [10.0, 6.0, 4.0]
    """
    import pandas as pd

    rows = {}
    for rank in sorted(set(timeline["rank"])):
        worker_rows = timeline[timeline["rank"] == rank]
        transfers = _union(_spans(worker_rows, "transfer"))  # concurrent transfers count once
        total_s, exposed_s = _length(transfers), _length(_common(transfers, _union(_spans(worker_rows, "wait"))))
        rows[f"worker {rank}"] = [1e3 * total_s, 1e3 * exposed_s, 1e3 * (total_s - exposed_s)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["under way", "exposed", "hidden"]).rename_axis("ms")


def _spans(timeline: DataFrame, activity: str) -> _Spans:
    rows = timeline[timeline["what"] == activity]
    return list(zip(rows["start_s"].tolist(), rows["end_s"].tolist()))


def _union(spans: Iterable[tuple[float, float]]) -> _Spans:
    union: _Spans = []
    for start, end in sorted(spans):  # by start, so only the last span found can overlap
        if union and start <= union[-1][1]:
            union[-1] = union[-1][0], max(union[-1][1], end)
        else:
            union.append((start, end))
    return union


def _common(left: _Spans, right: _Spans) -> _Spans:
    """Return the intersection of two unions of spans."""
    overlaps = ((max(a, c), min(b, d)) for a, b in left for c, d in right)  # empty intersections have start >= end
    return [(start, end) for start, end in overlaps if start < end]


def _length(spans: _Spans) -> float:
    return sum(end - start for start, end in spans)


def timeline_chart(
    timelines: Mapping[str, DataFrame],
    *,
    layer: int = 1,
    direction: str = "forward",
    epoch: int | None = None,
    same_scale: bool = True,
    dark: bool = False,
) -> FigureData:
    """Draw one layer's exchange on all workers, one panel per run.

    Each worker has two lanes: its activities, and below them the transfers of messages to it.

    Args:
        timelines: label -> ``run.timeline``.
        layer: from 0.
        direction: ``forward`` or ``backward``.
        epoch: a recorded epoch. By default one that all runs recorded, so that panels show the same moment of training:
            the one whose exchanges took the median time, relative to each run's median. Runs without a common epoch
            show their own median epoch. The title or the panels name the epoch.
        same_scale: True for one time scale in all panels.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is no timeline, or nothing was recorded of the layer.
    """
    import pandas as pd

    if not timelines:
        raise ValueError("a figure needs at least one timeline, got none; pass {label: run.timeline}")
    epoch_lengths = [epoch_seconds(_exchange_of(timeline, layer, direction)) for timeline in timelines.values()]
    shown_epoch = common_epoch(epoch_lengths) if epoch is None else epoch
    frames = {
        label: layer_timeline(timeline, layer=layer, direction=direction, epoch=shown_epoch)
        for label, timeline in timelines.items()
    }
    epochs = {label: int(frame["epoch"].iloc[0]) for label, frame in frames.items()}
    same_epoch = len(set(epochs.values())) == 1  # then the title names the epoch, else each panel
    workers = max(frame["rank"].nunique() for frame in frames.values())
    height = 170 + len(frames) * (80 + 44 * workers)  # pixels: two lanes per worker in each panel
    gap = 64 / (height - 176)  # room for the tick labels of one panel and the title of the next
    charts = {
        label if same_epoch else f"{label}, epoch {epochs[label]}": _exchange(frame) for label, frame in frames.items()
    }
    words = []
    for label, frame in frames.items():
        wait_rows = frame[frame["what"] == "wait"]
        mean = float((wait_rows["end (ms)"] - wait_rows["start (ms)"]).sum()) / max(frame["rank"].nunique(), 1)
        moment = "" if same_epoch else f" in epoch {epochs[label]}"
        words.append(f"{label} takes {frame['end (ms)'].max():.3g} ms{moment}, of which a worker waits {mean:.3g} ms")
    subject = f"Layer {layer + 1}, {direction}" + (f", epoch {next(iter(epochs.values()))}" if same_epoch else "")
    figure = panels(
        charts,
        rows=len(charts),
        share_x=same_scale,
        gap=min(gap, 0.9 / max(len(frames) - 1, 1)),
        dark=dark,
        title=f"{subject}: computation and waits",
        caption=f"{subject}, one exchange on all workers: {'; '.join(words)}.",
        height=height,
        legend_below=True,
    )
    figure.update_xaxes(showticklabels=True, rangemode="tozero")
    table = pd.concat(frames, names=["run"]).reset_index(level=0).set_index("run")
    return FigureData(figure, table)


def _exchange_of(timeline: DataFrame, layer: int, direction: str) -> DataFrame:
    return timeline[(timeline["layer"] == layer) & (timeline["direction"] == direction)]


def _exchange(frame: DataFrame) -> Figure:
    """Draw the two lanes of each worker."""
    spans: dict[str, Any] = {"start": "start (ms)", "end": "end (ms)", "lane": "lane", "by": "what"}
    rows = frame.assign(lane=[f"worker {rank}" for rank in frame["rank"]])
    figure = lanes(rows, names=ACTIVITY_NAMES, styles=ACTIVITY_STYLES, **spans)
    return lanes(
        # Second lane of each worker: transfers to it.
        rows.assign(lane=rows["lane"] + " · wire", sender=[f"from worker {peer}" for peer in frame["peer"]]),
        width=0.3,
        opacity=0.6,
        names={"transfer": "bytes under way"},
        styles={"transfer": "grey"},
        details="sender",
        order=[name for rank in sorted(set(frame["rank"])) for name in (f"worker {rank}", f"worker {rank} · wire")],
        x_axis="milliseconds since the exchange began",
        figure=figure,
        **spans,
    )
