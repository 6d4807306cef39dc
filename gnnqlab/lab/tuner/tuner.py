"""``gq.Tuner``: change settings, see their predicted effect, launch a run, and follow it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.lab.figures.bundle import fallback_for
from gnnqlab.lab.figures.controls import shows_static
from gnnqlab.lab.tuner.model import TunerModel
from gnnqlab.lab.tuner.session import TunerSession
from gnnqlab.lab.tuner.settings import GRAPH, PRESETS
from gnnqlab.lab.tuner.tuner_page import write_tuner_page
from gnnqlab.lab.tuner.views import show_tuner
from gnnqlab.run.run import Run
from gnnqlab.train.config.run_config import RunConfig

if TYPE_CHECKING:
    from gnnqlab.lab.figures.bundle import FigureData
    from gnnqlab.lab.tuner.panel import TunerPanel
    from gnnqlab.tune.forecast import Forecast
    from gnnqlab.tune.recommendation import Recommendation

__all__ = ["Tuner"]


class Tuner:
    """Controls for the settings of any system, with immediate predictions of time, variance and bits; Train launches.

    At the end of a notebook cell it shows the controls; without a kernel, the position as a figure. Every action on the
    screen is a method too: ``choose``, ``forecast``, ``train``, ``stop``, ``to_code``.

    Args:
        graph: a graph, or its name or path; by default one of 4000 nodes in four communities, for which every knob has
            an effect on four workers and two hosts.
        epochs: number of epochs to train.
        measure: True to time two short launched runs in the background, some seconds the first time; before, or
            without, predicted seconds are an estimate.
        training: further arguments of `gnnqlab.configure`: ``seed``, ``lr``, ``dropout`` ...
        **knobs: initial position: ``system`` (AdaQP by default) and the settings of its recipe, such as ``lam``,
            ``group_size``, ``period``, ``bit_widths``; ``workers``, ``model``, ``layers``, ``hidden``, ``link``.

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
    """Names of presets."""

    def choose(self, **changes: Any) -> Tuner:
        """Change some knobs, on the screen and of a training run too.

        Raises:
            ValueError: if a value is out of its range, or there is no such knob.
            TypeError: if a value is of the wrong kind.
        """
        self.model.choose(**changes)
        return self._follow()

    def preset(self, name: str) -> Tuner:
        """Apply λ, group size, period and bit-widths of a preset; switch to AdaQP if the system has no λ.

        Raises:
            ValueError: if there is no such preset.
        """
        self.model.preset(name)
        return self._follow()

    def reset(self) -> Tuner:
        """Return to the initial position."""
        self.model.reset()
        return self._follow()

    # -- predictions ----------------------------------------------------------------------------------------------

    @property
    def config(self) -> RunConfig:
        """Configuration of a run with this position."""
        return self.model.config

    @property
    def forecast(self) -> Forecast:
        """Prediction for this position."""
        return self.model.forecast

    @property
    def bits(self) -> dict[int, int]:
        """Bit-width -> predicted rows per epoch."""
        return self.model.forecast.rows

    def to_code(self) -> str:
        """Return Python code that launches the same training."""
        return self.model.to_code()

    def show(self, *, dark: bool = False) -> FigureData:
        """Return the figure of the position and its measured run, with the numbers of the front."""
        return show_tuner(self.model, measurement=self.session.measurement, dark=dark)

    def export(self, path: str | Path) -> Path:
        """Write a page with the forecasts of eleven values of λ, two group sizes and three links.

        It needs no kernel and no network; see ``gnnqlab.lab.tuner.tuner_page`` for other links.

        Args:
            path: the file to write, ``.html``.

        Returns:
            The written path.

        Raises:
            ValueError: if the system has no λ, or the file name does not end in ``.html`` or ``.htm``.
        """
        return write_tuner_page(self.model, path)

    def recommend(self, objective: str = "time to accuracy") -> Recommendation:
        """Rank all systems for the position's graph, model, workers and link; see `gnnqlab.recommend`."""
        return self.model.recommend(objective)

    # -- runs -----------------------------------------------------------------------------------------------------

    @property
    def run(self) -> Run | None:
        """The newest run of this tuner."""
        return self.session.run

    def train(self) -> Run:
        """Launch a run with this position, and return at once.

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
        """Controls and figure, created at first use."""
        from gnnqlab.lab.tuner.panel import TunerPanel

        return TunerPanel(self.model, self.session, measure=self._measure)

    @property
    def widget(self) -> Any:
        """The tuner as an ipywidgets box."""
        return self.panel.box

    def __repr__(self) -> str:
        return f"Tuner({self.model.settings})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if shows_static():
            self.model.find_probe(launched=self._measure)
            return self.show()._repr_mimebundle_()
        return fallback_for(self.widget, repr(self), self.show if self.model.is_timed else None)  # probed later

    def _follow(self) -> Tuner:
        """Pass a change of the position to the panel, or to a run that trains."""
        if "panel" in self.__dict__:
            self.panel.follow()  # it passes the change to a run once the knobs rest
        else:
            self.session.steer()
        return self

    def _refresh(self) -> None:
        if "panel" in self.__dict__:
            self.panel.updater.request()
