"""``gq.probe``: measurements from which trainings can be predicted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from gnnqlab.bits.assigner.assigned import Assigned, AssignedWidths
from gnnqlab.former_names import FormerMember, accepts_former_names
from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import load
from gnnqlab.launch.calibrate import resolve_comm_share
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.settings import Former
from gnnqlab.systems.registry import make_system
from gnnqlab.systems.system import System
from gnnqlab.train.config.configure import configure
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.tune.drift import Drift, drift
from gnnqlab.tune.estimate import estimate_timing
from gnnqlab.tune.forecast import Forecast
from gnnqlab.tune.memory import predict_memory
from gnnqlab.tune.offline_assigner import OfflineAssigner, Widths
from gnnqlab.tune.prediction import Prediction, predict_widths
from gnnqlab.tune.prediction_error import compare_with_runs, median_error
from gnnqlab.tune.timing import Timing, measure_timing, probed_parts, read_cached_timing, with_probed_parts
from gnnqlab.tune.trace import trace
from gnnqlab.tune.traced import Trace
from gnnqlab.tune.wire import Wire

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Probe", "probe"]

LAMS = tuple(float(lam) for lam in np.linspace(0, 1, 11))
"""λ of a Pareto front."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Probe:
    """Measurements of a few epochs on one graph, model and link; forecasts need no further training."""

    config: RunConfig
    """Probed configuration: Vanilla on one cut of the graph, with one exchange and one precision."""
    trace: Trace
    """Messages and their ranges."""
    timing: Timing
    """Seconds of launched workers."""
    wire: Wire
    """Link to predict for: the probed one, or another one from `with_link`."""
    error: float | None = None
    """Median of ``|predicted - measured| / measured`` over finished runs like this; ``None`` without such runs."""
    _cache: dict[Any, Any] = field(init=False, repr=False, default_factory=dict)
    """Forecasts by system, epoch and base; drifts by settings."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "timing", self.timing.with_equal_computation)

    @accepts_former_names
    def forecast(
        self,
        *,
        lam: float | None = None,
        group_size: int | None = None,
        bit_widths: Annotated[Sequence[int] | None, Former("widths")] = None,
        period: int | None = None,
        system: str | System = "adaqp",
        epoch: int | None = None,
        base: int | None = None,
        **settings: Any,
    ) -> Forecast:
        """Predict one setting; every part of the system predicts its own effect on bytes, seconds and variance.

        Args:
            lam: λ; like the next three for policies with this setting, by default that of the system.
            group_size: rows that share a bit-width.
            bit_widths: bit-widths to choose from.
            period: epochs between assignments; stored in the forecast.
            system: a name, or a system. A system by name is predicted on the probe's cut of the graph.
            epoch: epoch to predict, with its bit-widths and its sample. By default a typical one: the first assignment,
                draw or bit-width of a plan, and the expected share of sampled rows; see ``Forecast.assumes``.
            base: base bit-width to assume, for a policy that moves one; by default that to which the traced losses have
                moved it.
            **settings: further settings of the system's recipe, for instance ``bits=4``.

        Raises:
            ValueError: if a name or a setting is wrong, the policy has no such setting, partition, exchange or compute
                differ from those that were probed, or a part of the system cannot be predicted.

        Example:
            ``gq.probe("digits").forecast(lam=0.3).speedup``
        """
        recipe = make_system(system, **settings)
        widths = None if bit_widths is None else tuple(bit_widths)
        bits = {"lam": lam, "group_size": group_size, "bit_widths": widths, "period": period}
        recipe = _with_bit_settings(recipe, {name: value for name, value in bits.items() if value is not None})
        return self._cached_forecast(self._on_probed_cut(recipe, by_name=isinstance(system, str)), epoch, base)

    @property
    def vanilla(self) -> Forecast:
        """Forecast of Vanilla on the same link."""
        return self.forecast(system=self.config.system)

    @accepts_former_names
    def front(
        self,
        lams: Sequence[float] = LAMS,
        *,
        group_size: int | None = None,
        bit_widths: Annotated[Sequence[int] | None, Former("widths")] = None,
        **settings: Any,
    ) -> list[Forecast]:
        """Predict one setting at many λ, time against variance; the other settings are those of :meth:`forecast`.

        Returns:
            A forecast for each λ, in the order of ``lams``; all are cached.
        """
        return [self.forecast(lam=lam, group_size=group_size, bit_widths=bit_widths, **settings) for lam in lams]

    def front_frame(self, lams: Sequence[float] = LAMS, **settings: Any) -> DataFrame:
        """Return :meth:`front` as a table: ``lam, epoch_s, speedup, variance, bound, bytes_sent, mean_bits``."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "lam": forecast.lam,
                    "epoch_s": forecast.epoch_s,
                    "speedup": forecast.speedup,
                    "variance": forecast.total_variance,
                    "bound": forecast.total_bound,
                    "bytes_sent": forecast.bytes_sent,
                    "mean_bits": forecast.mean_bits,
                }
                for forecast in self.front(lams, **settings)
            ]
        )

    @accepts_former_names
    def drift(
        self,
        *,
        lam: float = 0.5,
        group_size: int = 100,
        bit_widths: Annotated[Sequence[int], Former("widths")] = (2, 4, 8),
    ) -> Drift:
        """Return the objective lost by bit-widths of an earlier epoch; see :mod:`gnnqlab.tune.drift`."""
        settings = Assigned(lam=lam, group_size=group_size, bit_widths=tuple(bit_widths))
        key = ("drift", settings)
        if key not in self._cache:
            self._cache[key] = drift(self._assigner, settings, self.wire.cost(), transport=self.wire.transport)
        cached_drift: Drift = self._cache[key]
        return cached_drift

    def widths(self, forecast: Forecast | None = None, **settings: Any) -> Widths:
        """Return the bit-width of every row of a forecast, or of one with the settings of :meth:`forecast`.

        Raises:
            ValueError: if both are given.
        """
        if forecast is not None and settings:
            raise ValueError(f"widths needs a forecast or settings, got both, {sorted(settings)}; omit one of them")
        basis = forecast or self.forecast(**settings)
        assigner = self._assigner_of(basis.recipe)
        return predict_widths(assigner, self.wire, basis.recipe, epoch=basis.epoch, base=basis.base).widths

    def build_policy(self, forecast: Forecast) -> AssignedWidths:
        """Return a policy with the bit-widths of a forecast installed, for measurements."""
        return self._assigner_of(forecast.recipe).build_policy(self.widths(forecast))

    def prediction(self, forecast: Forecast) -> Prediction:
        """Return the prediction behind a forecast: bytes of every message, seconds by phase, the wire."""
        return self._prediction(forecast.recipe, forecast.epoch, forecast.base)

    def compare_with_runs(self, root: Path | str | None = None) -> DataFrame:
        """Return predicted and measured epochs of finished runs like this; see `prediction_error.compare_with_runs`."""
        return compare_with_runs(self.config, lambda system: self.forecast(system=system), root)

    def with_link(self, link: str, *, hosts: int = 2) -> Probe:
        """Return a probe for another link: computation as measured, transfers at the rate in the link's name.

        Its ``error`` remains that of predictions for the probed link.

        Args:
            link: a rate, such as ``"100mbit"``.
            hosts: number of hosts that the workers are spread over.

        Raises:
            ValueError: if the name of the link is wrong, or workers are not a multiple of the hosts.
        """
        own_hosts = self.config.launch.hosts or 1
        if hosts != own_hosts and self.config.system.exchange.hierarchical:
            raise ValueError(
                f"hosts must be {own_hosts} as probed, because host aggregation depends on it, got {hosts}; probe with "
                f"hosts={hosts}"
            )
        wire = Wire.from_rate(
            link,
            workers=self.wire.workers,
            hosts=hosts,
            gamma_s=self.timing.wire.gamma_s,  # latency and waiting, independent of the rate
            transport=self.wire.transport,
        )
        return replace(self, wire=wire, timing=self.timing.with_rate(wire.theta_s_per_byte))

    # Names until version 1.0.
    installed = FormerMember("build_policy")
    past = FormerMember("compare_with_runs")
    over = FormerMember("with_link")

    def __repr__(self) -> str:
        rows = sum(message.num_rows for message in self.trace.messages)
        seconds = "" if self.timing.launched else " (an estimate)"
        return (
            f"<Probe of {Path(self.config.graph).name}: {self.config.model.name}, {self.config.workers} workers over "
            f"{self.wire.name}, {rows} rows per epoch; Vanilla {self._vanilla_s * 1e3:.2f} ms{seconds}>"
        )

    def _on_probed_cut(self, system: System, *, by_name: bool) -> System:
        """Return the system on the probe's cut; refuse parts that were neither traced nor timed."""
        probed_system = self.config.system
        # A system by name has default partition and exchange, in place of which those of the probe are predicted.
        if by_name and (system.partition, system.exchange) == (System().partition, System().exchange):
            system = replace(system, partition=probed_system.partition, exchange=probed_system.exchange)
        for axis, part in probed_parts(system).items():
            probed_part = probed_parts(probed_system)[axis]
            if part != probed_part:
                raise ValueError(
                    f"{axis} must be as probed, {probed_part}, got {part}; probe with it: "
                    f"gq.probe(..., system=replace(gq.systems.vanilla(), {axis}=...))"
                )
        return system

    def _cached_forecast(self, system: System, epoch: int | None, base: int | None) -> Forecast:
        facts = {**system.to_json(), "name": None}  # the name of a system changes no prediction
        key = json.dumps([facts, epoch, base], sort_keys=True, default=repr)  # a user's part may not be JSON
        if key not in self._cache:
            forecast = self._prediction(system, epoch, base).forecast(self._vanilla_s, self.error)
            self._cache[key] = replace(forecast, measure_memory=partial(self._memory, system))  # a trial only on demand
        result: Forecast = self._cache[key]
        return result if result.system == system.name else replace(result, system=system.name, recipe=system)

    def _memory(self, system: System) -> dict[str, int]:
        config = self.config
        placed_system = replace(config, system=system).system_on_hosts
        return predict_memory(config.graph, config.model, placed_system, workers=config.workers, settings=config.train)

    @cached_property
    def _assigner(self) -> OfflineAssigner:
        return OfflineAssigner(self.trace)

    @cached_property
    def _aggregate_first_assigner(self) -> OfflineAssigner:
        """Offline assigner for systems that aggregate rows with dropout before they project them."""
        return OfflineAssigner(self.trace.aggregate_first)

    @cached_property
    def _vanilla_s(self) -> float:
        return sum(self._prediction(self.config.system).phases.values())

    def _prediction(self, system: System, epoch: int | None = None, base: int | None = None) -> Prediction:
        assigner = self._assigner_of(system)
        return Prediction(assigner=assigner, timing=self.timing, wire=self.wire, system=system, epoch=epoch, base=base)

    def _assigner_of(self, system: System) -> OfflineAssigner:
        # The order of aggregation and projection decides the columns of every message.
        return self._aggregate_first_assigner if system.aggregates_before_projection else self._assigner


def probe(
    graph: GraphLike | RunConfig,
    *,
    model: str | ModelSettings = "gcn",
    system: str | System = "vanilla",
    workers: int = 2,
    epochs: int = 24,
    timed_epochs: int = 20,
    fresh: bool = False,
    launched: bool = True,
    quantile: float = 0.5,
    theorem: bool = True,
    **settings: Any,
) -> Probe:
    """Measure the inputs of predictions for a graph: ranges of rows, seconds of computation, the link.

    Some epochs are traced on workers in this process, and two short runs are launched over the link; their timing is
    stored in the cache for later probes.

    Args:
        graph: a graph, or its name or path; or the whole configuration of a run.
        model: a model's name, or its settings.
        system: its partition, exchange and precision are probed; the other axes are chosen in `Probe.forecast`.
        workers: number of partitions, at least 2.
        epochs: number of epochs to trace; more of them show the drift of ranges, which decides the period.
        timed_epochs: number of epochs of each launched run.
        fresh: repeat the timing of launched runs even if it is in the cache.
        launched: time launched runs, some seconds the first time. If false and the cache has no timing, seconds are
            estimated from the traced epochs' processor time and the rate of the link.
        quantile: over the epochs of launched runs; see :func:`gnnqlab.tune.timing.read_epoch_time`.
        theorem: also trace the inputs of Theorem 3's bound.
        **settings: as for :func:`gnnqlab.configure`: ``hosts``, ``link``, ``layers``, ``hidden``, ``transport`` ...

    Returns:
        A :class:`Probe`; :meth:`Probe.forecast` predicts a setting, :meth:`Probe.front` the front over λ.

    Raises:
        ValueError: if a name, a setting or a value is wrong, there is only one worker, input features are sent once, or
            edges have features.

    Example:
        ``gq.probe("digits", workers=4, hosts=2, link="100mbit").forecast(lam=0.5)``
    """
    config = _vanilla_config(graph, model, system, workers, settings)
    if config.train.input_features != "resend":
        raise ValueError("a probe needs rows that are sent in every epoch, got input_features 'cache'; choose 'resend'")
    loaded_graph = graph if isinstance(graph, Graph) else load(config.graph)
    if loaded_graph.edge_features is not None:
        raise ValueError(
            "a probe predicts seconds and memory only of models without edge features, got a graph whose edges have "
            "features; launch a short run with memory_every=1, or probe graph.without_edge_features()"
        )
    # Ranges of rows and processor time, from threads of this process.
    graph_trace = trace(
        loaded_graph,
        config.model,
        config.system_on_hosts,
        workers=config.workers,
        epochs=epochs,
        settings=config.train,
        theorem=theorem,
    )
    # Seconds: a stored measurement is better than an estimate.
    timing = None if launched else read_cached_timing(config)
    if timing is None:
        if launched:
            timing = measure_timing(config, epochs=timed_epochs, fresh=fresh, quantile=quantile)
        else:
            timing = estimate_timing(config, graph_trace)
    graph_probe = Probe(config=config, trace=graph_trace, timing=timing, wire=timing.wire)
    # Forecasts of earlier runs need the probe itself, so their error is added last.
    return replace(graph_probe, error=median_error(graph_probe.compare_with_runs()["error"]))


def _vanilla_config(
    graph: GraphLike | RunConfig,
    model: str | ModelSettings,
    system: str | System,
    workers: int,
    settings: dict[str, Any],
) -> RunConfig:
    """Return the configuration of Vanilla, with the rate of the link; for ``comm_share`` it is calibrated first."""
    if isinstance(graph, RunConfig):
        if settings:
            raise ValueError(
                f"a configuration contains all settings, got {sorted(settings)} as well; replace them in the "
                "configuration"
            )
        config = graph
    else:
        config = configure(graph, model=model, system=system, workers=workers, **settings)
    config.require_nodes("gq.probe")
    # Float32 rows over the probed cut, exchange and precision.
    config = replace(config, system=with_probed_parts(make_system("vanilla"), config.system))
    return resolve_comm_share([config])[0] if config.launch.comm_share is not None else config


def _with_bit_settings(system: System, settings: dict[str, Any]) -> System:
    """Return the system with other settings of its bit policy."""
    bits: Any = system.bits  # a dataclass, as System has checked
    unknown = sorted(set(settings) - {setting.name for setting in fields(bits)})
    if unknown:
        kind = type(bits).__name__
        raise ValueError(f"bits {kind} of system {system.name!r} have no {unknown}; leave them out or choose adaqp")
    return replace(system, bits=replace(bits, **settings)) if settings else system
