"""Model of the tuner: positions of the knobs, and predictions of time, variance, bit-widths and bounds.

Predictions come from a probe: a few epochs traced in this process, and two short launched runs that were timed before,
or are timed on demand. A change of λ, group size, period or bit-widths needs no training.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import load
from gnnqlab.lab.tuner.settings import LOOPBACK, PRESETS, TunerSettings
from gnnqlab.systems.registry import make_system
from gnnqlab.systems.system import System
from gnnqlab.train.config.configure import configure
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.tune.drift import Drift
from gnnqlab.tune.forecast import Forecast
from gnnqlab.tune.prediction_error import median_error
from gnnqlab.tune.probe import LAMS, Probe, probe
from gnnqlab.tune.recommendation import Recommendation, recommend
from gnnqlab.tune.recommendation.accuracy_risk import AccuracyRisk, risk_of_noise
from gnnqlab.tune.recommendation.ranking import studied_noise
from gnnqlab.tune.timing import PROBED, with_probed_parts
from gnnqlab.units import format_power, human_bytes

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["TunerModel"]

_TRACED = 12
"""Epochs of a probe: epoch 1 gives the first assignment, the last ones the bound, all the aging of bit-widths."""
_DRIFT_LAM = 0.5
"""λ for which the aging of bit-widths is measured; other λ differ little."""
_QUICK_LOAD = 2_000_000
"""Most edges of a graph that is loaded again by its name, to check that it is the same graph."""


class TunerModel:
    """Position of all knobs with its predictions.

    Args:
        graph: a graph, or its name or path.
        epochs: number of epochs of a run.
        make_probe: function that probes; by default :func:`gnnqlab.tune.probe.probe`.
        training: further arguments of `gnnqlab.configure`: ``seed``, ``lr``, ``dropout`` ...
        **knobs: initial values of knobs, as for `TunerSettings.changed`.

    Raises:
        ValueError: if a setting is out of its range.

    Example:
        >>> model = TunerModel("sbm:200,4,8", workers=2, hidden=16, link="loopback", lam=0.2)
        >>> model.choose(lam=1.0).lam, model.settings.workers
        (1.0, 2)
        >>> model.choose(lam=7)
        Traceback (most recent call last):
        ValueError: lam must lie in [0, 1], got 7
        >>> model.reset().lam
        0.2
    """

    def __init__(
        self,
        graph: GraphLike,
        *,
        epochs: int = 60,
        make_probe: Callable[..., Probe] = probe,
        training: dict[str, Any] | None = None,
        **knobs: Any,
    ) -> None:
        self._graph_like = graph
        self._training = {"epochs": epochs, **(training or {})}
        self._make_probe = make_probe
        self._fronts: dict[tuple[Any, ...], list[Forecast]] = {}
        self._newest: tuple[tuple[TunerSettings, Probe, Probe], Forecast] | None = None
        self._drifts: dict[tuple[Any, ...], Drift] = {}
        self._studied: dict[tuple[Any, ...], dict[str, float | None]] = {}  # place -> noise of studied systems
        self._probes: dict[tuple[Any, ...], Probe] = {}
        self._probed_parts: dict[tuple[str, str], tuple[str, ...]] = {}  # system and its settings -> parts of its probe
        self._probe_lock = threading.RLock()
        self.initial = TunerSettings().changed(knobs)
        """Position to which `reset` returns."""
        self.settings = self.initial
        """Current position."""

    def __getattr__(self, name: str) -> Any:
        if name != "at":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        warnings.warn("TunerModel.at is TunerModel.forecast_for now", DeprecationWarning, stacklevel=2)
        return self.forecast_for

    # -- knobs ----------------------------------------------------------------------------------------------------

    def choose(self, **changes: Any) -> TunerSettings:
        """Change some knobs; nothing changes if one of them is refused.

        Raises:
            ValueError: if a value is out of its range, or there is no such knob.
            TypeError: if a value is of the wrong kind.
        """
        self.settings = self.settings.changed(changes)
        return self.settings

    def preset(self, name: str) -> TunerSettings:
        """Apply λ, group size, period and bit-widths of a preset; switch to AdaQP if the system has no λ.

        Raises:
            ValueError: if there is no such preset.
        """
        if name not in PRESETS:
            raise ValueError(f"preset must be one of {tuple(PRESETS)}, got {name!r}")
        return self.choose(**({} if self.settings.assigns else {"system": "adaqp"}), **PRESETS[name])

    def reset(self) -> TunerSettings:
        """Return to the initial position."""
        self.settings = self.initial
        return self.settings

    # -- graph and probes -----------------------------------------------------------------------------------------

    @cached_property
    def graph(self) -> Graph:
        """Graph to train on, loaded at first use."""
        return load(self._graph_like)

    @cached_property
    def source(self) -> str | Graph:
        """The graph's name if it loads the same graph, else the graph."""
        if isinstance(self._graph_like, str | Path):
            return str(self._graph_like)
        graph = self.graph
        if graph.num_edges <= _QUICK_LOAD:
            try:
                if load(graph.name).content_hash == graph.content_hash:
                    return graph.name
            except (ValueError, RuntimeError, OSError):
                pass  # the name cannot be loaded
        return graph

    @property
    def is_probed(self) -> bool:
        """True if this place (workers, model, link) was probed, so that forecasts take no time."""
        return self._place() in self._probes

    @property
    def is_timed(self) -> bool:
        """True if launched runs were timed for this place; before, seconds are an estimate."""
        return self.is_probed and self._probes[self._place()].timing.launched

    def find_probe(self, *, launched: bool = False, system: str | None = None) -> Probe:
        """Return the probe of the current place; create it if it is missing or not timed as requested.

        Args:
            launched: True to time two short launched runs, some seconds the first time; else seconds may be estimates.
            system: system whose partition, exchange and precision are probed; by default the current one.
        """
        place = self._place(system)
        # The panel's thread and a cell must share one probe. Timing takes seconds, so it runs without the lock.
        with nullcontext() if launched else self._probe_lock:
            known_probe = self._probes.get(place)
            if known_probe is None or (launched and not known_probe.timing.launched):
                config = configure(self.source, system=self._probe_system(system), **self._run_arguments(self.settings))
                self._probes[place] = self._make_probe(config, epochs=_TRACED, launched=launched)
                if place != self._place("vanilla"):
                    self.find_probe(launched=launched, system="vanilla")  # the baseline of every speed-up
        return self._probes[place]

    def _place(self, system: str | None = None) -> tuple[Any, ...]:
        """Return the key of a probe: settings of the place, and the system's parts that a probe depends on."""
        position = self.settings
        name = system or position.system
        call = name, repr(position.system_settings) if name == position.system else ""
        if call not in self._probed_parts:
            # Parts by value, because systems may share them.
            probed = self._probe_system(system)
            self._probed_parts[call] = tuple(repr(getattr(probed, axis)) for axis in PROBED)
        return (*position.place, *self._probed_parts[call])

    def _probe_system(self, system: str | None = None) -> System:
        """Return Vanilla with those parts of a system that a probe depends on."""
        position = self.settings
        settings = position.system_settings if system in (None, position.system) else {}
        return with_probed_parts(make_system("vanilla"), make_system(system or position.system, **settings))

    def update_error(self) -> None:
        """Update the error of predictions from all finished runs."""
        known_probe = self.find_probe()
        self._probes[self._place()] = replace(known_probe, error=median_error(known_probe.compare_with_runs()["error"]))
        self._fronts.clear()  # fronts must be drawn again with the new error

    # -- predictions ----------------------------------------------------------------------------------------------

    @property
    def forecast(self) -> Forecast:
        """Prediction for this position."""
        key = settings, own, baseline = self.settings, self.find_probe(), self.find_probe(system="vanilla")
        if (newest := self._newest) is not None and all(map(is_, newest[0], key)):  # one drawing reads it ten times
            return newest[1]
        if settings.assigns:
            forecast = replace(self.forecast_for(settings.lam), period=settings.period)
        else:
            forecast = own.forecast(system=settings.system, **settings.system_settings)
            forecast = replace(forecast, vanilla_s=baseline.vanilla.epoch_s)
        if self.settings is settings:  # else a knob moved meanwhile
            self._newest = key, forecast
        return forecast

    @property
    def vanilla(self) -> Forecast:
        """Prediction for Vanilla with its own partition, the baseline of all systems."""
        return self.find_probe(system="vanilla").vanilla

    def forecast_for(self, lam: float) -> Forecast:
        """Return the prediction for this position with another λ; for AdaQP if the system has no λ."""
        settings = self._front_settings
        return self.find_probe(system=settings["system"]).forecast(lam=lam, **settings)

    @property
    def front(self) -> list[Forecast]:
        """Predictions for λ = 0, 0.1 … 1, from least time to least variance; AdaQP's if the system has no λ."""
        key = self._front_key
        if (line := self._fronts.get(key)) is None:
            line = [self.forecast_for(lam) for lam in LAMS]
            if self._front_key == key:  # else a knob moved meanwhile
                self._fronts[key] = line
        return line

    @property
    def has_front(self) -> bool:
        """True if the front is cached."""
        return self._front_key in self._fronts

    @property
    def bound_per_layer(self) -> dict[int, float]:
        """Layer -> bound of the gradient's variance (Theorem 3), summed over its weights; empty if not traced."""
        bounds: dict[int, float] = {}
        for name, bound in self.forecast.bounds.items():
            # Names of weights begin with the number of their layer.
            layer = int(re.match(r"\d+", name)[0]) if re.match(r"\d+", name) else 0  # type: ignore[index]
            bounds[layer] = bounds.get(layer, 0.0) + bound
        return dict(sorted(bounds.items()))

    @property
    def speedup(self) -> tuple[float, float | None]:
        """Predicted speed-up relative to Vanilla, and its error in past runs, ``None`` without past runs."""
        forecast = self.forecast
        return forecast.speedup, None if forecast.error is None else forecast.speedup * forecast.error

    @property
    def has_aging(self) -> bool:
        """True if `stale_loss` is cached, or zero because the system assigns no bit-widths."""
        return not self.settings.assigns or self._front_key in self._drifts

    @property
    def stale_loss(self) -> float:
        """Mean relative excess of the assigner's objective with stale bit-widths over a period; 0.1 is 10 %."""
        settings = self.settings
        if not settings.assigns:
            return 0.0
        if self._front_key not in self._drifts:
            drift = self.find_probe().drift(
                lam=_DRIFT_LAM, group_size=settings.group_size, bit_widths=settings.bit_widths
            )
            self._drifts[self._front_key] = drift
        return self._drifts[self._front_key].mean_loss(settings.period)

    @property
    def has_risk(self) -> bool:
        """True if the noise of the studied systems is cached, so that `risk` takes no time."""
        return self._place("vanilla") in self._studied

    @property
    def risk(self) -> AccuracyRisk:
        """Risk that this position misses Vanilla's accuracy, by the noise of its gradients; see `gnnqlab.recommend`."""
        place = self._place("vanilla")
        if place not in self._studied:
            self._studied[place] = studied_noise(self.find_probe(system="vanilla"))
        forecast = self.forecast
        is_exact = not forecast.no_variance and forecast.total_variance == 0
        return risk_of_noise(0.0 if is_exact else forecast.noise_share, self._studied[place])

    @property
    def sentence(self) -> str:
        """Prediction in words."""
        forecast = self.forecast
        speedup, spread = self.speedup
        spread_text = "" if spread is None else f" (± {spread:.1g})"
        words = [
            f"predicted {speedup:.2f}×{spread_text} Vanilla: {1e3 * forecast.epoch_s:.1f} ms per epoch instead of "
            f"{1e3 * forecast.vanilla_s:.1f}",
            f"mean bit-width {forecast.mean_bits:.2f}, {human_bytes(forecast.bytes_sent)} per epoch",
        ]
        if bounds := self.bound_per_layer:
            by_layer = ", ".join(f"layer {n + 1}: {format_power(q)}" for n, q in bounds.items())
            words.append(f"bound of Theorem 3 {by_layer}")
        if self.settings.assigns and self.has_aging:
            words.append(f"bit-widths lose {self.stale_loss:.0%} by becoming stale over {self.settings.period} epochs")
        if forecast.assumes:
            words.append(f"assumes {', '.join(forecast.assumes)}")
        if not self.is_timed:
            words.append("seconds are a first estimate, not timed yet")
        return " · ".join(words)

    @property
    def position(self) -> str:
        """System and settings in words."""
        position = self.settings
        if position.system == "adaqp":
            return f"λ {position.lam:g}, groups of {position.group_size}"
        own = (f"{knob.label} {position.value(name)}" for name, knob in position.knobs.items() if knob.setting)
        return ", ".join([position.system, *own])

    @property
    def title(self) -> str:
        """Graph, workers, link and model in one line."""
        settings, graph = self.settings, self.graph
        hosts = "one machine" if settings.link == LOOPBACK else f"2 hosts · link {settings.link} (emulated)"
        return (
            f"{graph.name} · {graph.num_nodes:,} nodes · {settings.workers} workers on {hosts} · {settings.model}, "
            f"{settings.layers} layers × {settings.hidden}"
        )

    def recommend(self, objective: str = "time to accuracy") -> Recommendation:
        """Rank all systems for this place, from its probe of Vanilla."""
        known_probe = self.find_probe(system="vanilla")
        return recommend(known_probe.config, objective=objective, known=known_probe)

    def to_frame(self) -> DataFrame:
        """Return the front as a table: ``lam, epoch_s, speedup, variance, bound, bytes_sent, mean_bits``."""
        settings = self._front_settings
        return self.find_probe(system=settings["system"]).front_frame(**settings).set_index("lam")

    @property
    def _front_key(self) -> tuple[Any, ...]:
        return (self._place(), self.is_timed, *map(str, self._front_settings.items()))

    # -- configuration and code -----------------------------------------------------------------------------------

    @property
    def config(self) -> RunConfig:
        """Configuration of a run with this position."""
        return configure(
            self.source,
            system=self.settings.system,
            **self.settings.system_settings,
            **self._run_arguments(self.settings),
        )

    def to_code(self) -> str:
        """Return Python code that launches the same training."""
        source = self.config.graph
        position = self.settings
        default = {knob.setting: knob.default for knob in position.knobs.values()}
        # Steerable settings are always listed, so that the code shows what a run can change.
        system_arguments = {
            name: value
            for name, value in position.system_settings.items()
            if name in position.steerable or value != default[name]
        }
        settings = {"system": position.system, **self._run_arguments(position), **system_arguments}
        words = [f"{name}={value!r}" for name, value in settings.items()]
        lines, line = [], "   "
        for word in words:
            if len(line) + len(word) > 100:  # wrap the arguments at about 100 letters
                lines.append(line)
                line = "   "
            line += f" {word},"
        body = "\n".join([*lines, line])
        return f"import gnnqlab as gq\n\ngraph = gq.load({source!r})\nrun = gq.launch(\n    graph,\n{body}\n)\n"

    def _run_arguments(self, settings: TunerSettings) -> dict[str, Any]:
        """Return the arguments of `gnnqlab.configure` other than the system's."""
        shape = {"model": settings.model, "layers": settings.layers, "hidden": settings.hidden}
        return {**shape, "workers": settings.workers, **settings.link_arguments, **self._training}

    @property
    def _front_settings(self) -> dict[str, Any]:
        """Settings that a front depends on: all but λ, and the period, which affects only epochs with assignment."""
        settings = self.settings
        if not settings.assigns:
            return {"system": "adaqp"}
        other_settings = {
            name: value
            for name, value in settings.system_settings.items()
            if name not in ("lam", "period", "bit_widths")
        }
        return {"system": settings.system, "bit_widths": settings.bit_widths, **other_settings}
