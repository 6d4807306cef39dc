"""Who waits for whom: one layer's exchange on all workers, with and without overlap side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lanes, panels
from gnnqlab.lab.figures.theme import ACTIVITY_NAMES, ACTIVITY_STYLES

if TYPE_CHECKING:
    from pandas import DataFrame, Series
    from plotly.graph_objects import Figure

__all__ = ["hidden_share", "layer_timeline", "shown_layer", "timeline_chart"]


def layer_timeline(
    timeline: DataFrame, *, layer: int = 1, direction: str = "forward", epoch: int | None = None
) -> DataFrame:
    """Return the parts of one layer's exchange in one epoch, in milliseconds from the first worker's begin.

    Args:
        timeline: ``run.timeline``.
        layer: from 0.
        direction: ``forward`` or ``backward``.
        epoch: one that was recorded; by default the one whose exchange took the median time.

    Raises:
        ValueError: if nothing of that layer and direction was recorded, or not in that epoch.
    """
    here = timeline[(timeline["layer"] == layer) & (timeline["direction"] == direction)]
    if here.empty:
        raise ValueError(
            f"nothing was recorded of layer {layer}, {direction}; launch with timeline_every=5, and look at layers "
            f"{sorted(set(timeline['layer']))}"
        )
    known = sorted(set(here["epoch"]))
    if epoch is None:
        epoch = _median_epoch(_took(here))
    if epoch not in known:
        raise ValueError(f"epoch must be one that was recorded, {known}, got {epoch}")
    some = here[here["epoch"] == epoch]
    begin = some["start_s"].min()
    found = some[["rank", "what", "peer"]].copy()
    found["start (ms)"] = 1e3 * (some["start_s"] - begin)
    found["end (ms)"] = 1e3 * (some["end_s"] - begin)
    found.insert(0, "epoch", epoch)
    return found.sort_values(["rank", "start (ms)"], ignore_index=True)


def _took(here: DataFrame) -> Series:
    """Seconds of the exchange by epoch."""
    by_epoch = here.groupby("epoch")
    took: Series = by_epoch["end_s"].max() - by_epoch["start_s"].min()
    return took


def _median_epoch(took: Series) -> int:
    return int(took.sort_values(kind="stable").index[(len(took) - 1) // 2])


def _common_epoch(timelines: Mapping[str, DataFrame], layer: int, direction: str) -> int | None:
    """The epoch to show of all runs; ``None`` if they recorded none in common."""
    import pandas as pd

    each = [
        _took(timeline[(timeline["layer"] == layer) & (timeline["direction"] == direction)])
        for timeline in timelines.values()
    ]
    # Beside its own median, so that a slow run does not decide alone.
    together = pd.concat([took / took.median() for took in each], axis=1, join="inner").sum(axis=1)
    return _median_epoch(together) if len(together) else None


def shown_layer(timeline: DataFrame) -> int | None:
    """Return the layer to show where only one is: the second, whose rows are hidden ones, else the first recorded.

    ``None`` if nothing was recorded forward.
    """
    layers = set(timeline.loc[timeline["direction"] == "forward", "layer"])
    return 1 if 1 in layers else min(layers, default=None)


def hidden_share(timeline: DataFrame) -> float:
    """Return which share of the time that bytes were under way no worker spent waiting for them.

    Over all recorded exchanges; a worker's transfers that overlap count once.

    Raises:
        ValueError: if no transfer was recorded.
    """
    transfers = timeline[timeline["what"] == "transfer"]
    if transfers.empty:
        raise ValueError("a share needs recorded transfers, got none; launch with timeline_every=5")
    place = ["epoch", "layer", "direction", "rank"]
    spans = transfers.groupby(place).agg(start=("start_s", "min"), end=("end_s", "max"))
    waits = timeline[timeline["what"] == "wait"].copy()
    waits["seconds"] = waits["end_s"] - waits["start_s"]
    waited = waits.groupby(place)["seconds"].sum().reindex(spans.index, fill_value=0.0)
    under_way = (spans["end"] - spans["start"]).sum()
    return max(0.0, 1.0 - float(waited.sum() / under_way)) if under_way > 0 else 0.0


def timeline_chart(
    timelines: Mapping[str, DataFrame],
    *,
    layer: int = 1,
    direction: str = "forward",
    epoch: int | None = None,
    same_scale: bool = True,
    dark: bool = False,
) -> Bundle:
    """Draw one layer's exchange on all workers, a panel a run.

    Each worker has two lines: what it did, and below that when the bytes it waited for were under way.

    Args:
        timelines: ``run.timeline`` by label.
        layer: from 0.
        direction: ``forward`` or ``backward``.
        epoch: one that was recorded. By default one that all runs recorded, so that panels show the same moment of
            training: the one whose exchanges took the median time, each beside its own run's median. Runs that recorded
            none in common show their own median epoch. Title or panels say which it is.
        same_scale: one scale of time for all panels.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is no timeline, or nothing was recorded of the layer.
    """
    import pandas as pd

    if not timelines:
        raise ValueError("a figure needs at least one timeline, got none; pass {label: run.timeline}")
    shown_epoch = _common_epoch(timelines, layer, direction) if epoch is None else epoch
    frames = {
        label: layer_timeline(timeline, layer=layer, direction=direction, epoch=shown_epoch)
        for label, timeline in timelines.items()
    }
    epochs = {label: int(frame["epoch"].iloc[0]) for label, frame in frames.items()}
    same = len(set(epochs.values())) == 1
    workers = max(frame["rank"].nunique() for frame in frames.values())
    height = 170 + len(frames) * (80 + 44 * workers)
    gap = 64 / (height - 176)  # room for the numbers of one panel and the title of the next
    charts = {label if same else f"{label}, epoch {epochs[label]}": _exchange(frame) for label, frame in frames.items()}
    words = []
    for label, frame in frames.items():
        waited = frame[frame["what"] == "wait"]
        mean = float((waited["end (ms)"] - waited["start (ms)"]).sum()) / max(frame["rank"].nunique(), 1)
        when = "" if same else f" in epoch {epochs[label]}"
        words.append(f"{label} takes {frame['end (ms)'].max():.3g} ms{when}, of which a worker waits {mean:.3g} ms")
    what = f"Layer {layer + 1}, {direction}" + (f", epoch {next(iter(epochs.values()))}" if same else "")
    figure = panels(
        charts,
        rows=len(charts),
        share_x=same_scale,
        gap=min(gap, 0.9 / max(len(frames) - 1, 1)),
        dark=dark,
        title=f"{what}: who waits for whom",
        caption=f"{what}, one exchange on all workers: {'; '.join(words)}.",
        height=height,
        legend_below=True,
    )
    figure.update_xaxes(showticklabels=True, rangemode="tozero")
    table = pd.concat(frames, names=["run"]).reset_index(level=0).set_index("run")
    return Bundle(figure, table)


def _exchange(frame: DataFrame) -> Figure:
    """Draw the two lines of each worker."""
    spans: dict[str, Any] = {"start": "start (ms)", "end": "end (ms)", "lane": "lane", "by": "what"}
    own = frame.assign(lane=[f"worker {rank}" for rank in frame["rank"]])
    figure = lanes(own, names=ACTIVITY_NAMES, styles=ACTIVITY_STYLES, **spans)
    return lanes(
        own.assign(lane=own["lane"] + " · wire", sender=[f"from worker {peer}" for peer in frame["peer"]]),
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
