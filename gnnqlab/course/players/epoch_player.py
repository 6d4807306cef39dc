"""The stepped player of an epoch: play it, stop it, go step by step, and switch to another way to train it.

``EpochModel`` is the player of a trained epoch without a screen, ``RunModel`` that of a launched run; ``EpochPlayer``
puts controls and figures round either.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.course.players.epoch_page import page_way, write_page
from gnnqlab.course.players.epoch_views import draw_epoch_step, draw_film, moving, title_of
from gnnqlab.course.players.epoch_walk import WAYS, EpochWalk
from gnnqlab.course.players.epoch_words import say_step
from gnnqlab.course.players.run_views import RunDrawing
from gnnqlab.course.players.run_walk import Moment, RunWalk
from gnnqlab.course.players.run_words import run_title, say_run_step
from gnnqlab.course.players.stepped import Player, StepControls, Stepped
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.controls import BESIDE

if TYPE_CHECKING:
    from gnnqlab.partition.parts import Parts
    from gnnqlab.run.run import Run

__all__ = ["EpochModel", "EpochPlayer", "RunModel"]


class EpochModel(Stepped):
    """Which way to train and which step are shown; a way is trained when it is first asked for.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> model = EpochModel(partition(course.ten_nodes(), course.Halves(), workers=2), epochs=1)
        >>> model.step, model.forward(), model.step
        ('start', True, 'encode, layer 1 forward')
    """

    order, step_ms = "an epoch happens", 1200

    def __init__(self, parts: Parts, *, way: str = "vanilla", **settings: Any) -> None:
        self._parts, self._settings = parts, settings
        self._walks: dict[str, EpochWalk] = {}
        self.way = way
        """One of ``WAYS``."""
        super().__init__([step.name for step in self.walk.steps])

    @property
    def walk(self) -> EpochWalk:
        """The epoch in the way that is shown."""
        return self.walk_of(self.way)

    def walk_of(self, way: str) -> EpochWalk:
        """Return the epoch in a way, trained once.

        Raises:
            ValueError: if there is no such way.
        """
        if way not in self._walks:
            self._walks[way] = EpochWalk.of(self._parts, way, **self._settings)
        return self._walks[way]

    def change(self, way: str) -> None:
        """Show another way, at the step of the same number.

        Raises:
            ValueError: if there is no such way.
        """
        walk = self.walk_of(way)
        number = self.number
        self.way, self.steps = way, tuple(step.name for step in walk.steps)
        self.go(min(number, len(self.steps)))

    def say(self) -> str:
        """The step in words."""
        return say_step(self.walk, self.walk.steps[self.number - 1])

    def bundle(self, *, dark: bool = False) -> FigureData:
        """The step as a figure with its numbers."""
        return draw_epoch_step(self.walk, self.walk.steps[self.number - 1], dark=dark)

    def bundle_of(self, name: str) -> FigureData:
        """A step by its name."""
        return draw_epoch_step(self.walk, self.walk.steps[self.steps.index(name)])

    def film(self, *, dark: bool = False) -> FigureData:
        """The epoch as one figure that plays without a kernel."""
        return draw_film(self.walk, dark=dark)

    def write(self, path: str | Path) -> Path:
        """Write a page that plays the epoch in every way."""
        ways = {way: _page_way(self.walk_of(way)) for way in WAYS}
        return write_page(ways, path, first=self.way, labels={name: way.label for name, way in WAYS.items()})

    def __repr__(self) -> str:
        walk = self.walk
        return (
            f"{walk.parts.graph.num_nodes} nodes on {walk.parts.workers} workers, {walk.way}, "
            f"{len(walk.steps)} steps, {walk.num_bytes} bytes of rows"
        )


def _page_way(walk: EpochWalk) -> dict[str, Any]:
    return page_way(
        words=[say_step(walk, step) for step in walk.steps],
        titles=[title_of(step) for step in walk.steps],
        still=lambda dark: draw_epoch_step(walk, walk.steps[0], dark=dark).figure,
        moved=lambda dark: [moving(walk, step, dark=dark) for step in walk.steps],
    )


class RunModel(Stepped):
    """Hold the step of a recorded epoch that is shown.

    Args:
        run: with a timeline.
        epoch: one that was recorded; by default that whose length is the median.
        around: a node: of a large graph the nodes nearest to it are drawn.

    Raises:
        ValueError: if nothing, or not that epoch, was recorded; the partition is not found; or the graph is too large.
    """

    order, step_ms = "workers act", 400

    def __init__(self, run: Run, *, epoch: int | None = None, around: int | None = None) -> None:
        self.walk = RunWalk.of(run, epoch)
        """What was recorded."""
        self._drawing = RunDrawing(self.walk, around=around)
        super().__init__([step.name for step in self.walk.steps])

    def say(self) -> str:
        """The step in words."""
        return say_run_step(self.walk, self._moment)

    def bundle(self, *, dark: bool = False) -> FigureData:
        """The step as a figure with its numbers."""
        return self._drawing.step(self._moment, dark=dark)

    def bundle_of(self, name: str) -> FigureData:
        """A step by its name."""
        return self._drawing.step(self._named[name])

    def film(self, *, dark: bool = False) -> FigureData:
        """The epoch as one figure that plays without a kernel."""
        return self._drawing.film(dark=dark)

    def write(self, path: str | Path) -> Path:
        """Write a page that plays the epoch in its own time, slowed down."""
        walk, steps, drawing = self.walk, self.walk.steps, self._drawing
        way = page_way(
            words=[say_run_step(walk, step) for step in steps],
            titles=[run_title(walk, step) for step in steps],
            still=lambda dark: drawing.still(dark=dark),
            moved=lambda dark: [drawing.moving(step) for step in steps],
        )
        way["times"] = [[round(step.start, 4), round(step.end, 4)] for step in steps]
        way["tracks"] = [
            [round(each, 4) for each in (track.message.start, track.message.end, *track.start, *track.end)]
            for track in drawing.tracks
        ]
        title = f"Epoch {walk.epoch} of {walk.name}: {walk.system} on {walk.parts.workers} workers"
        return write_page({"run": way}, path, first="run", title=title)

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
        if not isinstance(model, EpochModel):
            self.stand(follows=[])
            return
        self.way = widgets.ToggleButtons(
            options=[(way.label, name) for name, way in WAYS.items()],
            value=model.way,
            description="Way",
            tooltips=[way.about for way in WAYS.values()],
            layout=BESIDE,
            style={"button_width": "96px", "description_width": "40px"},
        )
        self.stand(self.way, follows=[self.way])

    def apply(self) -> None:
        if isinstance(self.model, EpochModel):
            self.model.change(self.way.value)


class EpochPlayer(Player):
    """Play one training epoch: rows on their way between workers, and what workers do meanwhile.

    Of a launched run, an epoch that it recorded: the graph as it was cut, bright where a worker is at work, each
    message a mark with its rows and bits, and lanes in milliseconds, all as the run wrote it down; a step is a while in
    which every worker does one thing. How long weight gradients were summed is on record, when is not: it stands after
    the last exchange. Workers of several machines have a clock each.

    Of a partition of a small graph, an epoch that is trained now, in this process, with the pieces of launched runs, in
    one of several ways; it is the last of a few, with its own bytes, loss and gradients. A step is as long as any other
    on the lanes, since parts of ten nodes take microseconds: the order is what a schedule changes.

    At the end of a notebook cell it shows the player; where no kernel runs, a figure that plays by itself.

    Args:
        run_or_parts: a run, or a partition of a graph that is small enough to be drawn edge by edge.
        way: of a partition: ``vanilla``, ``two bits``, ``overlapped``, ``stale`` or ``cached``.
        epoch: of a run: one that was recorded; by default that whose length is the median.
        around: of a run: a node; of a graph of more than 2,000 nodes those nearest to it are drawn.
        **settings: of a partition: ``model``, ``hidden``, ``layers``, ``epochs`` and ``seed`` of the training.

    Raises:
        TypeError: if it is given something else.
        ValueError: if there is no such way; the graph is too large; no edge of it is cut; a run recorded nothing, or
            not that epoch; its partition is not found again; or it sent whole blocks.

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
        given: Any = run_or_parts
        self.model: EpochModel | RunModel
        if hasattr(given, "timeline"):
            asked = sorted({*settings, *(["way"] if way is not None else [])})
            if asked:
                raise ValueError(
                    f"a run is played as it was trained, got {', '.join(asked)}; leave it out, or play "
                    "gq.EpochPlayer(run.parts()) where the graph is small"
                )
            self.model = RunModel(given, epoch=epoch, around=around)
        elif hasattr(given, "shards"):
            if epoch is not None or around is not None:
                raise ValueError("epoch= and around= are of a run, got a partition, which is trained to be played")
            self.model = EpochModel(given, way=way or "vanilla", **settings)
        else:
            raise TypeError(
                f"an epoch is played of a run, or trained on a partition, got {given!r}; take "
                "gq.launch(graph, timeline_every=5) or gq.partition(graph, workers=2)"
            )

    def __getitem__(self, step: str) -> FigureData:
        """One step as a figure: ``player["loss"]``."""
        if step not in self.model.steps:
            raise KeyError(f"a step must be one of {', '.join(self.model.steps)}, got {step!r}")
        return super().__getitem__(step)

    def film(self, *, dark: bool = False) -> FigureData:
        """Return the epoch as one figure that plays without a kernel."""
        return self.model.film(dark=dark)

    def export(self, path: str | Path) -> Path:
        """Write a page that plays the epoch without a kernel or a network, by mouse or keyboard.

        Of a partition in every way; of a run in its own time, slowed down.

        Args:
            path: the file to write, ``.html``.

        Returns:
            The path that was written.

        Raises:
            ValueError: if the file has another ending.
        """
        return self.model.write(path)

    def __repr__(self) -> str:
        return f"EpochPlayer({self.model!r})"

    def whole(self) -> FigureData:
        """Return the epoch as one figure that plays without a kernel."""
        return self.film()
