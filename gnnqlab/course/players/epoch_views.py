"""Figures of an epoch: the graph with rows in transit, a timeline per worker with a cursor, and an animation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gnnqlab.course.players.epoch_words import TITLES, say_step
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lanes
from gnnqlab.lab.figures.graph_drawing import draw_partition
from gnnqlab.lab.figures.graph_places import neighbours, places_of
from gnnqlab.lab.figures.theme import ACTIVITY_NAMES, ACTIVITY_STYLES, OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from gnnqlab.course.players.epoch_walk import EpochStep, EpochWalk, Flight

__all__ = [
    "draw_epoch_step",
    "draw_film",
    "lane_axis",
    "lane_names",
    "lanes_below",
    "make_film",
    "changed_traces",
    "title_of",
]

_ASIDE = 0.11
"""Distance of a moving row from its edge, in units of the drawing; the opposite direction uses the other side."""
_GRAPH, _LANE, _ROOM = 300, 30, 190
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
        [changed_traces(walk, step, dark=dark) for step in walk.steps],
        [
            {"title": {"text": title_of(step)}, "meta": {"caption": text}}
            for step, text in zip(walk.steps, words, strict=True)
        ],
        words={f"{step.number + 1} · {step.name}": text for step, text in zip(walk.steps, words, strict=True)},
        labels=[str(step.number + 1) for step in walk.steps],
        step_ms=1200,
    )
    figure.update_layout(height=figure.layout.height + 60, margin={"b": 150}, legend={"y": -0.36})
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


def changed_traces(walk: EpochWalk, step: EpochStep, *, dark: bool = False) -> list[dict[str, Any]]:
    """Return the traces that change from step to step, as dictionaries: nodes that compute, moving rows, cursor."""
    places = places_of(walk.parts.graph)  # node -> position
    ink, lanes_of = "#e6e8ea" if dark else "#1f2328", lane_names(walk.parts.workers)
    ring = [places[node] for node in _active(walk, step)]  # nodes that compute in this step
    # (x, y) of every row in transit
    dots = [
        spot for flight, fraction in walk.messages_in_transit(step.cursor) for spot in _spots(walk, flight, fraction)
    ]
    # one label per row, "2b"
    labels = [f"{bits}b" for flight, _ in walk.messages_in_transit(step.cursor) for bits in flight.rows.bits]
    # Gradients are drawn as diamonds in another colour.
    backward_flags = [
        flight.rows.place.direction == "backward"
        for flight, _ in walk.messages_in_transit(step.cursor)
        for _ in flight.rows.nodes
    ]
    return [
        {
            "type": "scatter", "mode": "markers", "x": [x for x, _ in ring], "y": [y for _, y in ring],
            "marker": {"size": 42, "color": "rgba(0,0,0,0)", "line": {"width": 3, "color": ink}},
            "name": "computes now", "hoverinfo": "skip", "showlegend": False, "cliponaxis": False,
        },
        {
            "type": "scatter", "mode": "markers+text", "x": [x for x, _ in dots], "y": [y for _, y in dots],
            "text": labels, "textposition": "middle center", "textfont": {"size": 11, "color": "#000000"},
            "marker": {
                "size": 25, "symbol": ["diamond" if is_backward else "circle" for is_backward in backward_flags],
                "color": [OKABE_ITO["sky"] if not is_backward else "#f0e442" for is_backward in backward_flags],
                "line": {"width": 1.5, "color": ink},
            },
            "name": "row under way", "hoverinfo": "skip", "showlegend": False, "cliponaxis": False,
        },
        {
            "type": "scatter", "mode": "lines", "xaxis": "x2", "yaxis": "y2", "name": "now", "hoverinfo": "skip",
            "x": [step.cursor, step.cursor], "y": [lanes_of[0], lanes_of[-1]],  # vertical line across all lanes
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
    num_steps = len(walk.steps)
    # all workers take the same steps
    parts = [(part, rank) for rank in range(walk.parts.workers) for part in walk.steps]
    activities = pd.DataFrame({
        "what": [part.activity for part, _ in parts],
        "lane": [f"worker {rank}" for _, rank in parts],
        "start": [part.number for part, _ in parts],  # every step has length 1
        "end": [part.number + 1.0 for part, _ in parts],
        "said": [_took(part, rank) for part, rank in parts],
    })  # fmt: skip
    flights = pd.DataFrame({
        "lane": [f"to worker {flight.rows.receiver}" for flight in walk.flights],
        # sent in the epoch before: cut off at the left edge
        "start": [max(flight.start, 0.0) for flight in walk.flights],
        # arrives in the next epoch: cut off at the right edge
        "end": [min(flight.end, num_steps) for flight in walk.flights],
        "said": [f"{flight.rows.num_bytes} bytes" for flight in walk.flights],
    })  # fmt: skip
    figure.add_traces(lanes_below(activities, flights, ground="#14171a" if dark else "#ffffff", hover="%{customdata}"))
    figure.add_traces(changed_traces(walk, step, dark=dark))
    caption = say_step(walk, step)
    finish(figure, title=title_of(step), caption=caption, dark=dark, height=height)
    figure.update_layout(
        barmode="overlay",
        yaxis={"domain": [share + 0.06, 1.0]},
        xaxis2={"anchor": "y2", "range": [0, num_steps], "visible": False, "fixedrange": True},
        yaxis2=lane_axis(lines, share),
        legend={"traceorder": "normal", "y": -0.03, "yanchor": "top"},
        margin={"t": 46, "b": 80, "l": 84},
    )  # fmt: skip
    return figure


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
    return f": {part.milliseconds[rank]:.3g} ms here" if part.milliseconds else ""


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


def _spots(walk: EpochWalk, flight: Flight, fraction: float) -> list[tuple[float, float]]:
    """Return the positions of a message's rows, each next to an edge between its node and the other worker.

    Rows use different edges where possible, so that they do not overlap.
    """
    places, owner, rows = places_of(walk.parts.graph), walk.parts.owner.tolist(), flight.rows
    forward = rows.place.direction == "forward"
    other_rank = rows.receiver if forward else rows.sender
    used_nodes: list[int] = []
    spots = []
    for node in rows.nodes:
        candidates = [  # neighbours of the node on the other worker
            a + b - node
            for a, b in neighbours(walk.parts.graph)
            if node in (a, b) and owner[a + b - node] == other_rank
        ]
        neighbour = min(candidates, key=used_nodes.count)  # the least used of them
        used_nodes.append(neighbour)
        (x, y), (end_x, end_y) = (places[node], places[neighbour]) if forward else (places[neighbour], places[node])
        dx, dy = end_x - x, end_y - y
        shift = _ASIDE / (math.hypot(dx, dy) or 1.0)  # distance to the side, for an edge of any length
        # a fraction of the way, shifted to one side of the edge
        spots.append((x + fraction * dx - shift * dy, y + fraction * dy + shift * dx))
    return spots
