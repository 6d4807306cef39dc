"""Figures of training runs: functions from records to ``plotly.graph_objects.Figure``, without side effects.

Every figure has units on both axes, one style per system (``theme.py``), and a description in words in
``figure.layout.meta["caption"]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from gnnqlab.lab.figures.byte_axis import byte_ticks
from gnnqlab.lab.figures.charts import bars, lines, panels
from gnnqlab.lab.figures.frames import by_epoch, by_tier, device_pairs, mean_over_seeds, phase_seconds, volume_per_epoch
from gnnqlab.lab.figures.theme import PHASES, finish, styles_of
from gnnqlab.study.tables import GROUP
from gnnqlab.study.tables import convergence as mean_curves
from gnnqlab.units import human_bytes

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = [
    "breakdown", "convergence", "convergence_over_seeds", "seed_curves", "tiers", "traffic_map", "volume",
]  # fmt: skip

_VALUES = {
    "loss": "training loss (cross-entropy)",
    "train_score": "training {score}",
    "val_score": "validation {score}",
    "test_score": "test {score}",
}


def convergence(
    records_by_system: Mapping[str, DataFrame],
    *,
    value: Literal["loss", "train_score", "val_score", "test_score"] = "val_score",
    against: Literal["epoch", "time"] = "epoch",
    score: str = "accuracy",
    dark: bool = False,
) -> Figure:
    """Draw loss or score over epochs or time, one line per system (AdaQP Figs. 9 and 12, SYLVIE Fig. 10).

    Args:
        records_by_system: label -> ``run.records``; epochs without the value (not evaluated) are left out.
        value: the column to draw.
        against: ``"epoch"``, or ``"time"``: seconds of training without evaluation.
        score: name of the score, ``"accuracy"`` or ``"micro-F1"``; shown in percent.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is nothing to draw, or ``value`` or ``against`` is not one of the above.
    """
    import pandas as pd

    _check_some(records_by_system)
    _check_axes(value, against)
    tables = {label: by_epoch(records).dropna(subset=[value]) for label, records in records_by_system.items()}
    rows = pd.concat(tables, names=["system"]).reset_index("system").rename(columns={"train_s": "seconds"})
    rows["score"] = rows[value] * _factor(value)
    return _draw_convergence(rows, "epoch", value, against, score, dark)


def seed_curves(records_by_system: Mapping[str, Sequence[DataFrame]], *, value: str = "val_score") -> DataFrame:
    """Return loss or score by epoch as means over seeds with 95 % intervals; see ``Study.convergence`` for the columns.

    Args:
        records_by_system: label -> records of runs that differ in their seed only.
        value: as for :func:`convergence`; scores are in per cent.
    """
    _check_some(records_by_system)
    _check_axes(value, "epoch")
    cells = []
    for label, seeds in records_by_system.items():
        for records in seeds:
            table = by_epoch(records).dropna(subset=[value])
            curve = zip(table["epoch"], table["train_s"], table[value])
            cells.append(({**dict.fromkeys(GROUP, ""), "system": label}, list(curve)))
    frame = mean_curves(cells, factor=_factor(value))
    return frame[["system", "epochs", "seconds", "score", "low", "high", "seeds"]]


def convergence_over_seeds(
    curves: DataFrame, *, value: str = "val_score", against: str = "epoch", score: str = "accuracy", dark: bool = False
) -> Figure:
    """Draw :func:`seed_curves`: the mean of each system in a band of its 95 % interval; arguments of `convergence`."""
    _check_axes(value, against)
    # A band of no width where there is no interval, since a gap would join the edges of its ends.
    known = curves.assign(low=curves["low"].fillna(curves["score"]), high=curves["high"].fillna(curves["score"]))
    return _draw_convergence(known, "epochs", value, against, score, dark)


def _draw_convergence(rows: DataFrame, epoch: str, value: str, against: str, score: str, dark: bool) -> Figure:
    """Draw one line per system, with a band if the rows have one."""
    is_percent, has_band = value != "loss", "low" in rows
    words = _VALUES[value].format(score=score)
    last_values = rows.groupby("system", sort=False)["score"].last().items()
    ends = ", ".join(f"{label} {end:.1f} %" if is_percent else f"{label} {end:.4g}" for label, end in last_values)
    x_title = "epoch" if against == "epoch" else "training time (s)"
    title = f"{words[0].upper()}{words[1:]} by {x_title}"
    drawn = (
        f"{title}, mean over seeds in a band of its 95 % interval." if has_band else f"{title}, one line per system."
    )
    figure = lines(
        rows,
        x=epoch if against == "epoch" else "seconds",
        y="score",
        by="system",
        styles=styles_of(rows["system"]),
        band=("low", "high") if has_band else None,
        x_axis=x_title,
        y_axis=f"{words} (%)" if is_percent else words,
        zero="x",
        title=title,
        caption=drawn + (f" At the end: {ends}." if ends else ""),
        dark=dark,
    )
    # A few markers distinguish the lines without hiding them.
    return figure.update_traces(marker={"maxdisplayed": 12}, selector={"mode": "lines+markers"})


def _factor(value: str) -> float:
    """Return the factor from records to figures: a score in [0, 1] becomes per cent, a loss stays."""
    return 1.0 if value == "loss" else 100.0


def _check_axes(value: str, against: str) -> None:
    if value not in _VALUES:
        raise ValueError(f"value must be one of {tuple(_VALUES)}, got {value!r}")
    if against not in ("epoch", "time"):
        raise ValueError(f"against must be one of ('epoch', 'time'), got {against!r}")


def breakdown(
    records_by_system: Mapping[str, DataFrame | Sequence[DataFrame]], *, per_worker: bool = True, dark: bool = False
) -> Figure:
    """Draw mean milliseconds per epoch by phase, one stacked bar per system or worker (AdaQP Fig. 10).

    For Vanilla alone this is SYLVIE Fig. 2, for one system with several bit-widths SYLVIE Fig. 3. Of records of several
    seeds the bar shows the mean.

    Raises:
        ValueError: if there is nothing to draw.
    """
    import pandas as pd

    _check_some(records_by_system)
    # Label -> one row per worker, or one in all.
    tables = {
        label: mean_over_seeds([phase_seconds(records, per_worker=per_worker) for records in _seeds(given)])
        for label, given in records_by_system.items()
    }
    totals = {label: float(table.sum(axis=1).mean()) for label, table in tables.items()}
    # Seconds -> ms; phases that a run lacks are zero.
    rows = 1000 * pd.concat(tables, names=["system", "rank"]).fillna(0.0)
    rows = rows.rename(index="worker {}".format, level="rank") if per_worker else rows.droplevel("rank")
    phases = {phase.column: phase for phase in PHASES if phase.column in rows and rows[phase.column].any()}
    caption = "Time per epoch by phase, mean over epochs without the first: " + ", ".join(
        f"{label} {_milliseconds(total)}" for label, total in totals.items()
    )
    figure = bars(
        rows,
        y={column: phase.label for column, phase in phases.items()},
        stacked=True,
        horizontal=True,
        zero="x",
        styles={column: f"{phase.color} {phase.pattern}".rstrip() for column, phase in phases.items()},
        x_axis="mean epoch (ms)",
        y_axis="system, worker" if per_worker else "system",
        title="Time per epoch by phase",
        caption=caption + ".",
        dark=dark,
        height=230 + 34 * len(rows),
        legend_rows=-(-len(phases) // 3),
    )
    return figure.update_layout(bargap=0.25, legend={"traceorder": "normal"})


def traffic_map(
    traffic: DataFrame,
    *,
    label: str = "",
    workers: int | None = None,
    largest: float | None = None,
    dark: bool = False,
) -> Figure:
    """Draw the bytes per epoch between each pair of workers as a heat map.

    Args:
        traffic: ``run.traffic``.
        label: name of the system for the title.
        workers: number of workers; from the traffic if not given.
        largest: bytes at the top of the colour scale, so that several maps can be compared.
        dark: colours for a dark page.
    """
    import numpy as np
    import plotly.graph_objects as go

    pairs = device_pairs(traffic, workers=workers)
    names = [f"worker {rank}" for rank in pairs.index]
    text = [["" if i == j else human_bytes(value) for j, value in enumerate(row)] for i, row in enumerate(pairs.values)]
    has_room = len(names) <= 8  # with more workers numbers do not fit into the cells
    z = pairs.to_numpy(dtype=float, copy=True)
    np.fill_diagonal(z, np.nan)  # a worker sends nothing to itself: no cell rather than a dark one
    largest = largest or max(float(pairs.to_numpy().max()), 1.0)
    figure = go.Figure(
        go.Heatmap(
            z=z.tolist(),
            x=names,
            y=names,
            zmin=0,
            zmax=largest,
            colorscale="Cividis",
            xgap=2,
            ygap=2,
            hoverongaps=False,
            text=text,
            texttemplate="%{text}" if has_room else None,
            hovertemplate="%{y} to %{x}: %{text} per epoch<extra></extra>",
            colorbar={"title": {"text": "bytes<br>per epoch"}, "thickness": 12} | byte_ticks(largest),
        )
    )
    figure.update_xaxes(title_text="receiver", constrain="domain", showgrid=False)
    figure.update_yaxes(title_text="sender", autorange="reversed", showgrid=False)
    total = float(pairs.to_numpy().sum())
    title = "Bytes from worker to worker" + (f", {label}" if label else "")
    caption = f"{title}: {human_bytes(total)} per epoch in total."
    return finish(figure, title=title, caption=caption, dark=dark, height=230 + min(44 * len(names), 400))


def volume(records_by_system: Mapping[str, DataFrame | Sequence[DataFrame]], *, dark: bool = False) -> Figure:
    """Draw the bytes that all workers send per epoch: payload and parameters stacked, one bar per system.

    Of records of several seeds the bar shows the mean.

    Raises:
        ValueError: if there is nothing to draw.
    """
    import pandas as pd

    _check_some(records_by_system)
    volumes = {name: map(volume_per_epoch, _seeds(given)) for name, given in records_by_system.items()}
    table = pd.DataFrame({name: pd.DataFrame(rows).mean() for name, rows in volumes.items()}).T
    totals = table.sum(axis=1)
    caption = "Bytes that all workers send per epoch: " + ", ".join(
        f"{name} {human_bytes(total)}" for name, total in totals.items()
    )
    room_for_words = [0, 1.3 * max([*totals, 1])]  # labels are to the right of the bars
    figure = bars(
        table,
        y=["payload", "parameters"],
        styles=["blue", "orange"],
        stacked=True,
        horizontal=True,
        x_axis={"title_text": "sent per epoch, all workers", "range": room_for_words, **byte_ticks(max(totals))},
        y_axis="system",
        title="Bytes sent per epoch",
        caption=caption + ".",
        dark=dark,
        height=210 + 40 * len(table),
    )
    for name, total in totals.items():
        # Relative to the first run.
        share = f" · 1/{totals.iloc[0] / total:.1f}" if total and total < totals.iloc[0] else ""
        figure.add_annotation(x=total, y=name, text=f" {human_bytes(total)}{share}", showarrow=False, xanchor="left")
    return figure.update_layout(bargap=0.35, legend={"traceorder": "normal"})


def tiers(traffic_by_system: Mapping[str, DataFrame], *, dark: bool = False) -> Figure:
    """Draw bytes and seconds per epoch by tier, within a host and between hosts (CDFGNN section 6).

    Args:
        traffic_by_system: label -> ``run.traffic``.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is nothing to draw.
    """
    import pandas as pd

    _check_some(traffic_by_system)
    tables = {name: by_tier(traffic) for name, traffic in traffic_by_system.items()}
    rows = pd.concat(tables, names=["system", "tier"]).reset_index()
    rows = rows.assign(milliseconds=1000 * rows["seconds"], size=rows["bytes"].map(human_bytes))
    bytes_axis = {"title_text": "sent per epoch, all workers", **byte_ticks(float(rows["bytes"].max()))}
    charts = [
        bars(
            rows, x="system", y=column, by="tier", names=_TIERS, styles={"inner": "sky", "outer": "vermillion"},
            horizontal=True, details="size", zero="x", x_axis=axis, y_axis="system",
        )
        for column, axis in (("bytes", bytes_axis), ("milliseconds", "epoch (ms), slowest worker"))
    ]  # fmt: skip
    caption = "Bytes per epoch between hosts and within them: " + ", ".join(
        f"{name} {human_bytes(table.at['outer', 'bytes'])} and {human_bytes(table.at['inner', 'bytes'])}"
        for name, table in tables.items()
    )
    figure = panels(
        charts,
        share_y=True,
        gap=0.06,
        title="Traffic within hosts and between them",
        caption=caption + ".",
        dark=dark,
        height=230 + 60 * len(tables),
    )
    return figure.update_layout(bargap=0.3)


_TIERS = {"inner": "within a host", "outer": "between hosts"}


def _seeds(records: DataFrame | Sequence[DataFrame]) -> list[DataFrame]:
    return list(records) if isinstance(records, Sequence) else [records]  # a table is no sequence


def _check_some(records_by_system: Mapping[str, object]) -> None:
    if not records_by_system:
        raise ValueError("a figure needs the records of at least one run, got none; pass {label: run.records}")


def _milliseconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
