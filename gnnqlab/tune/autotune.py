"""``gq.autotune``: λ, group size and period chosen by prediction and confirmed by short runs.

The paper sets them by hand (AdaQP Table 8, Figs. 10 and 11). Here every λ and group size is forecast from one probe,
the period follows from the drift of value ranges, and the best few settings and Vanilla are trained for some epochs.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gnnqlab.cards import table_html
from gnnqlab.former_names import accepts_former_names
from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import load
from gnnqlab.launch.local import launch
from gnnqlab.settings import Former
from gnnqlab.simulation.gradient_noise import gradient_noise
from gnnqlab.systems.registry import make_system
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.tune.drift import PERIODS
from gnnqlab.tune.forecast import Forecast
from gnnqlab.tune.probe import Probe, probe
from gnnqlab.tune.timing import read_epoch_time, with_probed_parts

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["TARGETS", "Autotuned", "Trial", "autotune", "search"]

TARGETS = ("time", "accuracy", "balanced")
LAMS = tuple(round(0.1 * step, 1) for step in range(11))  # rounded: 3 · 0.1 is not the float 0.3
GROUP_SIZES = (10, 30, 100, 300)
_EPOCHS = 20


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One setting: its prediction, and the results of a short run and of repeated passes."""

    system: str
    lam: float | None
    group_size: int | None
    period: int | None
    predicted_s: float
    measured_s: float
    predicted_bound: float | None
    """Bound of Theorem 3 over all weights."""
    measured_variance: float | None
    """Variance of the gradient, at the weights of the last traced epoch."""
    predicted_bytes: int
    measured_bytes: int

    @property
    def error(self) -> float:
        """Predicted over measured seconds, minus 1."""
        return self.predicted_s / self.measured_s - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Autotuned:
    """The chosen setting, with all predictions and measurements."""

    target: str
    probe: Probe
    best: Trial
    vanilla: Trial
    trials: tuple[Trial, ...]
    """Measured settings, the best by prediction first."""
    searched: int
    """Number of settings that were forecast."""
    drift_loss: float
    """Predicted loss by stale bit-widths with the chosen period, relative to the objective."""
    config: RunConfig
    """Configuration with the chosen setting, for ``gnnqlab.launch.local.launch(tuned.config)``."""

    @property
    def lam(self) -> float:
        assert self.best.lam is not None
        return self.best.lam

    @property
    def group_size(self) -> int:
        assert self.best.group_size is not None
        return self.best.group_size

    @property
    def period(self) -> int:
        assert self.best.period is not None
        return self.best.period

    @property
    def speedup(self) -> float:
        """Measured speed-up over Vanilla."""
        return self.vanilla.measured_s / self.best.measured_s

    @property
    def predicted_speedup(self) -> float:
        return self.vanilla.predicted_s / self.best.predicted_s

    def to_frame(self) -> DataFrame:
        """Return a table of Vanilla and every trial, with predicted and measured values."""
        import pandas as pd

        return pd.DataFrame([_words(trial) for trial in (self.vanilla, *self.trials)])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that ``gnnqlab autotune --json`` prints."""
        return {
            "graph": self.config.graph,
            "model": self.config.model.name,
            "workers": self.config.workers,
            "link": self.probe.wire.name,
            "target": self.target,
            "lam": self.lam,
            "group_size": self.group_size,
            "period": self.period,
            "predicted": {
                "epoch_s": self.best.predicted_s,
                "speedup": self.predicted_speedup,
                "variance_bound": self.best.predicted_bound,
                "bytes_sent": self.best.predicted_bytes,
                "stale_loss": self.drift_loss,
            },
            "measured": {
                "epoch_s": self.best.measured_s,
                "speedup": self.speedup,
                "variance": self.best.measured_variance,
                "bytes_sent": self.best.measured_bytes,
            },
            "vanilla": _words(self.vanilla),
            "trials": [_words(trial) for trial in self.trials],
            "searched": self.searched,
        }

    def __repr__(self) -> str:
        return f"<Autotuned {self._title()}>"

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        return table_html(frame.set_index(frame.columns[0]), caption=self._title())

    def _title(self) -> str:
        return (
            f"for {self.target}: λ = {self.lam:g}, groups of {self.group_size}, period {self.period}; predicted "
            f"{self.predicted_speedup:.2f}×, measured {self.speedup:.2f}× Vanilla over {self.probe.wire.name}"
        )


@accepts_former_names
def autotune(
    graph: GraphLike | RunConfig,
    *,
    target: str = "balanced",
    most_variance: float = 300.0,
    most_slower: float = 0.1,
    most_stale: float = 0.1,
    bit_widths: Annotated[Sequence[int], Former("widths")] = (2, 4, 8),
    confirm: int = 2,
    repeats: int = 12,
    epochs: int = _EPOCHS,
    known: Probe | None = None,
    out: Path | str | None = None,
    say: Callable[[str], None] = lambda line: None,
    **settings: Any,
) -> Autotuned:
    """Choose λ, group size and period of AdaQP for a graph, a model and a link.

    Args:
        graph: a graph, its name or path, or a whole configuration.
        target: ``time``: the fastest whose bound on the gradient variance (Theorem 3) is at most ``most_variance``
            times that of λ = 1; ``accuracy``: the smallest bound whose epoch is at most ``most_slower`` longer than
            the fastest; ``balanced``: nearest to both optima, with equal weights of time and logarithm of the bound.
        most_variance: for ``time``; with 2, 4 and 8 bits, 4 everywhere have 289 times the variance of 8.
        most_slower: for ``accuracy``; 0.1 is a tenth.
        most_stale: limit of the mean loss by stale bit-widths between assignments, relative to the objective; the
            longest period within it is chosen.
        bit_widths: bit-widths to choose from.
        confirm: number of the best settings to train, at least 1.
        repeats: passes per measured variance, at least 2; 0: no measurement.
        epochs: of each confirming run, at least 6.
        known: existing probe of the same graph, model and link.
        out: folder for the confirming runs; by default they are deleted.
        say: called with a line of text about each step.
        **settings: as for :func:`gnnqlab.probe`.

    Returns:
        An :class:`Autotuned`: ``.lam``, ``.group_size``, ``.period``, ``.config``; ``.to_frame()`` compares predicted
        and measured values.

    Raises:
        ValueError: if the target is unknown or a number out of its range.

    Example:
        ``gq.autotune("digits", target="time", hosts=2, link="100mbit")``
    """
    _check(target, most_variance, most_slower, confirm, repeats, epochs)
    say("probing: traces ranges, launches two short runs")
    graph_probe = known or probe(graph, **settings)
    ranked_forecasts = search(
        graph_probe, target=target, most_variance=most_variance, most_slower=most_slower, bit_widths=tuple(bit_widths)
    )
    num_searched = len(LAMS) * len(GROUP_SIZES)
    loaded_graph = graph if isinstance(graph, Graph) else load(graph_probe.config.graph)
    candidates = []
    for forecast in ranked_forecasts[:confirm]:
        assert forecast.lam is not None and forecast.group_size is not None
        drift = graph_probe.drift(lam=forecast.lam, group_size=forecast.group_size, bit_widths=bit_widths)
        # A period does not change the time of a typical epoch, so it is chosen afterwards, from the drift.
        candidates.append(replace(forecast, period=drift.period(most_stale, periods=PERIODS)))
    with tempfile.TemporaryDirectory(prefix="gnnqlab-autotune-") as folder:
        root = folder if out is None else out

        def run_trial(forecast: Forecast) -> Trial:
            say(f"training {epochs} epochs: {forecast!r}")
            return _trial(graph_probe, loaded_graph, forecast, epochs=epochs, repeats=repeats, root=root)

        vanilla = run_trial(graph_probe.vanilla)  # close in time, under about the same load
        trials = tuple(run_trial(forecast) for forecast in candidates)
    # Predictions only select the candidates; the measurement decides.
    best_trial = min(trials, key=lambda trial: _score(trial, target, trials))
    assert best_trial.lam is not None and best_trial.group_size is not None and best_trial.period is not None
    drift = graph_probe.drift(lam=best_trial.lam, group_size=best_trial.group_size, bit_widths=bit_widths)
    return Autotuned(
        target=target,
        probe=graph_probe,
        best=best_trial,
        vanilla=vanilla,
        trials=trials,
        searched=num_searched,
        drift_loss=drift.mean_loss(best_trial.period),
        config=_config(graph_probe, best_trial.lam, best_trial.group_size, best_trial.period, tuple(bit_widths)),
    )


@accepts_former_names
def search(
    seen: Probe,
    *,
    target: str = "balanced",
    most_variance: float = 300.0,
    most_slower: float = 0.1,
    bit_widths: Annotated[tuple[int, ...], Former("widths")] = (2, 4, 8),
) -> list[Forecast]:
    """Forecast every λ and group size; return those that meet the target, the best first."""
    forecasts = [
        seen.forecast(lam=lam, group_size=size, bit_widths=bit_widths)
        for size, lam in itertools.product(GROUP_SIZES, LAMS)
    ]
    # Best value of each objective, to which the limits below are relative.
    least_s = min(each.epoch_s for each in forecasts)
    least_noise = min(_noise(each) for each in forecasts)
    if target == "time":
        candidates = [each for each in forecasts if _noise(each) <= most_variance * least_noise]
        return sorted(candidates, key=lambda each: (each.epoch_s, _noise(each)))  # noise decides between equal times
    if target == "accuracy":
        candidates = [each for each in forecasts if each.epoch_s <= (1 + most_slower) * least_s]
        return sorted(candidates, key=lambda each: (_noise(each), each.epoch_s))
    most_s, most_noise = max(each.epoch_s for each in forecasts), max(_noise(each) for each in forecasts)

    # Both axes scaled to [0, 1]; noise by its logarithm, because bounds span orders of magnitude.
    def distance(forecast: Forecast) -> float:
        relative_s = (forecast.epoch_s - least_s) / (most_s - least_s) if most_s > least_s else 0.0  # in [0, 1]
        noise = (
            math.log(_noise(forecast) / least_noise) / math.log(most_noise / least_noise)
            if most_noise > least_noise
            else 0.0
        )
        return math.hypot(relative_s, noise)

    return sorted(forecasts, key=distance)


def _noise(forecast: Forecast) -> float:
    """Return the bound if it was traced, else V; positive, because its logarithm is needed."""
    bound = forecast.total_bound
    return max(forecast.total_variance if bound is None else bound, 1e-300)


def _score(trial: Trial, target: str, trials: Sequence[Trial]) -> float:
    """Return the value that the best trial minimizes: measured time, measured variance, or both combined."""
    if target == "time":
        return trial.measured_s
    noise = trial.measured_variance if trial.measured_variance is not None else trial.predicted_bound or 0.0
    if target == "accuracy":
        return noise
    return trial.measured_s * max(noise, 1e-300) ** 0.1  # ten times the variance counts as much as a quarter more time


def _trial(graph_probe: Probe, graph: Graph, forecast: Forecast, *, epochs: int, repeats: int, root: Any) -> Trial:
    config = graph_probe.config
    if forecast.lam is not None:
        assert forecast.group_size is not None and forecast.period is not None and forecast.bit_widths is not None
        config = _config(graph_probe, forecast.lam, forecast.group_size, forecast.period, forecast.bit_widths)
    run = launch(replace(config, train=replace(config.train, epochs=epochs, evaluate_every=0)), root=root, wait=True)
    variance = None
    if repeats and forecast.lam is not None:  # Vanilla has no noise from rounding
        # Bit-widths and weights are fixed and dropout is off, so that passes differ in rounding noise only.
        bits = graph_probe.build_policy(forecast)
        variance = gradient_noise(
            graph,
            bits,
            config.model,
            workers=config.workers,
            repeats=repeats,
            weights=graph_probe.trace.weights,  # those of the last traced epoch, at which the bound was computed
            system=config.system_on_hosts,
            seed=config.train.seed,
        ).variance
    return Trial(
        system=forecast.system,
        lam=forecast.lam,
        group_size=forecast.group_size,
        period=forecast.period,
        predicted_s=forecast.epoch_s,
        measured_s=read_epoch_time(run).epoch_s,
        predicted_bound=forecast.total_bound,
        measured_variance=variance,
        predicted_bytes=forecast.bytes_sent,
        measured_bytes=run.summary["bytes_sent"],
    )


def _config(graph_probe: Probe, lam: float, group_size: int, period: int, bit_widths: tuple[int, ...]) -> RunConfig:
    system = make_system("adaqp", lam=lam, group_size=group_size, period=period, bit_widths=bit_widths)
    return replace(graph_probe.config, system=with_probed_parts(system, graph_probe.config.system))


def _words(trial: Trial) -> dict[str, Any]:
    return {
        "system": trial.system,
        "lam": trial.lam,
        "group_size": trial.group_size,
        "period": trial.period,
        "predicted_s": trial.predicted_s,
        "measured_s": trial.measured_s,
        "error": trial.error,
        "predicted_bound": trial.predicted_bound,
        "measured_variance": trial.measured_variance,
        "predicted_bytes": trial.predicted_bytes,
        "measured_bytes": trial.measured_bytes,
    }


def _check(target: str, most_variance: float, most_slower: float, confirm: int, repeats: int, epochs: int) -> None:
    if target not in TARGETS:
        raise ValueError(f"target must be one of {TARGETS}, got {target!r}")
    if most_variance < 1:
        raise ValueError(f"most_variance must be at least 1, the variance of λ = 1 itself, got {most_variance}")
    if most_slower < 0:
        raise ValueError(f"most_slower must not be negative, got {most_slower}")
    if confirm < 1 or epochs < 6:
        raise ValueError(f"confirm must be at least 1 and epochs at least 6, got {confirm} and {epochs}")
    if repeats < 0 or repeats == 1:
        raise ValueError(f"repeats must be 0, or at least 2 to have a variance, got {repeats}")
