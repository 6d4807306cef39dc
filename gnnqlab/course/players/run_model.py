"""A run's epoch, step by step: the epoch player of a launched run, without a screen."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gnnqlab.course.players.epoch_page import page_way, write_page
from gnnqlab.course.players.run_views import RunDrawing
from gnnqlab.course.players.run_walk import Moment, RunWalk
from gnnqlab.course.players.run_words import run_title, say_run_step
from gnnqlab.course.players.stepped import Stepped
from gnnqlab.lab.figures.bundle import Bundle

if TYPE_CHECKING:
    from gnnqlab.run.run import Run

__all__ = ["RunModel"]


class RunModel(Stepped):
    """Which step of a recorded epoch is shown.

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

    def bundle(self, *, dark: bool = False) -> Bundle:
        """The step as a figure with its numbers."""
        return self._drawing.step(self._moment, dark=dark)

    def bundle_of(self, name: str) -> Bundle:
        """A step by its name."""
        return self._drawing.step(self._named[name])

    def film(self, *, dark: bool = False) -> Bundle:
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
