"""``gq.probe``: everything that is needed to predict a training without training it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gnnqlab.bits.assigned import Assigned, AssignedWidths
from gnnqlab.bits.policy import Fixed
from gnnqlab.exchange.schedule import Overlapped
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import load
from gnnqlab.launch.calibrate import settle
from gnnqlab.message.codec import Float32
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.systems.system import System, make_system
from gnnqlab.theory.variance import AVERAGE
from gnnqlab.train.config import RunConfig
from gnnqlab.train.configure import configure
from gnnqlab.tune.assign import Desk, Widths
from gnnqlab.tune.drift import Drift, drift
from gnnqlab.tune.estimate import estimate_timing
from gnnqlab.tune.forecast import Forecast
from gnnqlab.tune.past import median_error, past
from gnnqlab.tune.timing import Spent, Timing, kept_timing, measure_timing
from gnnqlab.tune.trace import Trace, trace
from gnnqlab.tune.wire import Wire

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Probe", "probe"]

LAMS = tuple(float(lam) for lam in np.linspace(0, 1, 11))
"""λ of a front."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Probe:
    """What a few epochs showed of one graph, model and link; asked for a forecast it answers at once."""

    config: RunConfig
    """What was probed; Vanilla."""
    trace: Trace
    """Messages and their ranges."""
    timing: Timing
    """Seconds of launched workers."""
    wire: Wire
    """The link that is predicted for; the one that was probed unless `over` was asked for another."""
    error: float | None = None
    """Median relative error of predictions in finished runs."""
    _desk: Desk = field(init=False, repr=False)
    _kept: dict[Any, Any] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_desk", Desk(self.trace))

    def forecast(
        self,
        *,
        lam: float | None = None,
        group_size: int | None = None,
        widths: Sequence[int] | None = None,
        period: int | None = None,
        system: str | System = "adaqp",
        **settings: Any,
    ) -> Forecast:
        """Predict one setting.

        Args:
            lam: λ; like the next three for systems that assign widths, by default what the system has.
            group_size: rows that share a width.
            widths: bit-widths to choose from.
            period: epochs between assignments; kept with the forecast.
            system: a name, or a system.
            **settings: what else the system's recipe takes, for instance ``bits=4``.

        Raises:
            ValueError: if a name or a setting is wrong, or the system assigns nothing and is given λ.

        Example:
            ``gq.probe("digits").forecast(lam=0.3).speedup``
        """
        recipe = make_system(system, **settings)
        among = None if widths is None else tuple(widths)
        changes: dict[str, Any] = {"lam": lam, "group_size": group_size, "among": among, "period": period}
        given = {name: value for name, value in changes.items() if value is not None}
        if isinstance(recipe.bits, Assigned):
            recipe = replace(recipe, bits=replace(recipe.bits, **given))
        elif given:
            raise ValueError(
                f"system {recipe.name!r} assigns no widths, so it takes no {sorted(given)}; leave them out or choose "
                "adaqp"
            )
        key = repr((recipe.bits, recipe.codec, recipe.schedule, recipe.name))
        if key not in self._kept:
            self._kept[key] = self._forecast(recipe)
        found: Forecast = self._kept[key]
        return found

    @property
    def vanilla(self) -> Forecast:
        """The forecast of Vanilla on the same link."""
        return self.forecast(system="vanilla")

    def front(
        self, lams: Sequence[float] = LAMS, *, group_size: int = 100, widths: Sequence[int] = (2, 4, 8), **settings: Any
    ) -> list[Forecast]:
        """Predict one setting at many λ: time against variance.

        Returns:
            A forecast for each λ, in the order given; each is kept, so moving along the front costs nothing.
        """
        return [self.forecast(lam=lam, group_size=group_size, widths=widths, **settings) for lam in lams]

    def front_frame(self, *arguments: Any, **settings: Any) -> DataFrame:
        """Return the front as a table: ``lam, epoch_s, speedup, variance, bound, bytes_sent, mean_bits``."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "lam": each.lam,
                    "epoch_s": each.epoch_s,
                    "speedup": each.speedup,
                    "variance": each.total_variance,
                    "bound": each.total_bound,
                    "bytes_sent": each.bytes_sent,
                    "mean_bits": each.mean_bits,
                }
                for each in self.front(*arguments, **settings)
            ]
        )

    def drift(self, *, lam: float = 0.5, group_size: int = 100, widths: Sequence[int] = (2, 4, 8)) -> Drift:
        """Return what it costs to keep widths while ranges move on; see :mod:`gnnqlab.tune.drift`."""
        settings = Assigned(lam=lam, group_size=group_size, among=tuple(widths))
        key = ("drift", settings)
        if key not in self._kept:
            self._kept[key] = drift(self._desk, settings, self.wire.cost(), transport=self.wire.transport)
        found: Drift = self._kept[key]
        return found

    def widths(self, forecast: Forecast | None = None, *, index: int | None = None, **settings: Any) -> Widths:
        """Return the width of every row of a setting; see :meth:`forecast` for the settings."""
        recipe = make_system("adaqp")
        chosen = forecast or self.forecast(**settings)
        if chosen.lam is None:
            return self._desk.chosen(make_system(chosen.system).bits)
        assert isinstance(recipe.bits, Assigned) and chosen.group_size is not None and chosen.widths is not None
        bits = replace(recipe.bits, lam=chosen.lam, group_size=chosen.group_size, among=chosen.widths)
        return self._desk.assigned(bits, self.wire.cost(), index=self._at(bits, index), transport=self.wire.transport)

    def installed(self, forecast: Forecast) -> AssignedWidths:
        """Return a policy that answers with the widths of a forecast, for measurements with them."""
        return self._desk.installed(self.widths(forecast))

    def past(self, root: Path | str | None = None) -> DataFrame:
        """Return predicted and measured epochs of finished runs like this; see :func:`gnnqlab.tune.past.past`."""
        return past(self, root)

    def over(self, link: str, *, hosts: int = 2) -> Probe:
        """Return the probe for another link, by arithmetic: computation stays, the wire's rate is what its name says.

        Raises:
            ValueError: if the link cannot be read, or the hosts do not share the workers evenly.
        """
        wire = Wire.of_rate(
            link,
            workers=self.wire.workers,
            hosts=hosts,
            gamma_s=self.timing.wire.gamma_s,
            transport=self.wire.transport,
        )
        return replace(self, wire=wire)

    def __repr__(self) -> str:
        rows = sum(message.num_rows for message in self.trace.messages)
        seconds = "" if self.timing.launched else " (a guess)"
        return (
            f"<Probe of {Path(self.config.graph).name}: {self.config.model.name}, {self.config.workers} workers over "
            f"{self.wire.name}, {rows} rows an epoch; Vanilla {self.vanilla.epoch_s * 1e3:.2f} ms{seconds}>"
        )

    def _at(self, bits: Assigned, index: int | None = None) -> int:
        return self.trace.index(bits.first) if index is None else index

    def _forecast(self, recipe: System) -> Forecast:
        bits, desk = recipe.bits, self._desk
        index = 0
        if isinstance(bits, Assigned):
            index = self._at(bits)
            widths = desk.assigned(bits, self.wire.cost(), index=index, transport=self.wire.transport)
        else:
            widths = desk.chosen(bits)
        sent = desk.sent_bytes(widths)
        measured = self.timing.exact if isinstance(recipe.codec, Float32) else self.timing.quantized
        phases, wire_s = self._phases(measured, sent, overlapped=isinstance(recipe.schedule, Overlapped))
        exact = desk.sent_bytes(desk.chosen(Fixed(bits=32)))
        vanilla, _ = self._phases(self.timing.exact, exact, overlapped=False)
        bounds, share = self._bounds(widths)
        assigned = bits if isinstance(bits, Assigned) else None
        return Forecast(
            system=recipe.name,
            lam=assigned.lam if assigned else None,
            group_size=assigned.group_size if assigned else None,
            widths=assigned.among if assigned else None,
            period=assigned.period if assigned else None,
            phases=phases,
            wire_s=wire_s,
            vanilla_s=sum(vanilla.values()),
            bytes_sent=int(sum(each.sum() for each in sent.values())),
            variance=desk.variance(widths, index),
            bounds=bounds,
            noise_share=share,
            rows=_histogram(widths),
            pair_bits=_pair_bits(desk, widths),
            link=self.wire.name,
            error=self.error,
        )

    def _phases(
        self, measured: Spent, sent: dict[tuple[int, str], np.ndarray], *, overlapped: bool
    ) -> tuple[dict[str, float], float]:
        """Return seconds by phase, and those that rows are under way."""
        phases = dict(measured.phases)
        wire = {place: self.wire.exchange_s(amount) for place, amount in sent.items()}
        hidden = 0.0
        if overlapped:
            work = _central_work(self.trace)
            whole = sum(work.values()) or 1.0
            hidden = sum(min(wire[place], phases["central"] * work[place] / whole) for place in wire)
        probed = self.timing.wire
        if self.wire.theta_s_per_byte != probed.theta_s_per_byte:
            # The sum of gradients crosses the same links.
            more = self.wire.theta_s_per_byte - probed.theta_s_per_byte
            phases["reduce"] = max(0.0, phases["reduce"] + more * self.wire.reduce_bytes(self.timing.gradient_bytes))
        phases["wire"] = sum(wire.values()) - hidden
        return phases, sum(wire.values())

    def _bounds(self, widths: Widths) -> tuple[dict[str, float], float | None]:
        """Return Theorem 3's bounds at the last traced epoch, and their sum over the squared gradient."""
        theorem = self.trace.theorem
        if theorem is None:
            return {}, None
        joined = {place: torch.cat([rows.long() for rows in parts]) for place, parts in widths.items()}
        noise = self.trace.noise(joined, len(self.trace.epochs) - 1)
        bounds = {f"{each.layer}.{each.name}": each.bound(noise, AVERAGE).total for each in theorem.terms}
        squared = theorem.squared_gradient
        return bounds, sum(bounds.values()) / squared if squared > 0 else None


def probe(
    graph: Graph | str | Path | RunConfig,
    *,
    model: str | ModelSettings = "gcn",
    workers: int = 2,
    epochs: int = 24,
    timed_epochs: int = 20,
    fresh: bool = False,
    launched: bool = True,
    quantile: float = 0.5,
    theorem: bool = True,
    **settings: Any,
) -> Probe:
    """Find out what is needed to predict how a graph trains: ranges of rows, seconds of computation, the link.

    Some epochs are traced on workers in this process, and two short runs are launched over the link; what was timed is
    kept in the cache and found again.

    Args:
        graph: a graph, or its name or path; or the whole configuration of a run, whose system does not matter.
        model: a model's name, or its settings.
        workers: number of partitions, at least 2.
        epochs: to trace; more of them show how ranges move on, which decides the period.
        timed_epochs: of each launched run.
        fresh: time again even if this was timed before.
        launched: time launched runs, some seconds the first time. If not, and nothing was kept from before, seconds are
            a guess from the traced epochs' processor time and the rate of the link.
        quantile: over the epochs of launched runs; see :func:`gnnqlab.tune.timing.spent`.
        theorem: also trace what Theorem 3's bound needs.
        **settings: as for :func:`gnnqlab.configure`: ``hosts``, ``link``, ``layers``, ``hidden``, ``transport`` ...

    Returns:
        A :class:`Probe`; :meth:`Probe.forecast` predicts a setting, :meth:`Probe.front` the front over λ.

    Raises:
        ValueError: if a name, a setting or a value is wrong, there is one worker only, or layer 0 is sent once.

    Example:
        ``gq.probe("digits", workers=4, hosts=2, link="100mbit").forecast(lam=0.5)``
    """
    config = _vanilla(graph, model, workers, settings)
    if config.train.layer0 != "resend":
        raise ValueError("a probe is about rows that travel in every epoch, got layer0 'once'; choose 'resend'")
    whole = graph if isinstance(graph, Graph) else load(config.graph)
    seen = trace(
        whole,
        config.model,
        config.system,
        workers=config.workers,
        epochs=epochs,
        settings=config.train,
        theorem=theorem,
    )
    timing = None if launched else kept_timing(config)
    if timing is None:
        if launched:
            timing = measure_timing(config, epochs=timed_epochs, fresh=fresh, quantile=quantile)
        else:
            timing = estimate_timing(config, seen)
    found = Probe(config=config, trace=seen, timing=timing, wire=timing.wire)
    return replace(found, error=median_error(found.past()["error"]))


def _vanilla(
    graph: Graph | str | Path | RunConfig, model: str | ModelSettings, workers: int, settings: dict[str, Any]
) -> RunConfig:
    """Return the configuration of Vanilla; the rate of a link that is asked for by its share is found first."""
    if isinstance(graph, RunConfig):
        if settings:
            raise ValueError(f"a configuration holds all settings, got {sorted(settings)} as well; replace them in it")
        config = replace(graph, system=replace(make_system("vanilla"), partition=graph.system.partition))
    else:
        config = configure(graph, model=model, system="vanilla", workers=workers, **settings)
    return settle([config])[0] if config.launch.comm_share is not None else config


def _central_work(seen: Trace) -> dict[tuple[int, str], float]:
    """Return multiplications that need nothing from other workers, for every layer and direction."""
    found = {}
    for place in seen.places:
        columns = seen.at(place)[0].columns
        edges = 0
        for shard in seen.shards:
            if place[1] == "forward":
                edges += int(shard.indptr[shard.num_central])
            else:
                edges += int((shard.indices < shard.num_owned).sum())
        found[place] = float(edges * columns)
    return found


def _histogram(widths: Widths) -> dict[int, int]:
    found: dict[int, int] = {}
    for parts in widths.values():
        for rows in parts:
            for width, count in zip(*(each.tolist() for each in rows.unique(return_counts=True)), strict=True):
                found[width] = found.get(width, 0) + count
    return dict(sorted(found.items()))


def _pair_bits(desk: Desk, widths: Widths) -> np.ndarray:
    workers = desk.trace.workers
    bits, elements = np.zeros((workers, workers)), np.zeros((workers, workers))
    for place, parts in widths.items():
        for message, rows in zip(desk.messages(place), parts, strict=True):
            bits[message.sender, message.receiver] += float(rows.double().sum()) * message.columns
            elements[message.sender, message.receiver] += message.num_rows * message.columns
    return np.divide(bits, elements, out=np.full_like(bits, np.nan), where=elements > 0)
