"""Figures of training runs: records in, ``plotly.graph_objects.Figure`` out. Nothing is read, kept or shown here.

Every figure names the unit on both axes, keeps one look per system (``theme.py``) and carries a caption in
``figure.layout.meta["caption"]`` that says in words what it shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from gnnqlab.lab.figures.byte_axis import byte_ticks
from gnnqlab.lab.figures.frames import by_epoch, by_tier, device_pairs, human_bytes, phase_seconds, volume_per_epoch
from gnnqlab.lab.figures.theme import OKABE_ITO, PHASES, finish, styles_of

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = ["breakdown", "convergence", "tiers", "traffic_map", "volume"]

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
    """How loss or score develop, one line per system (AdaQP Figs. 9 and 12, SYLVIE Fig. 10).

    Args:
        records_by_system: ``run.records`` by label; epochs without the value (not evaluated) are left out.
        value: the column to draw.
        against: ``"epoch"``, or ``"time"``: seconds of training, evaluation left out.
        score: what the scores are, ``"accuracy"`` or ``"micro-F1"``; shown in percent.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is nothing to draw, or ``value`` or ``against`` is not one of the above.
    """
    import plotly.graph_objects as go

    _check_some(records_by_system)
    if value not in _VALUES:
        raise ValueError(f"value must be one of {tuple(_VALUES)}, got {value!r}")
    if against not in ("epoch", "time"):
        raise ValueError(f"against must be one of ('epoch', 'time'), got {against!r}")
    figure = go.Figure()
    percent = value != "loss"
    words = _VALUES[value].format(score=score)
    last, styles = [], styles_of(records_by_system)
    for label, records in records_by_system.items():
        table = by_epoch(records).dropna(subset=[value])
        style = styles[label]
        y = table[value] * (100 if percent else 1)
        x = table["epoch"] if against == "epoch" else table["train_s"]
        figure.add_scatter(
            x=x.tolist(),
            y=y.tolist(),
            name=label,
            mode="lines+markers",
            line={"color": style.color, "dash": style.dash, "width": 2},
            # A marker every so often tells lines apart without hiding them.
            marker={"symbol": style.symbol, "size": 8, "maxdisplayed": 12, "color": style.color},
            hovertemplate=("%{y:.1f} %" if percent else "%{y:.4g}")
            + (" · epoch %{x}" if against == "epoch" else " · %{x:.2f} s")
            + f"<extra>{label}</extra>",
        )
        if len(y):
            last.append(f"{label} {y.iloc[-1]:.1f} %" if percent else f"{label} {y.iloc[-1]:.4g}")
    along = "epoch" if against == "epoch" else "training time (s)"
    figure.update_xaxes(title_text=along, rangemode="tozero")
    figure.update_yaxes(title_text=f"{words} (%)" if percent else words)
    caption = f"{words[0].upper()}{words[1:]} by {along}, one line per system."
    if last:
        caption += f" At the end: {', '.join(last)}."
    return finish(figure, title=f"{words[0].upper()}{words[1:]} by {along}", caption=caption, dark=dark)


def breakdown(records_by_system: Mapping[str, DataFrame], *, per_worker: bool = True, dark: bool = False) -> Figure:
    """Where the time of an epoch goes: stacked mean milliseconds per phase, a bar per system or worker (AdaQP Fig. 10).

    Of Vanilla alone it is SYLVIE Fig. 2, of one system in several widths SYLVIE Fig. 3.

    Raises:
        ValueError: if there is nothing to draw.
    """
    import plotly.graph_objects as go

    _check_some(records_by_system)
    tables = {label: phase_seconds(records, per_worker=per_worker) for label, records in records_by_system.items()}
    figure = go.Figure()
    systems = [label for label, table in tables.items() for _ in range(len(table))]
    workers = [f"worker {rank}" if per_worker else "mean" for table in tables.values() for rank in table.index]
    bars = [systems, workers] if per_worker else systems
    for phase in PHASES:
        seconds = [
            value
            for table in tables.values()
            for value in (table[phase.column] if phase.column in table else [0.0] * len(table))
        ]
        if not any(seconds):
            continue
        figure.add_bar(
            y=bars,
            x=[1000 * value for value in seconds],
            orientation="h",
            name=phase.label,
            marker={"color": phase.color, "line": {"width": 0}},
            hovertemplate=f"{phase.label} %{{x:.4g}} ms<extra>%{{y}}</extra>",
        )
    totals = {label: float(table.sum(axis=1).mean()) for label, table in tables.items()}
    figure.update_layout(barmode="stack", bargap=0.25, legend={"traceorder": "normal"})
    figure.update_xaxes(title_text="mean epoch (ms)", rangemode="tozero")
    figure.update_yaxes(title_text="system, worker" if per_worker else "system", autorange="reversed")
    caption = "Where an epoch's time goes, mean over epochs without the first: " + ", ".join(
        f"{label} {_milliseconds(total)}" for label, total in totals.items()
    )
    return finish(
        figure,
        title="Where an epoch's time goes",
        caption=caption + " an epoch.",
        dark=dark,
        height=230 + 34 * len(systems),
        legend_rows=-(-len(figure.data) // 3),
    )


def traffic_map(
    traffic: DataFrame,
    *,
    label: str = "",
    workers: int | None = None,
    largest: float | None = None,
    dark: bool = False,
) -> Figure:
    """Who sends how much to whom: bytes per epoch for each pair of workers, as a heat map.

    Args:
        traffic: ``run.traffic``.
        label: the system, for the title.
        workers: number of workers; from the traffic if not given.
        largest: bytes at the top of the colour scale, so that several maps can be compared.
        dark: colours for a dark page.
    """
    import numpy as np
    import plotly.graph_objects as go

    pairs = device_pairs(traffic, workers=workers)
    names = [f"worker {rank}" for rank in pairs.index]
    text = [["" if i == j else human_bytes(value) for j, value in enumerate(row)] for i, row in enumerate(pairs.values)]
    few = len(names) <= 8
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
            texttemplate="%{text}" if few else None,
            hovertemplate="%{y} to %{x}: %{text} an epoch<extra></extra>",
            colorbar={"title": {"text": "bytes<br>per epoch"}, "thickness": 12} | byte_ticks(largest),
        )
    )
    figure.update_xaxes(title_text="receiver", constrain="domain", showgrid=False)
    figure.update_yaxes(title_text="sender", autorange="reversed", showgrid=False)
    total = float(pairs.to_numpy().sum())
    title = "Bytes from worker to worker" + (f", {label}" if label else "")
    caption = f"{title}: {human_bytes(total)} an epoch in all."
    return finish(figure, title=title, caption=caption, dark=dark, height=230 + min(44 * len(names), 400))


def volume(records_by_system: Mapping[str, DataFrame], *, dark: bool = False) -> Figure:
    """How much all workers send in an epoch: payload and parameters (scales, zero-points) stacked, a bar a system.

    Raises:
        ValueError: if there is nothing to draw.
    """
    import plotly.graph_objects as go

    _check_some(records_by_system)
    names = list(records_by_system)
    volumes = [volume_per_epoch(records) for records in records_by_system.values()]
    totals = [sum(one.values()) for one in volumes]
    figure = go.Figure()
    for kind, color in (("payload", OKABE_ITO["blue"]), ("parameters", OKABE_ITO["orange"])):
        amounts = [one[kind] for one in volumes]
        figure.add_bar(
            y=names,
            x=amounts,
            orientation="h",
            name=kind,
            marker={"color": color},
            customdata=[human_bytes(amount) for amount in amounts],
            hovertemplate=f"{kind} %{{customdata}} an epoch<extra>%{{y}}</extra>",
        )
    for name, total in zip(names, totals):
        share = f" · 1/{totals[0] / total:.1f}" if total and total < totals[0] else ""
        figure.add_annotation(x=total, y=name, text=f" {human_bytes(total)}{share}", showarrow=False, xanchor="left")
    figure.update_layout(barmode="stack", bargap=0.35, legend={"traceorder": "normal"})
    room_for_words = [0, 1.3 * max([*totals, 1])]
    figure.update_xaxes(title_text="sent per epoch, all workers", range=room_for_words, **byte_ticks(max(totals)))
    figure.update_yaxes(title_text="system", autorange="reversed")
    caption = "Bytes that all workers send in an epoch: " + ", ".join(
        f"{name} {human_bytes(total)}" for name, total in zip(names, totals)
    )
    return finish(
        figure, title="Bytes sent in an epoch", caption=caption + ".", dark=dark, height=210 + 40 * len(names)
    )


def tiers(traffic_by_system: Mapping[str, DataFrame], *, dark: bool = False) -> Figure:
    """What crosses hosts and what stays within one: bytes and seconds of an epoch by tier (CDFGNN section 6).

    Args:
        traffic_by_system: ``run.traffic`` by label.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is nothing to draw.
    """
    from plotly.subplots import make_subplots

    _check_some(traffic_by_system)
    names, tables = list(traffic_by_system), [by_tier(traffic) for traffic in traffic_by_system.values()]
    figure = make_subplots(1, 2, shared_yaxes=True, horizontal_spacing=0.06)
    for tier, color in (("inner", OKABE_ITO["sky"]), ("outer", OKABE_ITO["vermillion"])):
        look = {"y": names, "orientation": "h", "name": _TIERS[tier], "legendgroup": tier, "marker": {"color": color}}
        amounts = [float(table.at[tier, "bytes"]) for table in tables]
        words = [human_bytes(amount) for amount in amounts]
        hover = f"{_TIERS[tier]} %{{customdata}} an epoch<extra>%{{y}}</extra>"
        figure.add_bar(x=amounts, customdata=words, hovertemplate=hover, row=1, col=1, **look)
        under_way = [1000 * float(table.at[tier, "seconds"]) for table in tables]
        hover = f"{_TIERS[tier]} %{{x:.4g}} ms an epoch<extra>%{{y}}</extra>"
        figure.add_bar(x=under_way, showlegend=False, hovertemplate=hover, row=1, col=2, **look)
    figure.update_layout(barmode="group", bargap=0.3)
    most = max(float(table["bytes"].max()) for table in tables)
    figure.update_xaxes(title_text="sent per epoch, all workers", rangemode="tozero", **byte_ticks(most), col=1)
    figure.update_xaxes(title_text="epoch (ms), slowest worker", rangemode="tozero", col=2)
    figure.update_yaxes(title_text="system", autorange="reversed", col=1)
    caption = "Bytes in an epoch between hosts and within them: " + ", ".join(
        f"{name} {human_bytes(table.at['outer', 'bytes'])} and {human_bytes(table.at['inner', 'bytes'])}"
        for name, table in zip(names, tables)
    )
    title = "Which link carries what"
    return finish(figure, title=title, caption=caption + ".", dark=dark, height=230 + 60 * len(names))


_TIERS = {"inner": "within a host", "outer": "between hosts"}


def _check_some(records_by_system: Mapping[str, DataFrame]) -> None:
    if not records_by_system:
        raise ValueError("a figure needs the records of at least one run, got none; pass {label: run.records}")


def _milliseconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
