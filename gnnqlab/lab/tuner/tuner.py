"""``gq.Tuner``: turn a knob, see what it would do, launch it, watch it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.lab.figures.bundle import fallback_for
from gnnqlab.lab.figures.controls import shows_static
from gnnqlab.lab.tuner.model import TunerModel
from gnnqlab.lab.tuner.session import TunerSession
from gnnqlab.lab.tuner.settings import GRAPH, PRESETS
from gnnqlab.lab.tuner.views import show_tuner
from gnnqlab.run.run import Run
from gnnqlab.train.config.run_config import RunConfig

if TYPE_CHECKING:
    from gnnqlab.lab.figures.bundle import FigureData
    from gnnqlab.lab.tuner.panel import TunerPanel
    from gnnqlab.tune.forecast import Forecast

__all__ = ["Tuner"]


class Tuner:
    """Turn the settings of any system, and see predicted time, variance and bits at once; Train launches.

    At the end of a notebook cell it shows the controls; where no kernel runs, the position as a figure. Everything on
    the screen is a line of Python too: ``choose``, ``forecast``, ``train``, ``stop``, ``to_code``.

    Args:
        graph: a graph, or its name or path; if none is given one of 4000 nodes in four communities, on whose four
            workers and two hosts every knob shows.
        epochs: to train.
        measure: time two short launched runs in the background, some seconds the first time; until then, or without,
            predicted seconds are a guess.
        training: what else `gnnqlab.configure` takes: ``seed``, ``lr``, ``dropout`` ...
        **knobs: where to start: ``system`` (AdaQP by default) and what its recipe can be told, such as ``lam``,
            ``group_size``, ``period``, ``widths``; ``workers``, ``model``, ``layers``, ``hidden``, ``link``.

    Raises:
        ValueError: if a setting is out of its range.

    Example:
        ``gq.Tuner()``, ``gq.Tuner(gq.load("digits"), workers=2, lam=0.3)``
    """

    def __init__(
        self,
        graph: GraphLike = GRAPH,
        *,
        epochs: int = 60,
        measure: bool = True,
        training: dict[str, Any] | None = None,
        **knobs: Any,
    ) -> None:
        self.model = TunerModel(graph, epochs=epochs, training=training, **knobs)
        self.session = TunerSession(self.model)
        self._measure = measure

    # -- knobs ----------------------------------------------------------------------------------------------------

    presets = tuple(PRESETS)
    """Names for `preset`."""

    def choose(self, **changes: Any) -> Tuner:
        """Turn some knobs, on the screen and of a run that trains too.

        Raises:
            ValueError: if a value is out of its range, or there is no such knob.
            TypeError: if a value is of the wrong kind.
        """
        self.model.choose(**changes)
        return self._moved()

    def preset(self, name: str) -> Tuner:
        """Take λ, group size, period and widths of a preset; AdaQP if the system has no such settings.

        Raises:
            ValueError: if there is no such preset.
        """
        self.model.preset(name)
        return self._moved()

    def reset(self) -> Tuner:
        """Go back to where the tuner began."""
        self.model.reset()
        return self._moved()

    # -- answers --------------------------------------------------------------------------------------------------

    @property
    def config(self) -> RunConfig:
        """The run that this position describes."""
        return self.model.config

    @property
    def forecast(self) -> Forecast:
        """What is predicted for this position."""
        return self.model.forecast

    @property
    def bits(self) -> dict[int, int]:
        """Bit-width -> rows an epoch, as predicted."""
        return self.model.forecast.rows

    def to_code(self) -> str:
        """Python that trains the same."""
        return self.model.to_code()

    def show(self, *, dark: bool = False) -> FigureData:
        """The position as a figure with the front's numbers, and what the run has shown."""
        return show_tuner(self.model, measured=self.session.measured, dark=dark)

    # -- runs -----------------------------------------------------------------------------------------------------

    @property
    def run(self) -> Run | None:
        """The newest run of this tuner."""
        return self.session.run

    def train(self) -> Run:
        """Launch a run with this position; returns at once.

        Raises:
            RuntimeError: if a run of this tuner trains already.
        """
        run = self.session.train()
        self._refresh()
        return run

    def stop(self) -> None:
        """End the run and all its processes; nothing happens without one."""
        self.session.stop()
        self._refresh()

    # -- the screen -----------------------------------------------------------------------------------------------

    @cached_property
    def panel(self) -> TunerPanel:
        """Controls and figure."""
        from gnnqlab.lab.tuner.panel import TunerPanel

        return TunerPanel(self.model, self.session, measure=self._measure)

    @property
    def widget(self) -> Any:
        """The tuner as an ipywidgets box."""
        return self.panel.box

    def __repr__(self) -> str:
        now = self.model.settings
        return f"Tuner({now})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if shows_static():
            self.model.look(launched=self._measure)
            return self.show()._repr_mimebundle_()
        return fallback_for(self.widget, repr(self), self.show if self.model.timed else None)  # a place is probed later

    def _moved(self) -> Tuner:
        if "panel" in self.__dict__:
            self.panel.follow()  # passes it on to a run when the knobs rest
        else:
            self.session.steer()
        return self

    def _refresh(self) -> None:
        if "panel" in self.__dict__:
            self.panel.updater.ask()
