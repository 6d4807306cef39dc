"""Stepped player of an epoch: play, pause, go step by step, and switch to another way of training.

``EpochModel`` is the state of a player for an epoch trained on the spot, ``RunModel`` for an epoch of a launched run;
``EpochPlayer`` adds controls and figures.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.course.players.epoch_page import page_way, write_page
from gnnqlab.course.players.epoch_views import changed_traces, draw_epoch_step, draw_film, row_ways, title_of
from gnnqlab.course.players.epoch_walk import WAYS, EpochWalk
from gnnqlab.course.players.epoch_words import say_step
from gnnqlab.course.players.run_views import RunDrawing
from gnnqlab.course.players.run_walk import Moment, RunWalk
from gnnqlab.course.players.run_words import run_title, say_run_step
from gnnqlab.course.players.stepped import Player, StepControls, Stepped
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.controls import LABEL_LEFT

if TYPE_CHECKING:
    from gnnqlab.partition.parts import Parts
    from gnnqlab.run.run import Run

__all__ = ["EpochModel", "EpochPlayer", "RunModel"]


class EpochModel(Stepped):
    """State of the player: way of training and step; a way is trained on first use.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> model = EpochModel(partition(course.ten_nodes(), course.Halves(), workers=2), epochs=1)
        >>> model.step, model.next_step(), model.step
        ('start', True, 'encode, layer 1 forward')
    """

    order, step_ms = "an epoch happens", 1200

    def __init__(self, parts: Parts, *, way: str = "vanilla", **settings: Any) -> None:
        self._parts, self._settings = parts, settings
        self._walks: dict[str, EpochWalk] = {}  # trained ways
        self.way = way
        """One of ``WAYS``."""
        super().__init__([step.name for step in self.walk.steps])

    @property
    def walk(self) -> EpochWalk:
        """Epoch in the way shown."""
        return self.walk_of(self.way)

    def walk_of(self, way: str) -> EpochWalk:
        """Return the epoch in a way; trained on the first call.

        Raises:
            ValueError: if there is no such way.
        """
        # Training takes a moment, so each way is trained once, when it is first shown.
        if way not in self._walks:
            walk = EpochWalk.from_partition(self._parts, way, **self._settings)
            # every way is compared with Vanilla, which is trained with the first of them
            self._walks[way] = walk if way == "vanilla" else replace(walk, vanilla=self.walk_of("vanilla"))
        return self._walks[way]

    def change(self, way: str) -> None:
        """Switch to another way, at the same step number.

        Raises:
            ValueError: if there is no such way.
        """
        walk = self.walk_of(way)
        number = self.number  # the number is kept, because names differ between ways
        self.way, self.steps = way, tuple(step.name for step in walk.steps)
        self.go(min(number, len(self.steps)))  # another way may have fewer steps

    def say(self) -> str:
        """Describe the step in words."""
        return say_step(self.walk, self.walk.steps[self.number - 1])

    def bundle(self, *, dark: bool = False) -> FigureData:
        """Draw the step, with its numbers as a table."""
        return draw_epoch_step(self.walk, self.walk.steps[self.number - 1], dark=dark)

    def bundle_of(self, name: str) -> FigureData:
        """Draw a step by its name."""
        return draw_epoch_step(self.walk, self.walk.steps[self.steps.index(name)])

    def film(self, *, dark: bool = False) -> FigureData:
        """Draw the epoch as an animated figure that needs no kernel."""
        return draw_film(self.walk, dark=dark)

    def write(self, path: str | Path) -> Path:
        """Write a page that plays the epoch in every way."""
        ways = {way: _page_way(self.walk_of(way)) for way in WAYS}  # trains the ways that were not shown
        return write_page(ways, path, first=self.way, labels={name: way.label for name, way in WAYS.items()})

    def __repr__(self) -> str:
        walk = self.walk
        return (
            f"{walk.parts.graph.num_nodes} nodes on {walk.parts.workers} workers, {walk.way}, "
            f"{len(walk.steps)} steps, {walk.num_bytes} bytes of rows"
        )


def _page_way(walk: EpochWalk) -> dict[str, Any]:
    way = page_way(
        words=[say_step(walk, step) for step in walk.steps],
        titles=[title_of(step) for step in walk.steps],
        first_figure=lambda dark: draw_epoch_step(walk, walk.steps[0], dark=dark).figure,
        changes=lambda dark: [changed_traces(walk, step) for step in walk.steps],
    )
    way["times"] = [[round(step.start, 2), round(step.end, 2)] for step in walk.steps]  # microseconds
    way["tracks"] = [
        [round(each, 3) for each in (flight.start, flight.end, *start, *end)]
        for flight, ways in zip(walk.flights, row_ways(walk), strict=True)
        for start, end in ways
    ]
    way["span"] = round(walk.axis_end, 2)  # the time axis, so that all ways play at the same pace
    return way


class RunModel(Stepped):
    """State of the player of a recorded epoch: the step shown, and the part of the epoch on the time axis.

    Args:
        run: a run with a timeline.
        epoch: a recorded epoch; by default the one of median length.
        around: node of a large graph whose neighbourhood is drawn.

    Raises:
        ValueError: if nothing or not that epoch was recorded, the partition is not found, or the graph is too large.
    """

    order, step_ms = "workers act", 400

    def __init__(self, run: Run, *, epoch: int | None = None, around: int | None = None) -> None:
        self.walk = RunWalk.from_run(run, epoch)
        """Recorded epoch."""
        self._drawing = RunDrawing(self.walk, around=around)
        self.span = (0.0, self.walk.milliseconds)
        """Start and end of the time axis in milliseconds; it follows the step."""
        super().__init__([step.name for step in self.walk.steps])

    def go(self, number: int) -> None:
        super().go(number)
        (start, end), time = self.span, self._moment.middle
        if not start <= time <= end:
            length = end - start
            start = min(max(time - length / 10, 0.0), self.walk.milliseconds - length)  # most of it after the step
            self.span = (start, start + length)

    def say(self) -> str:
        """Describe the step in words."""
        return say_run_step(self.walk, self._moment)

    def bundle(self, *, dark: bool = False) -> FigureData:
        """Draw the step, with its numbers as a table."""
        return self._drawing.step(self._moment, dark=dark, span=self.span)

    def bundle_of(self, name: str) -> FigureData:
        """Draw a step by its name."""
        return self._drawing.step(self._named[name])

    def film(self, *, dark: bool = False) -> FigureData:
        """Draw the epoch as an animated figure that needs no kernel."""
        return self._drawing.film(dark=dark)

    def write(self, path: str | Path) -> Path:
        """Write a page that plays the epoch in its own time, slowed down."""
        walk, steps, drawing = self.walk, self.walk.steps, self._drawing  # the page needs no further data of the run
        way = page_way(
            words=[say_run_step(walk, step) for step in steps],
            titles=[run_title(walk, step) for step in steps],
            first_figure=lambda dark: drawing.first_figure(dark=dark),
            changes=lambda dark: [drawing.changed_traces(step) for step in steps],
        )
        way["times"] = [[round(step.start, 4), round(step.end, 4)] for step in steps]  # milliseconds, to 0.1 µs
        way["tracks"] = [
            # times and positions of start and end
            [round(each, 4) for each in (track.message.start, track.message.end, *track.start, *track.end)]
            for track in drawing.tracks
        ]
        title = f"Epoch {walk.epoch} of {walk.name}: {walk.system} on {walk.parts.workers} workers"
        return write_page({"run": way}, path, first="run", title=title, unit="ms")

    def __repr__(self) -> str:
        walk = self.walk
        return (
            f"{walk.name}, {walk.system} on {walk.parts.workers} workers, epoch {walk.epoch} of "
            f"{walk.milliseconds:.1f} ms, {len(walk.steps)} steps, {walk.num_bytes} bytes of rows"
        )

    @cached_property
    def _named(self) -> dict[str, Moment]:
        return dict(zip(self.steps, self.walk.steps, strict=True))

    @property
    def _moment(self) -> Moment:
        return self.walk.steps[self.number - 1]


class _EpochControls(StepControls):
    def __init__(self, model: EpochModel | RunModel) -> None:
        super().__init__(model, order=model.order, play_ms=model.step_ms)
        import ipywidgets as widgets

        self.model = model
        if not isinstance(model, EpochModel):  # a recorded run has one way only
            end = model.walk.milliseconds
            self.span = widgets.FloatRangeSlider(
                value=model.span,
                min=0.0,
                max=end,
                step=end / 500,
                description="Shown (ms)",
                readout_format=".1f",
                continuous_update=False,
                tooltip=f"0 to {end:.1f}, the part of the epoch on the time axis: move an end, or all of it",
                layout={"width": "min(560px, 100%)"},
                style={"description_width": "80px"},
            )
            self._last_span = self.span.value
            self.lay_out(self.span, follows=[self.span])
            return
        self.way = widgets.ToggleButtons(
            options=[(way.label, name) for name, way in WAYS.items()],
            value=model.way,
            description="Way",
            tooltips=[way.about for way in WAYS.values()],
            layout=LABEL_LEFT,
            style={"button_width": "96px", "description_width": "40px"},
        )
        self.lay_out(self.way, follows=[self.way])

    def apply(self) -> None:
        if isinstance(self.model, EpochModel):
            self.model.change(self.way.value)
            return
        if self.span.value != self._last_span:  # moved by the user, else by a step outside of it
            self.model.span = self.span.value
        self._last_span = self.span.value = self.model.span


class EpochPlayer(Player):
    """Interactive player of one training epoch: messages between workers, and the computation of each worker.

    With a launched run it plays a recorded epoch: the partitioned graph with active nodes highlighted, one marker per
    message with its rows and bits, and timelines in milliseconds. In a step, no worker changes its activity. The record
    has the duration of the gradient all-reduce, not its start: it is drawn after the last exchange. Workers on several
    machines have separate clocks. The time axis zooms and moves: by a slider in a notebook, by buttons, keys, wheel and
    touch on an exported page.

    With a partition of a small graph it trains a few epochs now, in this process, with the code of launched runs, in
    one of several ways, and plays the last of them. Steps of ten nodes take microseconds that measure Python, so the
    timelines have modelled times: counted work at a fixed rate, bytes on a link of 1 MB/s (``epoch_times.py``). All
    ways share the axis, on which a dashed line marks the end of Vanilla's epoch.

    At the end of a notebook cell it shows the player; without a kernel, an animated figure.

    Args:
        run_or_parts: a run, or a partition of a graph small enough to be drawn edge by edge.
        way: for a partition: ``vanilla``, ``two bits``, ``overlapped``, ``stale`` or ``cached``.
        epoch: for a run: a recorded epoch; by default the one of median length.
        around: for a run: node whose neighbourhood is drawn if the graph has more than 2,000 nodes.
        **settings: for a partition: ``model``, ``hidden``, ``layers``, ``epochs`` and ``seed`` of the training.

    Raises:
        TypeError: if the first argument is neither a run nor a partition.
        ValueError: if there is no such way, the graph is too large, it has no cut edge, the run has not recorded the
            epoch, its partition is not found, or it sent whole blocks.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> EpochPlayer(partition(course.ten_nodes(), course.Halves(), workers=2), epochs=1)
        EpochPlayer(10 nodes on 2 workers, vanilla, 28 steps, 320 bytes of rows)
    """

    controls = _EpochControls

    def __init__(
        self,
        run_or_parts: Run | Parts,
        *,
        way: str | None = None,
        epoch: int | None = None,
        around: int | None = None,
        **settings: Any,
    ) -> None:
        source: Any = run_or_parts
        self.model: EpochModel | RunModel
        if hasattr(source, "timeline"):  # duck-typed, so that runs and partitions need not be imported
            extra = sorted({*settings, *(["way"] if way is not None else [])})
            if extra:
                raise ValueError(
                    f"a run is played as it was trained, got {', '.join(extra)}; leave it out, or use "
                    "gq.course.EpochPlayer(run.parts()) if the graph is small"
                )
            self.model = RunModel(source, epoch=epoch, around=around)
        elif hasattr(source, "shards"):
            if epoch is not None or around is not None:
                raise ValueError("epoch= and around= need a run, got a partition; pass a run or leave them out")
            self.model = EpochModel(source, way=way or "vanilla", **settings)
        else:
            raise TypeError(
                f"EpochPlayer needs a run or a partition, got {source!r}; pass "
                "gq.launch(graph, timeline_every=5) or gq.partition(graph, workers=2)"
            )

    def __getitem__(self, step: str) -> FigureData:
        """Draw one step: ``player["loss"]``."""
        if step not in self.model.steps:
            raise KeyError(f"a step must be one of {', '.join(self.model.steps)}, got {step!r}")
        return super().__getitem__(step)

    def film(self, *, dark: bool = False) -> FigureData:
        """Draw the epoch as an animated figure that needs no kernel."""
        return self.model.film(dark=dark)

    def export(self, path: str | Path) -> Path:
        """Write a page that plays the epoch without a kernel or a network, by mouse or keyboard.

        For a partition the page has every way; for a run it plays in the run's own time, slowed down.

        Args:
            path: the file to write, ``.html``.

        Returns:
            The written path.

        Raises:
            ValueError: if the file name does not end in ``.html`` or ``.htm``.
        """
        return self.model.write(path)

    def __repr__(self) -> str:
        return f"EpochPlayer({self.model!r})"

    def whole(self) -> FigureData:
        """Draw the epoch as an animated figure that needs no kernel."""
        return self.film()
