"""Pareto front of runs: score over total time or bytes, with the seeds of a setting grouped."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.theme import OKABE_ITO, finish, style_of

if TYPE_CHECKING:
    from pandas import DataFrame, Series

__all__ = ["draw_front", "find_pareto_front"]

_COSTS = {"train_s": ("total time (s)", 1.0), "bytes_sent": ("sent per epoch (kB)", 1e-3)}


def find_pareto_front(groups: DataFrame, cost: str = "train_s") -> list[bool]:
    """Return a list with True for each group on the Pareto front: no other has at least its score at no higher cost.

    Args:
        groups: table of :func:`gnnqlab.lab.listing.run_rows.group_by_settings`.
        cost: ``train_s`` or ``bytes_sent``.

    Example:
        >>> import pandas as pd
        >>> find_pareto_front(pd.DataFrame({"score": [0.9, 0.8, 0.8], "train_s": [5.0, 2.0, 3.0]}))
        [True, True, False]
    """
    places = list(zip(groups[cost], groups["score"], strict=True))  # (cost, score) of each group
    return [
        not math.isnan(group_cost)
        and not any(c <= group_cost and s >= score and (c, s) != (group_cost, score) for c, s in places)
        for group_cost, score in places
    ]


def draw_front(
    groups: DataFrame, *, cost: Literal["train_s", "bytes_sent"] = "train_s", dark: bool = False
) -> FigureData:
    """Draw the score of each group over its cost with 95 % intervals, and the Pareto front as a line.

    Args:
        groups: table of :func:`gnnqlab.lab.listing.run_rows.group_by_settings`, for one graph.
        cost: ``train_s`` (total time) or ``bytes_sent`` (per epoch).
        dark: colours for a dark page.

    Raises:
        ValueError: if there is no group, groups are of several graphs, or ``cost`` is neither of the two.
    """
    import plotly.graph_objects as go

    if cost not in _COSTS:
        raise ValueError(f"cost must be one of {sorted(_COSTS)}, got {cost!r}")
    if groups.empty:
        raise ValueError("a front needs at least one finished run, got none; launch some, or open another folder")
    if len(graphs := sorted(set(groups["graph"]))) > 1:
        raise ValueError(f"runs of a front must be of one graph, got {', '.join(graphs)}; choose runs of one of them")
    name, factor = _COSTS[cost]  # title of the axis, and factor to its unit
    figure, on_front = go.Figure(), find_pareto_front(groups, cost)
    front = groups[on_front].sort_values(cost)  # from left to right, for one line
    figure.add_scatter(
        x=(factor * front[cost]).tolist(),
        y=(100 * front["score"]).tolist(),
        mode="lines",
        name="Pareto front",
        line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 2},
        hoverinfo="skip",
    )
    for system, rows in groups.groupby("system", sort=False):
        style = style_of(str(system))
        figure.add_scatter(
            x=(factor * rows[cost]).tolist(),
            y=(100 * rows["score"]).tolist(),
            mode="markers",
            name=str(system),
            marker={"color": style.color, "symbol": style.symbol, "size": 11},
            error_y={"array": [_half_or_zero(100 * half) for half in rows["score_half"]], "thickness": 1.2, "width": 4},
            error_x={
                "array": [_half_or_zero(factor * half) for half in rows["train_half"]],
                "thickness": 1.2,
                "width": 4,
            }
            if cost == "train_s"
            else None,
            customdata=[
                f"{words or system}, {model}, {workers} workers, {seeds} seed(s)"
                for words, model, workers, seeds in zip(
                    rows["said"], rows["model"], rows["workers"], rows["seeds"], strict=True
                )
            ],
            hovertemplate="%{customdata}: %{y:.2f} % at %{x:.4g}<extra></extra>",
        )
    half = groups["train_half"] if cost == "train_s" else 0.0 * groups[cost]  # bytes have no interval
    figure.update_xaxes(title_text=name, range=_range(factor * groups[cost], factor * half, math.inf))
    figure.update_yaxes(
        title_text="test score (%)", range=_range(100 * groups["score"], 100 * groups["score_half"], 100.0)
    )
    caption = (
        f"Test score over {name.split(' (')[0]} of {len(groups)} settings on {graphs[0]}; "
        f"{sum(on_front)} of them on the Pareto front: " + ", ".join(_label(row) for _, row in front.iterrows()) + "."
    )
    table = groups.drop(columns="runs").assign(unsurpassed=on_front)
    finish(figure, title=f"Score and cost of settings on {graphs[0]}", caption=caption, dark=dark, height=420)
    return FigureData(figure, table)


def _range(values: Series, halves: Series, limit: float) -> list[float] | None:
    """Return the range of values with their intervals and a margin, within 0 and the largest possible value."""
    is_known = values.notna()
    if not is_known.any():
        return None
    known_values, half = values[is_known], halves[is_known].fillna(0.0)
    low, high = max(float((known_values - half).min()), 0.0), min(float((known_values + half).max()), limit)
    margin = 0.06 * ((high - low) or abs(high) or 1.0)  # 6 % of the range, or of the value if all are equal
    return [low - margin, high + margin]


def _half_or_zero(half: float) -> float:
    """Return half an interval to draw, 0 for a single seed, whose interval is unknown."""
    return half if math.isfinite(half) else 0.0


def _label(row: object) -> str:
    system, settings = row["system"], row["said"]  # type: ignore[index]
    return f"{system} ({settings})" if settings else str(system)
