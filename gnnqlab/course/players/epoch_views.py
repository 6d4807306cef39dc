"""Figures of an epoch: the graph with rows in transit, a timeline per worker with a cursor, and an animation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gnnqlab.course.players.epoch_walk import WAYS, EpochStep, EpochWalk, Flight
from gnnqlab.course.players.epoch_words import TITLES, compare_length, say_step
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lanes
from gnnqlab.lab.figures.graph_drawing import draw_partition
from gnnqlab.lab.figures.graph_places import neighbours, places_of
from gnnqlab.lab.figures.theme import ACTIVITY_NAMES, ACTIVITY_STYLES, OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = [
    "draw_epoch_step",
    "draw_film",
    "lane_axis",
    "lane_names",
    "lanes_below",
    "make_film",
    "changed_traces",
    "row_marks",
    "row_ways",
    "title_of",
]

_OUT, _IN = 0.12, 0.88
"""Start and end of a row's way as fractions of its edge, whose ends hold the names of nodes."""
_ASIDE = 0.11
"""Distance of a moving row from its edge, in units of the drawing; the opposite direction uses the other side."""
_GRAPH, _LANE, _ROOM = 280, 28, 210
"""Height in pixels of the graph, of each timeline, and of everything else."""


def draw_epoch_step(walk: EpochWalk, step: EpochStep, *, dark: bool = False) -> FigureData:
    """Draw one step: positions of rows, nodes that compute, and the progress of each worker.

    Args:
        walk: the epoch.
        step: one of its steps.
        dark: colours for a dark page.

    Raises:
        ValueError: if the graph is too large to be drawn.
    """
    return FigureData(_figure(walk, step, dark=dark), walk.to_frame(step))


def draw_film(walk: EpochWalk, *, dark: bool = False) -> FigureData:
    """Draw the whole epoch as an animated figure: one frame per step, with Plotly's button and slider.

    It needs no kernel. The description of each step is in ``layout.meta`` of its frame.
    """
    figure, words = _figure(walk, walk.steps[0], dark=dark), [say_step(walk, step) for step in walk.steps]
    film = make_film(
        figure,
        [changed_traces(walk, step) for step in walk.steps],
        [
            {"title": {"text": title_of(step)}, "meta": {"caption": text}}
            for step, text in zip(walk.steps, words, strict=True)
        ],
        words={f"{step.number + 1} · {step.name}": text for step, text in zip(walk.steps, words, strict=True)},
        labels=[str(step.number + 1) for step in walk.steps],
        step_ms=1200,
        below=0.16,
    )
    figure.update_layout(height=figure.layout.height + 80, margin={"b": figure.layout.margin.b + 80})
    return film


def make_film(
    figure: Figure,
    moved: Sequence[Sequence[dict[str, Any]]],
    layouts: Sequence[dict[str, Any]],
    *,
    words: Mapping[str, str],
    labels: Sequence[str],
    step_ms: int,
    below: float = 0.13,
) -> FigureData:
    """Add to a figure one frame per step, a button that plays them, and a slider.

    Args:
        figure: figure of the first step.
        moved: for each step, the changes of the last traces.
        layouts: for each step, the changes of the layout.
        words: step -> its description.
        labels: labels of the slider's ticks.
        step_ms: milliseconds per frame.
        below: distance of button and slider below the plot, in heights of the plot.

    Returns:
        The figure, and a table of the words.
    """
    import pandas as pd
    import plotly.graph_objects as go

    # the last traces change; all before them stay
    last_traces = list(range(len(figure.data) - len(moved[0]), len(figure.data)))
    kinds = [figure.data[number].type for number in last_traces]
    figure.frames = [
        go.Frame(
            name=str(number),
            data=[{"type": kind, **values} for kind, values in zip(kinds, changes, strict=True)],
            traces=last_traces,
            layout=layout,
        )
        for number, (changes, layout) in enumerate(zip(moved, layouts, strict=True))
    ]
    _add_play(figure, labels, step_ms=step_ms, distance=below)
    index = pd.Index(list(words), name="step")
    return FigureData(figure, pd.DataFrame({"what happens": list(words.values())}, index=index))


def _add_play(figure: Figure, labels: Sequence[str], *, step_ms: int, distance: float) -> None:
    """Add a play button and a slider below a figure whose frames are named by numbers from 0."""
    # redraw: bars and annotations change as well
    plays = {"frame": {"duration": step_ms, "redraw": True}, "transition": {"duration": 0}}
    jump = {"frame": {"duration": 0, "redraw": True}, "mode": "immediate", "transition": {"duration": 0}}
    marks = [
        {"label": label, "method": "animate", "args": [[str(number)], jump]} for number, label in enumerate(labels)
    ]
    buttons = [
        {"label": "▶", "method": "animate", "args": [None, {**plays, "fromcurrent": True}]},
        {"label": "❚❚", "method": "animate", "args": [[None], jump]},  # [None] stops an animation
    ]
    menu = {"type": "buttons", "direction": "left", "x": 0, "y": -distance - 0.03, "xanchor": "left", "yanchor": "top"}
    slider = {"x": 0.14, "len": 0.86, "y": -distance, "yanchor": "top", "currentvalue": {"visible": False}}
    figure.update_layout(
        updatemenus=[{**menu, "buttons": buttons, "showactive": False}],
        sliders=[{**slider, "steps": marks, "pad": {"t": 0, "b": 0}}],
    )


def changed_traces(walk: EpochWalk, step: EpochStep) -> list[dict[str, Any]]:
    """Return the changes of the last traces in a step: nodes that compute, positions of rows, cursor.

    A row that is not in transit has the position ``None``.
    """
    places = places_of(walk.parts.graph)  # node -> position
    ring = [places[node] for node in _active(walk, step)]  # nodes that compute in this step
    spots: list[tuple[float, float] | tuple[None, None]] = []
    for flight, ways in zip(walk.flights, row_ways(walk), strict=True):
        fraction = flight.progress(step.cursor)
        spots += [
            (None, None) if fraction is None else (x + fraction * (to_x - x), y + fraction * (to_y - y))
            for (x, y), (to_x, to_y) in ways
        ]
    rounded = [[None if value is None else round(value, 3) for value in spot] for spot in spots]
    return [
        {"x": [x for x, _ in ring], "y": [y for _, y in ring]},
        {"x": [x for x, _ in rounded], "y": [y for _, y in rounded]},
        {"x": [round(step.cursor, 3)] * 2},
    ]


def row_marks(walk: EpochWalk) -> list[tuple[str, bool]]:
    """Return for every row of every message its label, ``2b``, and True if it holds gradients."""
    return [
        (f"{bits}b", flight.rows.place.direction == "backward") for flight in walk.flights for bits in flight.rows.bits
    ]


@lru_cache(maxsize=8)  # each step of a walk shows the same ways
def row_ways(walk: EpochWalk) -> list[list[tuple[tuple[float, float], tuple[float, float]]]]:
    """Return for every message the ways of its rows across the drawing: first and last position."""
    edges = neighbours(walk.parts.graph)
    return [_ways(walk, flight, edges) for flight in walk.flights]


def _moving_traces(walk: EpochWalk, step: EpochStep, ink: str) -> list[dict[str, Any]]:
    """Return the traces that change from step to step, in one step."""
    marks, lanes_of = row_marks(walk), lane_names(walk.parts.workers)
    ring, rows, cursor = changed_traces(walk, step)
    return [
        {
            "type": "scatter", "mode": "markers", **ring, "name": "computes now",
            "marker": {"size": 42, "color": "rgba(0,0,0,0)", "line": {"width": 3, "color": ink}},
            "hoverinfo": "skip", "showlegend": False, "cliponaxis": False,
        },
        {
            "type": "scatter", "mode": "markers+text", **rows, "name": "row under way",
            "text": [label for label, _ in marks], "textposition": "middle center",
            "textfont": {"size": 11, "color": "#000000"},
            "marker": {
                # Gradients are diamonds in another colour.
                "size": 25, "symbol": ["diamond" if is_backward else "circle" for _, is_backward in marks],
                "color": ["#f0e442" if is_backward else OKABE_ITO["sky"] for _, is_backward in marks],
                "line": {"width": 1.5, "color": ink},
            },
            "hoverinfo": "skip", "showlegend": False, "cliponaxis": False,
        },
        {
            "type": "scatter", "mode": "lines", "xaxis": "x2", "yaxis": "y2", "name": "now", "hoverinfo": "skip",
            **cursor, "y": [lanes_of[0], lanes_of[-1]],  # vertical line across all lanes
            "line": {"width": 3, "color": ink}, "showlegend": False, "cliponaxis": False,
        },
    ]  # fmt: skip


def _figure(walk: EpochWalk, step: EpochStep, *, dark: bool) -> Figure:
    import pandas as pd

    figure = draw_partition(walk.parts, dark=dark).figure
    figure.update_traces(showlegend=False)
    lines = lane_names(walk.parts.workers)
    height = _GRAPH + _LANE * len(lines) + _ROOM
    plot = _GRAPH + _LANE * len(lines) + 40  # height of graph and timelines in pixels
    share = (_LANE * len(lines)) / plot  # the part of the height with the timelines
    # all workers take the same steps
    parts = [(part, rank) for rank in range(walk.parts.workers) for part in walk.steps]
    activities = pd.DataFrame({
        "what": [part.activity for part, _ in parts],
        "lane": [f"worker {rank}" for _, rank in parts],
        "start": [part.start for part, _ in parts],
        "end": [part.start + part.modelled_us[rank] for part, rank in parts],  # each worker's own end
        "said": [_took(part, rank) for part, rank in parts],
    })  # fmt: skip
    flights = pd.DataFrame({
        "lane": [f"to worker {flight.rows.receiver}" for flight in walk.flights],
        # sent in the epoch before: cut off at the left edge
        "start": [max(flight.start, 0.0) for flight in walk.flights],
        # arrives in the next epoch: cut off at the right edge
        "end": [min(flight.end, walk.length) for flight in walk.flights],
        "said": [f", {flight.rows.num_bytes} bytes" for flight in walk.flights],
    })  # fmt: skip
    flights = flights[flights["end"] > 0]  # without messages that arrived before the epoch
    ink, ground = ("#e6e8ea", "#14171a") if dark else ("#1f2328", "#ffffff")
    hover = "%{x:.0f} µs from %{base:.0f} µs%{customdata}"
    figure.add_traces(lanes_below(activities, flights, ground=ground, hover=hover))
    _add_ends(figure, walk, ink)
    figure.add_traces(_moving_traces(walk, step, ink))
    caption = say_step(walk, step)
    finish(figure, title=title_of(step), caption=caption, dark=dark, height=height)
    figure.update_layout(
        barmode="overlay",
        yaxis={"domain": [share + 0.06, 1.0]},
        xaxis2={
            "anchor": "y2", "range": [0, walk.axis_end], "fixedrange": True, "showgrid": False,
            "title": {"text": "modelled microseconds", "font": {"size": 12}},
        },
        yaxis2=lane_axis(lines, share),
        legend={"traceorder": "normal", "yref": "container", "y": 0.0, "yanchor": "bottom"},
        margin={"t": 46, "b": 112, "l": 92},
    )  # fmt: skip
    return figure


def _add_ends(figure: Figure, walk: EpochWalk, ink: str) -> None:
    """Mark the end of the epoch and, as a dashed line, that of Vanilla's."""
    if walk.vanilla is None or walk.way == "vanilla":
        ends = [(walk.length, "solid", f"{WAYS[walk.way].label}: {walk.length:.0f} µs")]
    else:
        own = f"{WAYS[walk.way].label}: {walk.length:.0f} µs, {compare_length(walk)}"
        ends = [(walk.length, "solid", own), (walk.vanilla.length, "dash", f"Vanilla: {walk.vanilla.length:.0f} µs")]
    for row, (end, dash, text) in enumerate(ends):
        line = {"width": 1.5, "color": ink, "dash": dash}
        figure.add_shape(type="line", x0=end, x1=end, y0=0, y1=1, xref="x2", yref="y2 domain", line=line)
        figure.add_annotation(
            x=end, y=1, xref="x2", yref="y2 domain", text=text, showarrow=False, xanchor="right", yanchor="bottom",
            yshift=2 + 16 * row, font={"size": 12, "color": ink},
        )  # fmt: skip


def lanes_below(activities: DataFrame, flights: DataFrame, *, ground: str, hover: str) -> list[Any]:
    """Return bars of the workers' activities and of messages in transit, on the second axes of a figure.

    Args:
        activities: ``what``, ``lane``, ``start``, ``end`` and the hover text ``said`` of each activity.
        flights: the same columns for messages, without ``what``.
        ground: colour between bars.
        hover: Plotly's hover template.
    """
    spans: dict[str, Any] = {
        "lane": "lane",
        "start": "start",
        "end": "end",
        "by": "what",
        "details": "said",
        "hover": hover,
    }
    figure = lanes(activities, names=ACTIVITY_NAMES, styles=ACTIVITY_STYLES, **spans)
    figure.update_traces(marker_line={"width": 0.4, "color": ground})
    lanes(flights.assign(what="bytes under way"), styles=["grey"], width=0.4, opacity=0.6, figure=figure, **spans)
    return list(figure.update_traces(xaxis="x2", yaxis="y2").data)  # second axes of the figure


def lane_names(workers: int) -> list[str]:
    """Return the names of two lanes per worker: its activities, and the messages to it."""
    return [line for rank in range(workers) for line in (f"worker {rank}", f"to worker {rank}")]


def lane_axis(lines: Sequence[str], share: float) -> dict[str, Any]:
    """Return the second y axis, with the names of the lanes in the lowest ``share`` of the figure's height."""
    return {
        "anchor": "x2", "domain": [0.0, share], "categoryorder": "array", "categoryarray": list(lines),
        "autorange": "reversed", "showgrid": False, "fixedrange": True,
    }  # fmt: skip


def title_of(step: EpochStep) -> str:
    """Return a step's number and title."""
    place_text = "" if step.place is None else f" · layer {step.place.layer + 1}, {step.place.direction}"
    return f"{step.number + 1} · {TITLES[step.activity]}{place_text}"


def _took(part: EpochStep, rank: int) -> str:
    return f"; measured here {part.milliseconds[rank]:.3g} ms" if part.milliseconds else ""


def _active(walk: EpochWalk, step: EpochStep) -> list[int]:
    """Return the nodes that compute in a step."""
    workers = range(walk.parts.workers)
    # Backward, "central" computes the gradients of all owned rows, "marginal" those of the halo rows to be sent back.
    if step.activity in ("central", "marginal") and step.place is not None and step.place.direction == "forward":
        return [node for rank in workers for node in walk.nodes(rank, step.activity)]
    if step.activity in ("central", "update", "reduce"):
        return list(range(walk.parts.graph.num_nodes))  # all nodes: gradients of own rows, or weights
    if step.activity == "marginal":
        # halo copies, whose gradients are sent back
        return sorted({node for rank in workers for node in walk.nodes(rank, "halo")})
    if step.activity == "loss":
        return sorted(walk.parts.graph.train_mask.nonzero().flatten().tolist())
    return []


def _ways(
    walk: EpochWalk, flight: Flight, edges: list[tuple[int, int]]
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Return the first and last positions of a message's rows, each next to an edge to the other worker.

    Rows use different edges where possible, so that they do not overlap.
    """
    places, owner, rows = places_of(walk.parts.graph), walk.parts.owner.tolist(), flight.rows
    forward = rows.place.direction == "forward"
    other_rank = rows.receiver if forward else rows.sender
    used_nodes: list[int] = []
    ways = []
    for node in rows.nodes:
        # neighbours of the node on the other worker
        candidates = [a + b - node for a, b in edges if node in (a, b) and owner[a + b - node] == other_rank]
        neighbour = min(candidates, key=used_nodes.count)  # the least used of them
        used_nodes.append(neighbour)
        (x, y), (end_x, end_y) = (places[node], places[neighbour]) if forward else (places[neighbour], places[node])
        dx, dy = end_x - x, end_y - y
        shift = _ASIDE / (math.hypot(dx, dy) or 1.0)  # distance to the side, for an edge of any length
        x, y = x - shift * dy, y + shift * dx  # shifted to one side of the edge
        ways.append(((x + _OUT * dx, y + _OUT * dy), (x + _IN * dx, y + _IN * dy)))
    return ways
