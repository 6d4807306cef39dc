"""A sweep drawn: parallel coordinates of settings and outcomes, and how much each setting explains."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.theme import OKABE_ITO, finish, hatched, template
from gnnqlab.lab.training.sweep import ABSENT, OUTCOMES, Differing, Sweep, explained

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_mattered", "draw_parallel"]

_AXES = 6
"""Most settings that have an axis: with the outcomes, as many as fit beside each other."""
_TICKS = 12
"""Most levels of a setting whose names are all written."""
_LOOKS = {"total time": ("vermillion", ""), "sent an epoch": ("sky", "/"), "test score": ("blue", "x")}


def draw_parallel(sweep: Sweep, *, dark: bool = False) -> FigureData:
    """Draw a line a run through its settings, total time, bytes and score, coloured by score.

    An axis can be dragged to another place, and a part of it marked: then only the runs through it stay in colour.
    Levels of a setting stand at equal distances. Of more than six settings those are drawn that explain most of the
    score.

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
        raise ValueError("lines are coloured by the test score, got no run that has one; train with evaluation")
    kept = table[scores.notna()]
    numbers = [number for number, known in enumerate(scores.notna()) if known]
    shown = sorted(sweep.factors, key=lambda one: -_share(one, sweep))[:_AXES]
    dimensions = [_axis(one, numbers) for one in sweep.factors if one in shown]
    for outcome in OUTCOMES.values():
        values = kept[outcome.title]
        if values.notna().all():
            dimensions.append({"label": outcome.short, "values": values.tolist()})
    # Of cividis, which all kinds of colour vision see alike, the end is left out that is lost on the page's ground.
    ends = (0.4, 1.0) if dark else (0.0, 0.85)
    colors = sample_colorscale("Cividis", [ends[0] + (ends[1] - ends[0]) * step / 8 for step in range(9)])
    figure = go.Figure(
        go.Parcoords(
            dimensions=dimensions,
            line={
                "color": kept[OUTCOMES["score"].title].tolist(),
                "colorscale": [[step / 8, color] for step, color in enumerate(colors)],
                "showscale": True,
                "colorbar": {
                    "title": {"text": "test score (%)", "side": "right", "font": {"size": 13}},
                    "thickness": 12,
                },
            },
            labelfont={"size": 12},
            tickfont={"size": 11},
            rangefont={"color": "rgba(0,0,0,0)"},  # the ticks say it
        )
    )
    left_out = [one.name for one in sweep.factors if one not in shown]
    best = kept[OUTCOMES["score"].title].idxmax()
    settings = ", ".join(f"{one.name} {value}" for one in shown if (value := kept.loc[best, one.name]) != ABSENT)
    caption = (
        f"{len(kept)} runs as lines through the settings in which they differ and what they came to, coloured by test "
        f"score. The best score, {kept[OUTCOMES['score'].title].max():.2f} %, has {settings}."
    )
    caption += f" Without an axis: {', '.join(left_out)}." if left_out else ""
    finish(figure, title="Settings, and what they come to", caption=caption, dark=dark, height=440)
    figure.update_layout(margin={"t": 90, "l": 76, "r": 40, "b": 24}, shapes=_axis_lines(len(dimensions), dark=dark))
    return FigureData(figure, table)


def _axis_lines(axes: int, *, dark: bool) -> list[dict[str, Any]]:
    """Lines where the axes stand: Plotly's own are black and can be seen on a light page only."""
    color = template(dark=dark)["layout"]["xaxis"]["linecolor"]
    at = [number / max(axes - 1, 1) for number in range(axes)]
    looks = {"type": "line", "xref": "paper", "yref": "paper", "layer": "below", "line": {"color": color, "width": 1}}
    return [{**looks, "x0": x, "x1": x, "y0": 0, "y1": 1} for x in at]


def draw_mattered(sweep: Sweep, *, dark: bool = False) -> FigureData:
    """Draw how much of the variance of score, total time and bytes lies between the values of each setting.

    Args:
        sweep: runs that have ended.
        dark: colours for a dark page.

    Raises:
        ValueError: if there are too few runs to tell, see `Sweep.mattered`.
    """
    import plotly.graph_objects as go

    table = sweep.mattered()
    known = table[table["share"].notna()]
    names = list(dict.fromkeys(known["setting"]))
    figure, height = go.Figure(), len(OUTCOMES) + 1
    place = {name: height * number for number, name in enumerate(names)}
    for row, outcome in enumerate(OUTCOMES.values()):
        here = known[known["outcome"] == outcome.word]
        if here.empty:
            continue
        color, shape = _LOOKS[outcome.word]
        at = [place[name] + row for name in here["setting"]]
        said = [f"{100 * share:.0f} %, {_p(p)}" for share, p in zip(here["share"], here["p"], strict=True)]
        figure.add_bar(
            y=at,
            x=(100 * here["share"]).tolist(),
            orientation="h",
            width=0.9,
            name=outcome.word,
            marker=hatched(OKABE_ITO[color], shape),
            customdata=list(zip(here["setting"], said, here["levels"], here["runs"], strict=True)),
            hovertemplate=f"%{{customdata[0]}}, {outcome.word}: %{{customdata[1]}}; %{{customdata[2]}} values in "
            "%{customdata[3]} runs<extra></extra>",
        )
        # In a column of their own numbers stand on no bar and on no mark.
        figure.add_scatter(
            y=at, x=[103] * len(at), text=said, mode="text", textposition="middle right", showlegend=False,
            hoverinfo="skip", textfont={"size": 12},
        )  # fmt: skip
    rows = {outcome.word: row for row, outcome in enumerate(OUTCOMES.values())}
    ends = [
        (100 * chance, place[name] + rows[outcome])
        for name, outcome, chance in zip(known["setting"], known["outcome"], known["chance"], strict=True)
    ]
    figure.add_scatter(
        y=[at for _, row in ends for at in (row - 0.5, row + 0.5, None)],
        x=[at for share, _ in ends for at in (share, share, None)],
        mode="lines",
        name="by chance alone",
        line={"color": "#e6e8ea" if dark else "#1f2328", "width": 2, "dash": "dot"},
        hovertemplate="settings that mean nothing: %{x:.0f} % on average<extra></extra>",
    )
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(
        title_text="share of the variance between runs (%)", range=[0, 140], tickvals=[0, 25, 50, 75, 100]
    )
    figure.update_yaxes(
        tickvals=[at + (len(OUTCOMES) - 1) / 2 for at in place.values()],
        ticktext=["<br>".join(textwrap.wrap(name, 18)) for name in names],
        range=[height * len(names) - 1, -1],
        showgrid=False,
    )
    finish(
        figure,
        title="Which setting mattered",
        caption=_told(known, table),
        dark=dark,
        height=190 + 84 * len(names),
    )
    return FigureData(figure, table.set_index("setting"))


def _axis(one: Differing, numbers: list[int]) -> dict[str, Any]:
    """An axis with a place for each level; every so many names where there are many."""
    every = -(-len(one.levels) // _TICKS)
    return {
        "label": textwrap.shorten(one.name, 14, placeholder=" …"),
        "values": [one.places[number] for number in numbers],
        "range": [-0.15, len(one.levels) - 0.85],
        "tickvals": list(range(len(one.levels)))[::every],
        "ticktext": [textwrap.shorten(words, 22, placeholder=" …") for words in one.words[::every]],
    }


def _share(one: Differing, sweep: Sweep) -> float:
    known = [number for number, score in enumerate(sweep.outcomes["score"]) if math.isfinite(score)]
    share = explained([one.places[number] for number in known], [sweep.outcomes["score"][number] for number in known])[
        0
    ]
    return 0.0 if math.isnan(share) else share


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _told(known: DataFrame, table: DataFrame) -> str:
    """The setting that explains most of each outcome, by which method, and what could not be told."""
    most = known.loc[known.groupby("outcome", sort=False)["share"].idxmax()]
    parts = "; ".join(
        f"of {row['outcome']} {row['setting']}, {100 * row['share']:.0f} % ({_p(row['p'])})"
        for _, row in most.iterrows()
    )
    along = {row["setting"]: row["along"] for _, row in known.iterrows() if row["along"]}
    own = list(dict.fromkeys(table[table["share"].isna()]["setting"]))
    gone = [outcome.word for outcome in OUTCOMES.values() if outcome.word not in set(table["outcome"])]
    sentences = [
        f"Which setting explains most of the variance between {known['runs'].max()} runs: {parts}.",
        "A share is the variance between the means of a setting's values over all of it (η², one-way analysis of "
        "variance; p from its F test, of each setting by itself). Settings that vary together share what they explain, "
        "so shares need not add up.",
        *(f"With {name} vary: {others}." for name, others in along.items()),
        f"Not told, since every run has a value of its own: {', '.join(own)}." if own else "",
        f"The same in all runs, or not known: {', '.join(gone)}." if gone else "",
    ]
    return " ".join(filter(None, sentences))
