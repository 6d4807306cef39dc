"""Figures of a run's epoch: its graph with active nodes highlighted, messages in transit, timelines in milliseconds.

Only a few traces change between steps: the brightness of each kind of nodes, the positions of messages, the cursor.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gnnqlab.course.players.epoch_views import lane_axis, lane_names, lanes_below, make_film
from gnnqlab.course.players.run_walk import Moment, RunWalk, WalkMessage, place_words
from gnnqlab.course.players.run_words import run_title, say_message, say_run_step
from gnnqlab.graph.pictures import data_address, write_png
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.graph_map import draw
from gnnqlab.lab.figures.grid_places import LARGEST_WHOLE, Grid, neighbourhood, places_on_grid
from gnnqlab.lab.figures.theme import OKABE_ITO, finish
from gnnqlab.lab.figures.waiting import Dependencies, dependencies_of
from gnnqlab.units import human_bytes

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["RunDrawing", "Track"]

_MAP, _LANE, _ROOM = 440, 26, 180
"""Height in pixels of the graph, of each timeline, and of everything else."""
_VEIL = 0.72
"""Opacity of the veil over inactive nodes."""
_ONE_BY_ONE, _SMALL = 12, 120
"""Largest number of rows of a message, and of nodes in the drawing, for which each row has its own marker. Otherwise
the message is one marker whose size grows with its bytes."""
_NEAR, _ASIDE, _FURTHER = 0.16, 0.045, 0.075
"""In widths of the drawing: distance of two workers' centres below which all centres are placed on a ring; distance of
a message from the line between two centres; additional distance of each concurrent message of the same pair."""
_OUT, _IN = 0.16, 0.84
"""Start and end of a marker's way, as fractions of the line between two centres, which hold the workers' names."""
Kind = tuple[int, bool, bool]
"""Kind of nodes: owner, True if marginal, True if copied to other workers."""


@dataclass(frozen=True)
class Track:
    """Path of a message, or of one of its rows, across the drawing."""

    message: WalkMessage
    start: tuple[float, float]
    end: tuple[float, float]

    def position(self, progress: float) -> tuple[float, float]:
        """Return the position after a fraction of the path."""
        (x, y), (end_x, end_y) = self.start, self.end  # linear interpolation between both ends
        return x + progress * (end_x - x), y + progress * (end_y - y)


class RunDrawing:
    """Drawing shared by all steps of an epoch: layout, kinds of nodes and paths, computed once.

    Args:
        walk: the epoch.
        around: node of a large graph whose neighbourhood is drawn.

    Raises:
        ValueError: if the graph is too large to be drawn whole, or there is no such node.
    """

    def __init__(self, walk: RunWalk, *, around: int | None = None) -> None:
        graph = walk.parts.graph
        if around is None and graph.num_nodes > LARGEST_WHOLE:
            raise ValueError(
                f"a graph drawn as a whole must have at most {LARGEST_WHOLE:,} nodes, got {graph.num_nodes:,}; draw "
                "the neighbourhood of a node: gq.course.EpochPlayer(run, around=0)"
            )
        self.walk, self.around = walk, around
        nodes = None if around is None else neighbourhood(graph, around)
        self.grid: Grid = places_on_grid(graph, nodes)  # a grid with one cell per node
        self.found: Dependencies = dependencies_of(walk.parts, self.grid.nodes)
        self._still: dict[bool, Figure] = {}  # figures of the first step, light and dark

    @cached_property
    def kinds(self) -> dict[Kind, list[int]]:
        """Kind -> indices of its nodes in the grid."""
        kinds: dict[Kind, list[int]] = defaultdict(list)
        for number, (node, owner) in enumerate(self.found.owner.items()):
            # kind of node, from owner, neighbours and copies
            kinds[owner, not self.found.central[node], bool(self.found.copies.get(node))].append(number)
        return dict(sorted(kinds.items()))

    @cached_property
    def centres(self) -> list[tuple[float, float]]:
        """Position of each worker: the centre of its nodes, or a point on a ring if two centres are too close."""
        grid, workers = self.grid, self.walk.parts.workers
        owner = np.array(list(self.found.owner.values()))  # in the order of the grid's nodes
        # mean cell of each worker with drawn nodes
        middles = [grid.cells[owner == rank].mean(axis=0) for rank in range(workers) if (owner == rank).any()]
        distances = [
            math.dist(centre, other_centre) for index, centre in enumerate(middles) for other_centre in middles[:index]
        ]
        if len(middles) == workers and min(distances, default=math.inf) >= _NEAR * grid.columns:
            return [(float(x), float(y)) for x, y in middles]
        # half a turn first: worker 0 is on the left
        turns = [math.pi * (1 + 2 * rank / workers) for rank in range(workers)]
        x, y = (grid.columns - 1) / 2, (grid.lines - 1) / 2
        return [(x + 0.7 * x * math.cos(turn), y - 0.7 * y * math.sin(turn)) for turn in turns]

    @cached_property
    def tracks(self) -> tuple[Track, ...]:
        """Paths of all messages in transit in this epoch, in their order."""
        line_ends: dict[tuple[int, int], list[float]] = defaultdict(list)
        tracks: list[Track] = []
        for message in self.walk.messages:
            if message.end <= 0:  # received before this epoch
                continue
            # Concurrent messages of a pair use parallel lines: take the first line that is free again.
            ends = line_ends[message.sender, message.receiver]
            line = next((number for number, end in enumerate(ends) if end <= message.start), len(ends))
            ends[line : line + 1] = [message.end]  # occupied until its arrival
            tracks += self._tracks(message, line=line)
        return tuple(tracks)

    def highlighted_kinds(self, moment: Moment) -> set[Kind]:
        """Return the kinds of nodes that a worker processes at a moment."""
        highlights = set()
        for rank in range(self.walk.parts.workers):
            activity = self.walk.activity(rank, moment.middle)
            if activity is None or activity.kind == "wait":  # waiting workers highlight no nodes
                continue
            back = activity.place is not None and activity.place.direction == "backward"
            for kind in self.kinds:
                _, waits, copies = kind
                # Forward, copied nodes are sent and marginal nodes use what is received; backward, the reverse.
                is_chosen = {
                    "encode": waits if back else copies,
                    "post": waits if back else copies,
                    "decode": copies if back else waits,
                    "central": back or not waits,
                    "marginal": waits,
                }.get(activity.kind, True)
                if kind[0] == rank and is_chosen:
                    highlights.add(kind)
        return highlights

    def changed_traces(self, moment: Moment) -> list[dict[str, Any]]:
        """Return the changes of the last traces in a step: veils, positions of messages, cursor."""
        highlights, time = self.highlighted_kinds(moment), moment.middle
        # a veil of opacity 0 highlights its nodes
        veils = [{"opacity": 0.0 if kind in highlights else _VEIL} for kind in self.kinds]
        spots = [
            track.position(fraction) if (fraction := track.message.progress(time)) is not None else None
            for track in self.tracks
        ]  # None hides a marker
        xs = [None if spot is None else round(spot[0], 2) for spot in spots]
        ys = [None if spot is None else round(spot[1], 2) for spot in spots]
        return [*veils, {"x": xs, "y": ys}, {"x": [round(time, 4)] * 2}]

    def first_figure(self, *, dark: bool = False) -> Figure:
        """Return the figure of the first step; it is cached, so do not modify it."""
        if dark not in self._still:
            self._still[dark] = self._figure(dark)
        return self._still[dark]

    def step(self, moment: Moment, *, dark: bool = False, span: tuple[float, float] | None = None) -> FigureData:
        """Draw one step; ``span`` is the part of the epoch on the time axis, in milliseconds, by default all of it."""
        import plotly.graph_objects as go

        figure = go.Figure(self.first_figure(dark=dark))  # a copy: the cached figure must not change
        changes = self.changed_traces(moment)
        # The last traces are those that change, in this order.
        for trace, values in zip(figure.data[-len(changes) :], changes, strict=True):
            trace.update(values)
        words = say_run_step(self.walk, moment)
        figure.update_layout(title_text=run_title(self.walk, moment), meta={"caption": words})
        if span is not None:
            figure.update_layout(xaxis2_range=span)
        return FigureData(figure, self.walk.to_frame(moment))

    def film(self, *, dark: bool = False) -> FigureData:
        """Draw the epoch as an animated figure that needs no kernel, one frame per step."""
        import plotly.graph_objects as go

        figure, steps = go.Figure(self.first_figure(dark=dark)), self.walk.steps
        film = make_film(
            figure,
            [self.changed_traces(step) for step in steps],
            [{"title": {"text": run_title(self.walk, step)}} for step in steps],
            words={step.name: say_run_step(self.walk, step) for step in steps},
            labels=[f"{step.start:.1f}" for step in steps],
            step_ms=300,
            below=0.1,
        )
        figure.update_layout(height=figure.layout.height + 80, margin={"b": figure.layout.margin.b + 80})
        return film

    def _tracks(self, message: WalkMessage, *, line: int) -> Iterator[Track]:
        forward = message.place.direction == "forward"
        nodes = self._rows(message)  # paths of single rows, for few rows
        for row in nodes:
            yield Track(message, *(row if forward else row[::-1]))
        if nodes:
            return
        start, end = self.centres[message.sender], self.centres[message.receiver]
        dx, dy = end[0] - start[0], end[1] - start[1]
        # parallel lines of concurrent messages
        shift = (_ASIDE + _FURTHER * line) * self.grid.columns / (math.hypot(dx, dy) or 1.0)
        x, y = start[0] - shift * dy, start[1] + shift * dx
        # without the ends, where names are
        yield Track(message, *((x + share * dx, y + share * dy) for share in (_OUT, _IN)))

    def _rows(self, message: WalkMessage) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        """Return the cells of each row's node and of a node that needs it; empty unless all are drawn and few."""
        owner, holder = message.sender, message.receiver
        if message.place.direction == "backward":  # gradients go from holder to owner
            owner, holder = holder, owner
        are_many = message.num_rows > _ONE_BY_ONE or len(self.grid.nodes) > _SMALL
        if are_many or self.walk.parts.shards[0].cuts != "nodes":
            return []
        nodes = self.walk.parts.shards[holder].plan("forward").from_peer(owner).ids.tolist()  # rows in plan order
        waits: dict[int, list[int]] = defaultdict(list)
        for node, rows in self.found.rows.items():
            if self.found.owner[node] == holder:  # nodes of the holder that need a row of the owner
                for source in rows.get(owner, []):
                    waits[source].append(node)
        if len(nodes) != message.num_rows or any(node not in waits or node not in self._cell for node in nodes):
            return []
        used_nodes: list[int] = []
        cells = []
        for node in nodes:  # rows end at different nodes where possible, so that markers do not overlap
            target = min(waits[node], key=used_nodes.count)
            used_nodes.append(target)
            cells.append((self._cell[node], self._cell[target]))
        return cells

    @cached_property
    def _cell(self) -> dict[int, tuple[float, float]]:
        return {int(node): (float(x), float(y)) for node, (x, y) in zip(self.grid.nodes, self.grid.cells)}

    def _figure(self, dark: bool) -> Figure:
        import plotly.graph_objects as go

        walk, parts = self.walk, self.walk.parts
        ink, ground = ("#e6e8ea", "#14171a") if dark else ("#1f2328", "#ffffff")
        partition_figure = draw(parts, around=self.around, dark=dark).figure
        # without traces of edges
        figure = go.Figure(
            [trace for trace in partition_figure.data if trace.type != "scatter" or trace.x[0] is not None]
        )
        figure.update_traces(showlegend=False, selector={"type": "scatter"})
        colors = {trace.name: trace.marker.color for trace in partition_figure.data if trace.type == "scatter"}
        lines = lane_names(parts.workers)
        lanes = _LANE * len(lines)
        figure.add_traces(self._lanes(ground))
        for kind, numbers in self.kinds.items():
            figure.add_image(
                source=self._veil(numbers, ground), opacity=_VEIL, colormodel="rgba256", hoverinfo="skip",
                name="veil " + "-".join(str(int(part)) for part in kind),
            )  # fmt: skip
        self._add_marks(figure, ink)
        figure.add_scatter(
            x=[0.0, 0.0], y=[lines[0], lines[-1]], mode="lines", xaxis="x2", yaxis="y2", name="now",
            line={"width": 2, "color": ink}, hoverinfo="skip", showlegend=False, cliponaxis=False,
        )  # fmt: skip
        for rank, (x, y) in enumerate(self.centres):
            figure.add_annotation(
                x=x, y=y, text=f"worker {rank}", showarrow=False, bgcolor=ground, opacity=0.85, borderpad=3,
                font={"color": ink, "size": 12}, bordercolor=colors.get(f"worker {rank}", ink), borderwidth=2,
            )  # fmt: skip
        share = lanes / (_MAP + lanes + 50)  # share of the height with the timelines
        first_step = walk.steps[0]
        finish(
            figure, title=run_title(walk, first_step), caption=say_run_step(walk, first_step), dark=dark,
            height=_MAP + lanes + _ROOM,
        )  # fmt: skip
        figure.update_layout(
            barmode="overlay",
            xaxis={"visible": False, "range": [-0.5, self.grid.columns - 0.5], "constrain": "domain", "anchor": "y"},
            yaxis={
                "visible": False, "range": [self.grid.lines - 0.5, -0.5], "scaleanchor": "x", "scaleratio": 1,
                "constrain": "domain", "domain": [share + 0.04, 1.0],
            },
            xaxis2={
                "anchor": "y2", "range": [0, walk.milliseconds], "fixedrange": True,
                "title": {"text": "milliseconds", "font": {"size": 12}},
            },
            yaxis2=lane_axis(lines, share),
            legend={"traceorder": "normal", "yref": "container", "y": 0.0, "yanchor": "bottom"},
            margin={"t": 42, "b": 122, "l": 84, "r": 16},
        )  # fmt: skip
        return figure

    def _lanes(self, ground: str) -> list[Any]:
        import pandas as pd

        end = self.walk.milliseconds
        activities = [
            (
                activity.kind,
                f"worker {activity.rank}",
                activity.start,
                activity.end,
                f", {place_words(activity.place)}" if activity.place else "",
            )
            for activity in self.walk.activities
        ]
        flights = [
            # cut off at the edges of the epoch
            (f"to worker {message.receiver}", max(message.start, 0.0), min(message.end, end), f" {_describe(message)}")
            for message in self.walk.messages
            if message.end > 0
        ]
        columns = ["what", "lane", "start", "end", "said"]
        tables = (pd.DataFrame(activities, columns=columns), pd.DataFrame(flights, columns=columns[1:]))
        return lanes_below(
            *(table.round({"start": 4, "end": 4}) for table in tables), ground=ground,
            hover="%{x:.2f} ms from %{base:.2f} ms%{customdata}",
        )  # fmt: skip

    def _veil(self, numbers: list[int], ground: str) -> str:
        """Return an image of one pixel per cell that covers some nodes in the colour of the page."""
        sheet = np.zeros((self.grid.lines, self.grid.columns), np.uint8)  # 0: transparent, 1: colour of the page
        cells = self.grid.cells[numbers]
        sheet[cells[:, 1], cells[:, 0]] = 1
        red, green, blue = (int(ground[start : start + 2], 16) for start in (1, 3, 5))  # "#rrggbb"
        return data_address(write_png(sheet, [(0, 0, 0, 0), (red, green, blue, 255)]))

    def _add_marks(self, figure: Figure, ink: str) -> None:
        tracks = self.tracks
        # sizes are relative to the largest message
        max_bytes = max((track.message.num_bytes for track in tracks), default=1)
        messages = [track.message for track in tracks]
        row_flags = [bool(self._rows(message)) for message in messages]
        figure.add_scatter(
            x=[None] * len(tracks), y=[None] * len(tracks), mode="markers+text",
            text=[_label(message, is_single) for message, is_single in zip(messages, row_flags)],
            textposition="middle center", textfont={"size": 11, "color": "#000000"},
            customdata=[_describe(message) for message in messages],
            hovertemplate="%{customdata}<extra></extra>",
            marker={
                "size": [
                    20 if is_single else 26 + round(20 * math.sqrt(message.num_bytes / max_bytes))
                    for message, is_single in zip(messages, row_flags)
                ],
                "symbol": ["circle" if message.place.direction == "forward" else "diamond" for message in messages],
                "color": [OKABE_ITO["sky"] if m.place.direction == "forward" else "#f0e442" for m in messages],
                "line": {"width": 1.5, "color": ink}, "opacity": 1,
            },
            name="messages", showlegend=False, cliponaxis=False,
        )  # fmt: skip


def _describe(message: WalkMessage) -> str:
    return f"{say_message(message)}, {human_bytes(message.num_bytes)}"


def _label(message: WalkMessage, is_single: bool) -> str:
    widths = [bits for bits, _ in message.rows]
    bits = f"{widths[0]}b" if len(widths) == 1 else f"{widths[0]}–{widths[-1]}b"
    return bits if is_single else f"{message.num_rows:,}<br>{bits}"
