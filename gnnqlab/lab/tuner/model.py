"""The tuner without a screen: knobs in; predicted time, variance, widths and bounds out.

What is shown comes from a probe: a few epochs traced in this process, and two short launched runs that were timed
before, or are timed on demand. A move of λ, group size, period or widths trains nothing.

Letters: P workers.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import load
from gnnqlab.lab.tuner.settings import LOOPBACK, PRESETS, TunerSettings
from gnnqlab.systems.system import System, make_system
from gnnqlab.train.config.configure import configure
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.tune.drift import Drift
from gnnqlab.tune.forecast import Forecast
from gnnqlab.tune.prediction_error import median_error
from gnnqlab.tune.probe import LAMS, Probe, probe
from gnnqlab.tune.timing import PROBED, probed

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["TunerModel", "powered"]

_TRACED = 12
"""Epochs of a probe: the ranges of epoch 1 decide the first assignment, the last ones the bound, all how widths age."""
_DRIFT_LAM = 0.5
"""λ for which it is found how fast widths grow stale; other λ differ little."""
_QUICK_LOAD = 2_000_000
"""Edges up to which a graph is loaded again to see whether it is the one that its name promises."""


class TunerModel:
    """A position of all knobs and what is predicted for it.

    Args:
        graph: a graph, or its name or path.
        epochs: to train when asked to.
        make_probe: what probes; by default :func:`gnnqlab.tune.probe.probe`.
        training: what else `gnnqlab.configure` takes: ``seed``, ``lr``, ``dropout`` ...
        **knobs: fields of `TunerSettings` to start with.

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
        self._given = graph
        self._training = {"epochs": epochs, **(training or {})}
        self._make_probe = make_probe
        self._fronts: set[tuple[Any, ...]] = set()
        self._drifts: dict[tuple[Any, ...], Drift] = {}
        self._probes: dict[tuple[Any, ...], Probe] = {}
        self._looking = threading.RLock()
        self.initial = TunerSettings().changed(knobs)
        """Where `reset` goes back to."""
        self.settings = self.initial
        """The position now."""

    # -- knobs ----------------------------------------------------------------------------------------------------

    def choose(self, **changes: Any) -> TunerSettings:
        """Turn some knobs; nothing changes if one of them is refused.

        Raises:
            ValueError: if a value is out of its range, or there is no such knob.
            TypeError: if a value is of the wrong kind.
        """
        self.settings = self.settings.changed(changes)
        return self.settings

    def preset(self, name: str) -> TunerSettings:
        """Take λ, group size, period and widths of a preset; of a system without them AdaQP takes the place.

        Raises:
            ValueError: if there is no such preset.
        """
        if name not in PRESETS:
            raise ValueError(f"preset must be one of {tuple(PRESETS)}, got {name!r}")
        return self.choose(**({} if self.settings.assigns else {"system": "adaqp"}), **PRESETS[name])

    def reset(self) -> TunerSettings:
        """Go back to where the tuner began."""
        self.settings = self.initial
        return self.settings

    # -- what is known --------------------------------------------------------------------------------------------

    @cached_property
    def graph(self) -> Graph:
        """The graph itself."""
        return load(self._given)

    @cached_property
    def source(self) -> str | Graph:
        """The graph's name where that loads the same graph, else what was given."""
        if isinstance(self._given, str | Path):
            return str(self._given)
        graph = self.graph
        if graph.num_edges <= _QUICK_LOAD:
            try:
                if load(graph.name).content_hash == graph.content_hash:
                    return graph.name
            except (ValueError, RuntimeError, OSError):
                pass  # only a name to print
        return graph

    @property
    def probed(self) -> bool:
        """Whether this place (workers, model, link) was probed, so that a forecast comes at once."""
        return self._place() in self._probes

    @property
    def timed(self) -> bool:
        """Whether launched runs were timed for this place; until then seconds are a guess."""
        return self.probed and self._probes[self._place()].timing.launched

    def look(self, *, launched: bool = False, system: str | None = None) -> Probe:
        """Probe the place chosen now, unless it is known well enough.

        Args:
            launched: time two short launched runs, some seconds the first time; else seconds may be a guess.
            system: the one on whose cut, exchange and precision; by default the one chosen now.
        """
        place = self._place(system)
        # A panel's own thread and a cell may ask at once, and must see one probe. Timing is long; it waits for nobody.
        with nullcontext() if launched else self._looking:
            known = self._probes.get(place)
            if known is None or (launched and not known.timing.launched):
                config = configure(self.source, system=self._probed_as(system), **self._words(self.settings))
                self._probes[place] = self._make_probe(config, epochs=_TRACED, launched=launched)
                if place != self._place("vanilla"):
                    self.look(launched=launched, system="vanilla")  # what it is held against
        return self._probes[place]

    def _place(self, system: str | None = None) -> tuple[Any, ...]:
        """What a probe depends on."""
        parts = [getattr(self._probed_as(system), axis) for axis in PROBED]
        return (*self.settings.place, *map(repr, parts))

    def _probed_as(self, system: str | None = None) -> System:
        """Vanilla with the parts that a probe knows alone."""
        now = self.settings
        told = now.told if system in (None, now.system) else {}
        return probed(make_system("vanilla"), make_system(system or now.system, **told))

    def learn(self) -> None:
        """Hold the predictions against the runs that have finished by now."""
        found = self.look()
        self._probes[self._place()] = replace(found, error=median_error(found.past()["error"]))
        self._fronts.clear()  # what was predicted is told with another spread now

    # -- what is predicted ----------------------------------------------------------------------------------------

    @property
    def forecast(self) -> Forecast:
        """What is predicted for this position."""
        now = self.settings
        if now.assigns:
            return replace(self.at(now.lam), period=now.period)
        found = self.look().forecast(system=now.system, **now.told)
        return replace(found, vanilla_s=self.vanilla.epoch_s)

    @property
    def vanilla(self) -> Forecast:
        """Vanilla as it is trained, on a cut of its own: what every system is held against."""
        return self.look(system="vanilla").vanilla

    def at(self, lam: float) -> Forecast:
        """What is predicted for this position with another λ; AdaQP's own where the system has none."""
        assigning = self._assigning
        return self.look(system=assigning["system"]).forecast(lam=lam, **assigning)

    @property
    def front(self) -> list[Forecast]:
        """What is predicted for λ = 0, 0.1 … 1: least time to least variance; AdaQP's where the system has no λ."""
        line = [self.at(lam) for lam in LAMS]
        self._fronts.add(self._front_key)
        return line

    @property
    def has_front(self) -> bool:
        """Whether the front is known already, so that it costs nothing."""
        return self._front_key in self._fronts

    @property
    def bound_per_layer(self) -> dict[int, float]:
        """Theorem 3's bound of the gradient's variance, layer -> sum over its weights; empty where not traced."""
        found: dict[int, float] = {}
        for name, bound in self.forecast.bounds.items():
            layer = int(re.match(r"\d+", name)[0]) if re.match(r"\d+", name) else 0  # type: ignore[index]
            found[layer] = found.get(layer, 0.0) + bound
        return dict(sorted(found.items()))

    @property
    def speedup(self) -> tuple[float, float | None]:
        """Predicted speed-up over Vanilla, and its spread after past runs; ``None`` where there are none."""
        forecast = self.forecast
        return forecast.speedup, None if forecast.error is None else forecast.speedup * forecast.error

    @property
    def has_aging(self) -> bool:
        """Whether `stale_loss` is known already, so that it costs nothing; widths that nobody assigns do not age."""
        return not self.settings.assigns or self._front_key in self._drifts

    @property
    def stale_loss(self) -> float:
        """What widths lose by growing old over a period: mean excess of the assigner's objective, 0.1 is a tenth."""
        now = self.settings
        if not now.assigns:
            return 0.0
        if self._front_key not in self._drifts:
            drift = self.look().drift(lam=_DRIFT_LAM, group_size=now.group_size, widths=now.widths)
            self._drifts[self._front_key] = drift
        return self._drifts[self._front_key].of_period(now.period)

    @property
    def sentence(self) -> str:
        """The prediction in words."""
        forecast = self.forecast
        faster, spread = self.speedup
        about = "" if spread is None else f" (± {spread:.1g})"
        words = [
            f"predicted {faster:.2f}×{about} Vanilla: {1e3 * forecast.epoch_s:.1f} ms an epoch instead of "
            f"{1e3 * forecast.vanilla_s:.1f}",
            f"{forecast.mean_bits:.2f} bits a row on average, {forecast.bytes_sent / 1e6:.2f} MB an epoch",
        ]
        if bounds := self.bound_per_layer:
            words.append("bound of Theorem 3 " + ", ".join(f"layer {n + 1}: {powered(q)}" for n, q in bounds.items()))
        if self.settings.assigns and self.has_aging:
            words.append(f"widths lose {self.stale_loss:.0%} by growing old over {self.settings.period} epochs")
        if forecast.assumes:
            words.append(f"assumes {', '.join(forecast.assumes)}")
        if not self.timed:
            words.append("seconds are a first guess, not timed yet")
        return " · ".join(words)

    @property
    def position(self) -> str:
        """The system and its settings in words."""
        now = self.settings
        if now.system == "adaqp":
            return f"λ {now.lam:g}, groups of {now.group_size}"
        told = ", ".join(f"{knob.label} {now.value(name)}" for name, knob in now.knobs.items() if knob.setting)
        return f"{now.system}{', ' if told else ''}{told}"

    @property
    def title(self) -> str:
        """Graph, workers, link and model in one line."""
        now, graph = self.settings, self.graph
        hosts = "one machine" if now.link == LOOPBACK else f"2 hosts · link {now.link} (emulated)"
        return (
            f"{graph.name} · {graph.num_nodes:,} nodes · {now.workers} workers on {hosts} · {now.model}, "
            f"{now.layers} layers × {now.hidden}"
        )

    def to_frame(self) -> DataFrame:
        """The front as a table: ``lam, epoch_s, speedup, variance, bound, bytes_sent, mean_bits``."""
        return self.look(system=self._assigning["system"]).front_frame(**self._assigning).set_index("lam")

    @property
    def _front_key(self) -> tuple[Any, ...]:
        return (self._place(), self.timed, *map(str, self._assigning.items()))

    # -- what a script needs --------------------------------------------------------------------------------------

    @property
    def config(self) -> RunConfig:
        """The run that this position describes."""
        return configure(self.source, system=self.settings.system, **self.settings.told, **self._words(self.settings))

    def to_code(self) -> str:
        """Python that trains the same."""
        source = self.config.graph
        now = self.settings
        default = {knob.setting: knob.default for knob in now.knobs.values()}
        told = {name: value for name, value in now.told.items() if name in now.steerable or value != default[name]}
        settings = {"system": now.system, **self._words(now), **told}
        words = [f"{name}={value!r}" for name, value in settings.items()]
        lines, line = [], "   "
        for word in words:
            if len(line) + len(word) > 100:
                lines.append(line)
                line = "   "
            line += f" {word},"
        body = "\n".join([*lines, line])
        return f"import gnnqlab as gq\n\ngraph = gq.load({source!r})\nrun = gq.launch(\n    graph,\n{body}\n)\n"

    def _words(self, settings: TunerSettings) -> dict[str, Any]:
        """What `gnnqlab.configure` takes beside the system."""
        shape = {"model": settings.model, "layers": settings.layers, "hidden": settings.hidden}
        return {**shape, "workers": settings.workers, **settings.where, **self._training}

    @property
    def _assigning(self) -> dict[str, Any]:
        """What a front stands on: the settings without λ and the period, which no usual epoch depends on."""
        now = self.settings
        if not now.assigns:
            return {"system": "adaqp"}
        told = {name: value for name, value in now.told.items() if name not in ("lam", "period", "among")}
        return {"system": now.system, "widths": now.widths, **told}


def powered(number: float) -> str:
    """Return a number with two digits, without an ``e-`` that a line may break in.

    Example:
        >>> powered(2.5e-05), powered(0.034), powered(120.0)
        ('2.5·10⁻⁵', '0.034', '120')
    """
    if number == 0 or 1e-3 <= abs(number) < 1e4:
        return f"{number:.2g}" if abs(number) < 100 else f"{number:.0f}"
    digits, _, exponent = f"{number:.1e}".partition("e")
    return f"{digits}·10{str(int(exponent)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
