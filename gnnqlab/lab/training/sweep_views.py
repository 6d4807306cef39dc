"""Figures of a sweep: parallel coordinates of settings and outcomes, and the variance that each setting explains."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.theme import OKABE_ITO, finish, hatch_marker, template
from gnnqlab.lab.training.sweep import ABSENT, OUTCOMES, Factor, Sweep, variance_explained

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_importance", "draw_parallel"]

_AXES = 6
"""Largest number of settings with an axis; with the outcomes, these fill the width."""
_TICKS = 12
"""Largest number of levels of a setting that are all labelled."""
_STYLES = {"total time": ("vermillion", ""), "sent an epoch": ("sky", "/"), "test score": ("blue", "x")}


def draw_parallel(sweep: Sweep, *, dark: bool = False) -> FigureData:
    """Draw one line per run through its settings, total time, bytes and score, coloured by score.

    An axis can be dragged to another place, and a range of it selected: then only the runs through it stay in colour.
    Levels of a setting have equal distances. Of more than six settings, those that explain most of the score are drawn.

    Args:
        sweep: runs that have ended.
        dark: colours for a dark page.

    Raises:
        ValueError: if no run has a score.
    """
    import plotly.graph_objects as go
    from plotly.colors import sample_colorscale

    table = sweep.to_frame()
    scores = table[OUTCOMES["score"].title]
    if scores.isna().all():
        raise ValueError("lines are coloured by the test score, which no run has; train with evaluation")
    runs = table[scores.notna()]
    run_indices = [index for index, has_score in enumerate(scores.notna()) if has_score]  # indices of runs with a score
    # Largest explained share of the score first.
    factors = sorted(sweep.factors, key=lambda factor: -_share(factor, sweep))[:_AXES]
    dimensions = [_axis(factor, run_indices) for factor in sweep.factors if factor in factors]
    for outcome in OUTCOMES.values():
        values = runs[outcome.title]
        if values.notna().all():
            dimensions.append({"label": outcome.short, "values": values.tolist()})
    # Cividis suits all kinds of colour vision; without the end that is hardly visible on the page's background.
    ends = (0.4, 1.0) if dark else (0.0, 0.85)
    colors = sample_colorscale("Cividis", [ends[0] + (ends[1] - ends[0]) * step / 8 for step in range(9)])
    figure = go.Figure(
        go.Parcoords(
            dimensions=dimensions,
            line={
                "color": runs[OUTCOMES["score"].title].tolist(),
                "colorscale": [[step / 8, color] for step, color in enumerate(colors)],
                "showscale": True,
                "colorbar": {
                    "title": {"text": "test score (%)", "side": "right", "font": {"size": 13}},
                    "thickness": 12,
                },
            },
            labelfont={"size": 12},
            tickfont={"size": 11},
            rangefont={"color": "rgba(0,0,0,0)"},  # hidden, because ticks show the range
        )
    )
    left_out_names = [factor.name for factor in sweep.factors if factor not in factors]
    best_run = runs[OUTCOMES["score"].title].idxmax()
    settings = ", ".join(
        f"{factor.name} {value}" for factor in factors if (value := runs.loc[best_run, factor.name]) != ABSENT
    )
    caption = (
        f"{len(runs)} runs as lines through the settings in which they differ and their outcomes, coloured by test "
        f"score. The best score, {runs[OUTCOMES['score'].title].max():.2f} %, has {settings}."
    )
    caption += f" Without an axis: {', '.join(left_out_names)}." if left_out_names else ""
    finish(figure, title="Settings and outcomes of runs", caption=caption, dark=dark, height=440)
    figure.update_layout(margin={"t": 90, "l": 76, "r": 40, "b": 24}, shapes=_axis_lines(len(dimensions), dark=dark))
    return FigureData(figure, table)


def _axis_lines(axes: int, *, dark: bool) -> list[dict[str, Any]]:
    """Return lines at the places of the axes; Plotly's own are black, invisible on a dark page."""
    color = template(dark=dark)["layout"]["xaxis"]["linecolor"]
    places = [number / max(axes - 1, 1) for number in range(axes)]
    line = {"type": "line", "xref": "paper", "yref": "paper", "layer": "below", "line": {"color": color, "width": 1}}
    return [{**line, "x0": x, "x1": x, "y0": 0, "y1": 1} for x in places]


def draw_importance(sweep: Sweep, *, dark: bool = False) -> FigureData:
    """Draw the share of the variance of score, total time and bytes that each setting explains.

    Args:
        sweep: runs that have ended.
        dark: colours for a dark page.

    Raises:
        ValueError: if there are too few runs, see `Sweep.importance`.
    """
    import plotly.graph_objects as go

    table = sweep.importance()
    shares = table[table["share"].notna()]  # NaN: every run has a different value
    names = list(dict.fromkeys(shares["setting"]))
    figure, rows_per_setting = go.Figure(), len(OUTCOMES) + 1
    # First row of each setting, one row per outcome.
    place = {name: rows_per_setting * index for index, name in enumerate(names)}
    for row, outcome in enumerate(OUTCOMES.values()):
        results = shares[shares["outcome"] == outcome.word]
        if results.empty:
            continue
        color, shape = _STYLES[outcome.word]
        ys = [place[name] + row for name in results["setting"]]
        labels = [f"{100 * share:.0f} %, {_p(p)}" for share, p in zip(results["share"], results["p"], strict=True)]
        figure.add_bar(
            y=ys,
            x=(100 * results["share"]).tolist(),
            orientation="h",
            width=0.9,
            name=outcome.word,
            marker=hatch_marker(OKABE_ITO[color], shape),
            customdata=list(zip(results["setting"], labels, results["levels"], results["runs"], strict=True)),
            hovertemplate=f"%{{customdata[0]}}, {outcome.word}: %{{customdata[1]}}; %{{customdata[2]}} values in "
            "%{customdata[3]} runs<extra></extra>",
        )
        # A column of its own, so that numbers cover no bars and no marks.
        figure.add_scatter(
            y=ys, x=[103] * len(ys), text=labels, mode="text", textposition="middle right", showlegend=False,
            hoverinfo="skip", textfont={"size": 12},
        )  # fmt: skip
    rows = {outcome.word: row for row, outcome in enumerate(OUTCOMES.values())}
    ends = [
        (100 * chance, place[name] + rows[outcome])
        for name, outcome, chance in zip(shares["setting"], shares["outcome"], shares["chance"], strict=True)
    ]
    figure.add_scatter(
        y=[end for _, row in ends for end in (row - 0.5, row + 0.5, None)],
        x=[end for share, _ in ends for end in (share, share, None)],
        mode="lines",
        name="by chance alone",
        line={"color": "#e6e8ea" if dark else "#1f2328", "width": 2, "dash": "dot"},
        hovertemplate="settings without an effect: %{x:.0f} % on average<extra></extra>",
    )
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(
        title_text="share of the variance between runs (%)", range=[0, 140], tickvals=[0, 25, 50, 75, 100]
    )
    figure.update_yaxes(
        tickvals=[first_row + (len(OUTCOMES) - 1) / 2 for first_row in place.values()],
        ticktext=["<br>".join(textwrap.wrap(name, 18)) for name in names],
        range=[rows_per_setting * len(names) - 1, -1],
        showgrid=False,
    )
    finish(
        figure,
        title="Importance of settings",
        caption=_caption(shares, table),
        dark=dark,
        height=190 + 84 * len(names),
    )
    return FigureData(figure, table.set_index("setting"))


def _axis(factor: Factor, run_indices: list[int]) -> dict[str, Any]:
    """Return an axis with a place for each level; of many levels only every second, third ... is labelled."""
    step = -(-len(factor.levels) // _TICKS)
    return {
        "label": textwrap.shorten(factor.name, 14, placeholder=" …"),
        "values": [factor.places[index] for index in run_indices],
        "range": [-0.15, len(factor.levels) - 0.85],
        "tickvals": list(range(len(factor.levels)))[::step],
        "ticktext": [textwrap.shorten(words, 22, placeholder=" …") for words in factor.words[::step]],
    }


def _share(factor: Factor, sweep: Sweep) -> float:
    run_indices = [index for index, score in enumerate(sweep.outcomes["score"]) if math.isfinite(score)]
    share = variance_explained(
        [factor.places[index] for index in run_indices], [sweep.outcomes["score"][index] for index in run_indices]
    )[0]
    return 0.0 if math.isnan(share) else share


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _caption(shares: DataFrame, table: DataFrame) -> str:
    """Describe the setting that explains most of each outcome, the method, and settings without a result."""
    largest_rows = shares.loc[shares.groupby("outcome", sort=False)["share"].idxmax()]
    parts = "; ".join(
        f"of {row['outcome']} {row['setting']}, {100 * row['share']:.0f} % ({_p(row['p'])})"
        for _, row in largest_rows.iterrows()
    )
    dependents = {row["setting"]: row["along"] for _, row in shares.iterrows() if row["along"]}
    unshared_settings = list(dict.fromkeys(table[table["share"].isna()]["setting"]))
    absent_outcomes = [outcome.word for outcome in OUTCOMES.values() if outcome.word not in set(table["outcome"])]
    sentences = [
        f"Setting that explains most of the variance between {shares['runs'].max()} runs: {parts}.",
        "A share is the variance between the means of a setting's values divided by the total variance (η², one-way "
        "analysis of variance; p from the F test of each single setting). Settings that vary together explain the same "
        "variance, so shares need not add up.",
        *(f"Settings that vary with {name}: {names}." for name, names in dependents.items()),
        f"No result: {', '.join(unshared_settings)}, which differ in every run." if unshared_settings else "",
        f"The same in all runs, or not known: {', '.join(absent_outcomes)}." if absent_outcomes else "",
    ]
    return " ".join(filter(None, sentences))
