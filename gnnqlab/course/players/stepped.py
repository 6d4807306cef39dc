"""Base classes of all stepped players: steps of a walk, state, controls, and the player.

Players differ only in their walk, which has the numbers of every step, and in a table of ``WalkStep`` that draws them.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from gnnqlab.lab.figures.bundle import FigureData, fallback_for, table_html
from gnnqlab.lab.figures.controls import KNOBS, PAGE, SAID, TABLE, make_access, shows_static
from gnnqlab.lab.figures.figure_view import FigureView
from gnnqlab.lab.figures.light.choice_page import PageStep
from gnnqlab.lab.figures.theme import finish

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = ["Player", "WalkStep", "StepControls", "Stepped", "WalkModel", "draw_step", "page_steps", "titled_charts"]


@dataclass(frozen=True)
class WalkStep:
    """Step of a walk: title, figure, table and description."""

    title: str
    draw: Callable[[Any, bool], Figure]
    """Draws the step of a walk; the flag is True for one of several panels."""
    frame: Callable[[Any], DataFrame]
    say: Callable[[Any], str]
    legend_rows: int = 1
    height: Callable[[Any], int] = lambda walk: 330


def draw_step(steps: Mapping[str, WalkStep], walk: Any, name: str, *, dark: bool = False) -> FigureData:
    """Draw one step of a walk.

    Args:
        steps: name -> step, in their order.
        walk: object with the numbers of all steps.
        name: name of the step.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is no such step.
    """
    if name not in steps:
        raise ValueError(f"a step must be one of {tuple(steps)}, got {name!r}")
    step = steps[name]
    # the only chart, not one of several panels
    ((title, figure),) = titled_charts(steps, walk, [name], panel=False).items()
    words, height = step.say(walk), step.height(walk)
    finish(figure, title=title, caption=words, dark=dark, height=height, legend_rows=step.legend_rows)
    return FigureData(figure, step.frame(walk))


def page_steps(steps: Mapping[str, WalkStep], walk: Any) -> list[PageStep]:
    """Return all steps of a walk for a page without a kernel; they are titled with their numbers."""
    found = []
    for number, name in enumerate(steps, start=1):

        def draw(dark: bool, name: str = name) -> FigureData:
            return draw_step(steps, walk, name, dark=dark)

        step = PageStep.from_drawings(
            draw, words=html.escape(steps[name].say(walk)), table=f"The numbers of step {number}"
        )
        found.append(step)
    return found


def titled_charts(
    steps: Mapping[str, WalkStep], walk: Any, names: Iterable[str], *, panel: bool = True
) -> dict[str, Figure]:
    """Return the charts of some steps, keyed by number and title."""
    # numbers are those of all steps, even if only some are drawn
    numbers = {name: number for number, name in enumerate(steps, start=1)}
    return {f"{numbers[name]} · {steps[name].title}": steps[name].draw(walk, panel) for name in names}


class Stepped:
    """Current one of several ordered steps.

    Example:
        >>> steps = Stepped(["encode", "send", "decode"])
        >>> steps.next_step(), steps.step, steps.number
        (True, 'send', 2)
    """

    def __init__(self, steps: Sequence[str]) -> None:
        self.steps = tuple(steps)
        """Names of the steps, in their order."""
        self.step = self.steps[0]
        """Name of the current step."""

    @property
    def number(self) -> int:
        """Number of the current step, from 1."""
        return self.steps.index(self.step) + 1

    def go(self, number: int) -> None:
        """Show a step.

        Raises:
            ValueError: if there is no such step.
        """
        if not 1 <= number <= len(self.steps):
            raise ValueError(f"steps are numbered from 1 to {len(self.steps)}, got {number}")
        self.step = self.steps[number - 1]

    def next_step(self) -> bool:
        """Show the next step; return False if there is none."""
        return self._move(1)

    def previous_step(self) -> bool:
        """Show the previous step; return False if there is none."""
        return self._move(-1)

    def say(self) -> str:
        """Describe the current step in words."""
        raise NotImplementedError

    def bundle(self, *, dark: bool = False) -> FigureData:
        """Draw the current step, with its numbers as a table."""
        raise NotImplementedError

    def _move(self, distance: int) -> bool:
        number = self.number + distance
        if not 1 <= number <= len(self.steps):
            return False
        self.go(number)
        return True


class WalkModel(Stepped):
    """Current step of a walk.

    Args:
        kinds: name -> step, in their order.
        walk: object with the numbers of all steps.
    """

    def __init__(self, kinds: Mapping[str, WalkStep], walk: Any) -> None:
        super().__init__(list(kinds))
        self._kinds = kinds  # steps by name
        self.walk = walk
        """Object with the numbers shown."""

    def say(self) -> str:
        return self._kinds[self.step].say(self.walk)

    def bundle(self, *, dark: bool = False) -> FigureData:
        return draw_step(self._kinds, self.walk, self.step, dark=dark)

    def bundle_of(self, name: str) -> FigureData:
        """Draw a step by its name."""
        return draw_step(self._kinds, self.walk, name)


class StepControls:
    """Controls of a model; every change redraws in one place.

    A subclass adds its own controls, overrides :meth:`apply`, and calls :meth:`lay_out` at the end of its constructor.

    Args:
        model: the model shown.
        order: completes "the order in which ..." in the slider's tooltip.
        play_ms: milliseconds per step when playing; ``None`` for no play button.
    """

    def __init__(self, model: Stepped, *, order: str, play_ms: int | None = None) -> None:
        import ipywidgets as widgets

        self.shown, count = model, len(model.steps)  # `shown`, because subclasses have a `model` of their own type
        self.step = widgets.IntSlider(
            model.number, 1, count, description="Step", tooltip=f"1 to {count}, the order in which {order}"
        )
        self.back = widgets.Button(description="Back", icon="arrow-left", tooltip="Previous step")
        self.next = widgets.Button(description="Next", icon="arrow-right", tooltip="Next step")
        self.words, self.table = widgets.HTML().add_class(SAID), widgets.HTML().add_class(TABLE)
        self.figure = FigureView(width=PAGE)
        self.access = make_access()
        self.play: Any = None
        if play_ms is not None:
            self.play = widgets.Play(value=1, min=1, max=count, interval=play_ms, show_repeat=False)
            # playing moves the slider
            widgets.link((self.play, "value"), (self.step, "value"))
        self.access.observe(lambda change: self.draw(), names="dark")
        # stays at the first step
        self.back.on_click(lambda button: setattr(self.step, "value", max(self.step.value - 1, 1)))
        self.next.on_click(lambda button: setattr(self.step, "value", min(self.step.value + 1, count)))

    def lay_out(self, *rows: Any, follows: Sequence[Any]) -> None:
        """Lay out rows of controls between steps and figure, and redraw when a control in ``follows`` changes."""
        import ipywidgets as widgets

        for control in (self.step, *follows):  # one observer for the step and all further controls
            control.observe(self._on_change, names="value")
        moves = widgets.HBox([*([self.play] if self.play else []), self.back, self.step, self.next], layout=KNOBS)
        table_box = widgets.Box([self.table], layout={"max_height": "240px", "overflow": "auto"})
        self.box = widgets.VBox([moves, *rows, self.words, self.figure.widget, table_box, self.access])
        self.draw()  # draw once the box exists

    def apply(self) -> None:
        """Set the model from the player's own controls."""

    def draw(self) -> None:
        """Draw the current state of the model."""
        model = self.shown
        bundle = model.bundle(dark=self.access.dark)
        self.words.value = f'<p role="status" style="max-width:70em;line-height:1.5">{html.escape(model.say())}</p>'
        self.table.value = table_html(bundle.frame, caption=f"The\u00a0numbers\u00a0of\u00a0step\u00a0{model.number}")
        # no step before the first and after the last
        self.back.disabled, self.next.disabled = model.number == 1, model.number == len(model.steps)
        self.figure.show(bundle.figure)

    def _on_change(self, change: Any) -> None:
        # The step first, because a subclass may change the walk, and with it the number of steps.
        self.shown.go(self.step.value)
        self.apply()
        self.draw()


class Player:
    """Player of a walk: shown at the end of a notebook cell as controls, or without a kernel as one figure."""

    controls: ClassVar[type[Any]]
    """Class of the controls, called with the model."""
    model: Any

    @property
    def walk(self) -> Any:
        """Object with the numbers shown."""
        return self.model.walk

    def __getitem__(self, step: str) -> FigureData:
        """Draw one step: ``player["beta"]``."""
        bundle: FigureData = self.model.bundle_of(step)
        return bundle

    def whole(self) -> FigureData:
        """Draw all steps as one figure."""
        raise NotImplementedError

    @cached_property
    def widget(self) -> Any:
        """Player as an ipywidgets box."""
        return type(self).controls(self.model).box  # created when first shown

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if shows_static():
            return self.whole()._repr_mimebundle_()
        return fallback_for(self.widget, repr(self), self.whole)
