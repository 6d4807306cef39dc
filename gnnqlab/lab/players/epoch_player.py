"""The stepped player of an epoch: play it, stop it, go step by step, and switch to another way to train it.

``EpochModel`` is the player without a screen; ``EpochPlayer`` puts controls and figures round it.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.controls import BESIDE, shows_static
from gnnqlab.lab.figures.left import left_by
from gnnqlab.lab.players.epoch_page import write_page
from gnnqlab.lab.players.epoch_views import draw_epoch_step, draw_film
from gnnqlab.lab.players.epoch_walk import WAYS, EpochWalk
from gnnqlab.lab.players.epoch_words import say_step
from gnnqlab.lab.players.stepped import StepControls, Stepped

if TYPE_CHECKING:
    from gnnqlab.partition.parts import Parts

__all__ = ["EpochModel", "EpochPlayer"]


class EpochModel(Stepped):
    """Which way to train and which step are shown; a way is trained when it is first asked for.

    Example:
        >>> from gnnqlab.lab import course
        >>> from gnnqlab.partition.parts import partition
        >>> model = EpochModel(partition(course.ten_nodes(), course.Halves(), workers=2), epochs=1)
        >>> model.step, model.forward(), model.step
        ('start', True, 'encode, layer 1 forward')
    """

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

    def bundle(self, *, dark: bool = False) -> Bundle:
        """The step as a figure with its numbers."""
        return draw_epoch_step(self.walk, self.walk.steps[self.number - 1], dark=dark)


class EpochPlayer:
    """Play one training epoch of a small graph: rows on their way along cut edges, and what workers do meanwhile.

    A few epochs are trained in this process with the pieces of launched runs; the last is shown, with its own bytes,
    loss and gradients. A step is as long as any other on the lanes, since parts of ten nodes take microseconds: the
    order is what a schedule changes. At the end of a notebook cell it shows the player; where no kernel runs, a figure
    that plays by itself.

    Args:
        parts: a partition of a graph that is small enough to be drawn; by default of the course's ten nodes.
        way: ``vanilla``, ``two bits``, ``overlapped``, ``stale`` or ``cached``.
        **settings: ``model``, ``hidden``, ``layers``, ``epochs`` and ``seed`` of the training.

    Raises:
        TypeError: if it is given something else, as a run, whose epochs are on record without their rows.
        ValueError: if there is no such way, or the graph is too large, or no edge of it is cut.

    Example:
        >>> from gnnqlab.lab import course
        >>> from gnnqlab.partition.parts import partition
        >>> EpochPlayer(partition(course.ten_nodes(), course.Halves(), workers=2), epochs=1)
        EpochPlayer(10 nodes on 2 workers, vanilla, 28 steps, 320 bytes of rows)
    """

    def __init__(self, parts: Parts, *, way: str = "vanilla", **settings: Any) -> None:
        if not hasattr(parts, "shards"):
            raise TypeError(
                f"an epoch is trained to be played, on a partition, got {parts!r}; take gq.partition(graph, "
                "workers=2), and for what workers of a run did when gq.critical_path(run)"
            )
        self.model = EpochModel(parts, way=way, **settings)
        draw_epoch_step(self.walk, self.walk.steps[0])  # too large a graph is refused here

    @property
    def walk(self) -> EpochWalk:
        """What is shown, as numbers."""
        return self.model.walk

    def __getitem__(self, step: str) -> Bundle:
        """One step as a figure: ``player["loss"]``."""
        by_name = {each.name: each for each in self.walk.steps}
        if step not in by_name:
            raise KeyError(f"a step must be one of {', '.join(by_name)}, got {step!r}")
        return draw_epoch_step(self.walk, by_name[step])

    def film(self, *, dark: bool = False) -> Bundle:
        """Return the epoch as one figure that plays without a kernel."""
        return draw_film(self.walk, dark=dark)

    def export(self, path: str | Path) -> Path:
        """Write a page that plays the epoch in every way, without a kernel or a network, by mouse or keyboard.

        Args:
            path: the file to write, ``.html``.

        Returns:
            The path that was written.

        Raises:
            ValueError: if the file has another ending.
        """
        return write_page([self.model.walk_of(way) for way in WAYS], path, first=self.model.way)

    @cached_property
    def widget(self) -> Any:
        """The player as an ipywidgets box."""
        return _EpochControls(self.model).box

    def __repr__(self) -> str:
        walk = self.walk
        return (
            f"EpochPlayer({walk.parts.graph.num_nodes} nodes on {walk.parts.workers} workers, {walk.way}, "
            f"{len(walk.steps)} steps, {walk.num_bytes} bytes of rows)"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if shows_static():
            return self.film()._repr_mimebundle_()
        return left_by(self.widget, repr(self), self.film)


class _EpochControls(StepControls):
    def __init__(self, model: EpochModel) -> None:
        super().__init__(model, order="an epoch happens", play_ms=1200)
        import ipywidgets as widgets

        self.model = model
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
        self.model.change(self.way.value)
