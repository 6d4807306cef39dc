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
"""Most settings with an axis; with the outcomes, these fill the width."""
_TICKS = 12
"""Most levels of a setting that are all labelled."""
_LOOKS = {"total time": ("vermillion", ""), "sent an epoch": ("sky", "/"), "test score": ("blue", "x")}


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
        raise ValueError("lines are coloured by the test score, got no run with one; train with evaluation")
    scored = table[scores.notna()]
    numbers = [number for number, known in enumerate(scores.notna()) if known]  # indices of runs with a score
    # Largest explained share of the score first.
    shown = sorted(sweep.factors, key=lambda one: -_share(one, sweep))[:_AXES]
    dimensions = [_axis(one, numbers) for one in sweep.factors if one in shown]
    for outcome in OUTCOMES.values():
        values = scored[outcome.title]
        if values.notna().all():
            dimensions.append({"label": outcome.short, "values": values.tolist()})
    # Cividis suits all kinds of colour vision; without the end that is hardly visible on the page's background.
    ends = (0.4, 1.0) if dark else (0.0, 0.85)
    colors = sample_colorscale("Cividis", [ends[0] + (ends[1] - ends[0]) * step / 8 for step in range(9)])
    figure = go.Figure(
        go.Parcoords(
            dimensions=dimensions,
            line={
                "color": scored[OUTCOMES["score"].title].tolist(),
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
    left_out = [one.name for one in sweep.factors if one not in shown]
    best = scored[OUTCOMES["score"].title].idxmax()
    settings = ", ".join(f"{one.name} {value}" for one in shown if (value := scored.loc[best, one.name]) != ABSENT)
    caption = (
        f"{len(scored)} runs as lines through the settings in which they differ and their outcomes, coloured by test "
        f"score. The best score, {scored[OUTCOMES['score'].title].max():.2f} %, has {settings}."
    )
    caption += f" Without an axis: {', '.join(left_out)}." if left_out else ""
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
    """Draw the share of the variance of score, total time and bytes between the values of each setting.

    Args:
        sweep: runs that have ended.
        dark: colours for a dark page.

    Raises:
        ValueError: if there are too few runs, see `Sweep.importance`.
    """
    import plotly.graph_objects as go

    table = sweep.importance()
    known = table[table["share"].notna()]  # NaN: every run has another value
    names = list(dict.fromkeys(known["setting"]))
    figure, height = go.Figure(), len(OUTCOMES) + 1
    # First row of each setting, one row per outcome.
    place = {name: height * number for number, name in enumerate(names)}
    for row, outcome in enumerate(OUTCOMES.values()):
        results = known[known["outcome"] == outcome.word]
        if results.empty:
            continue
        color, shape = _LOOKS[outcome.word]
        heights = [place[name] + row for name in results["setting"]]
        words = [f"{100 * share:.0f} %, {_p(p)}" for share, p in zip(results["share"], results["p"], strict=True)]
        figure.add_bar(
            y=heights,
            x=(100 * results["share"]).tolist(),
            orientation="h",
            width=0.9,
            name=outcome.word,
            marker=hatch_marker(OKABE_ITO[color], shape),
            customdata=list(zip(results["setting"], words, results["levels"], results["runs"], strict=True)),
            hovertemplate=f"%{{customdata[0]}}, {outcome.word}: %{{customdata[1]}}; %{{customdata[2]}} values in "
            "%{customdata[3]} runs<extra></extra>",
        )
        # A column of its own, so that numbers cover no bars and no marks.
        figure.add_scatter(
            y=heights, x=[103] * len(heights), text=words, mode="text", textposition="middle right", showlegend=False,
            hoverinfo="skip", textfont={"size": 12},
        )  # fmt: skip
    rows = {outcome.word: row for row, outcome in enumerate(OUTCOMES.values())}
    ends = [
        (100 * chance, place[name] + rows[outcome])
        for name, outcome, chance in zip(known["setting"], known["outcome"], known["chance"], strict=True)
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
        tickvals=[first + (len(OUTCOMES) - 1) / 2 for first in place.values()],
        ticktext=["<br>".join(textwrap.wrap(name, 18)) for name in names],
        range=[height * len(names) - 1, -1],
        showgrid=False,
    )
    finish(
        figure,
        title="Importance of settings",
        caption=_caption(known, table),
        dark=dark,
        height=190 + 84 * len(names),
    )
    return FigureData(figure, table.set_index("setting"))


def _axis(one: Factor, numbers: list[int]) -> dict[str, Any]:
    """Return an axis with a place for each level; of many levels only every second, third ... is labelled."""
    every = -(-len(one.levels) // _TICKS)
    return {
        "label": textwrap.shorten(one.name, 14, placeholder=" …"),
        "values": [one.places[number] for number in numbers],
        "range": [-0.15, len(one.levels) - 0.85],
        "tickvals": list(range(len(one.levels)))[::every],
        "ticktext": [textwrap.shorten(words, 22, placeholder=" …") for words in one.words[::every]],
    }


def _share(one: Factor, sweep: Sweep) -> float:
    known = [number for number, score in enumerate(sweep.outcomes["score"]) if math.isfinite(score)]
    share = variance_explained(
        [one.places[number] for number in known], [sweep.outcomes["score"][number] for number in known]
    )[0]
    return 0.0 if math.isnan(share) else share


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _caption(known: DataFrame, table: DataFrame) -> str:
    """Describe the setting that explains most of each outcome, the method, and settings without a result."""
    most = known.loc[known.groupby("outcome", sort=False)["share"].idxmax()]
    parts = "; ".join(
        f"of {row['outcome']} {row['setting']}, {100 * row['share']:.0f} % ({_p(row['p'])})"
        for _, row in most.iterrows()
    )
    along = {row["setting"]: row["along"] for _, row in known.iterrows() if row["along"]}
    own = list(dict.fromkeys(table[table["share"].isna()]["setting"]))
    absent = [outcome.word for outcome in OUTCOMES.values() if outcome.word not in set(table["outcome"])]
    sentences = [
        f"Setting that explains most of the variance between {known['runs'].max()} runs: {parts}.",
        "A share is the variance between the means of a setting's values divided by the total variance (η², one-way "
        "analysis of variance; p from the F test of each single setting). Settings that vary together explain the same "
        "variance, so shares need not add up.",
        *(f"Settings that vary with {name}: {others}." for name, others in along.items()),
        f"No result, because every run has another value: {', '.join(own)}." if own else "",
        f"The same in all runs, or not known: {', '.join(absent)}." if absent else "",
    ]
    return " ".join(filter(None, sentences))
