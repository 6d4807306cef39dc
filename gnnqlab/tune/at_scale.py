"""Epoch time on any number of workers, extrapolated from one probe, as in papers for 24 GPUs (AdaQP Table 7) or 32
(SYLVIE Tables VIII and XIII).

Counted exactly: the rows between every pair of workers on the cut of the graph for P, hence bytes and the busiest link.
Scaled: the seconds of the probe's epochs, each phase by its amount of work.

    central, marginal     edges that need no halo row, and those that do, times columns
    encode, decode        rows sent and rows received, times columns
    dense                 owned nodes
    optimizer, other      as probed
    wire                  γ + θ · bytes of the busiest link per exchange, minus the part that the schedule hides
    reduce                as probed, and θ · 2 (P - 1) / P · G bytes, and 2 (P - 1) sequential messages
    uneven                time of the slowest worker above the mean, minus that of the probe

All but the last are means over workers. G: bytes of gradients. For adaptive bit-widths the mean bytes of a row are
those of the probe.

Differs from :meth:`gnnqlab.tune.probe.Probe.forecast`, which lays out every message of one cut: for the probe's own
number of workers both agree if all rows of a layer have one bit-width. Assumptions: devices like the probe's (or
`speed` times as fast at any size), equal links that do not share a switch, γ of an exchange independent of P. Two
workers all-reduce gradients during the backward pass, more workers after it, so a probe of two is less reliable here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import load
from gnnqlab.partition.cut import on_hosts
from gnnqlab.partition.parts import cut_graph
from gnnqlab.systems.system import System
from gnnqlab.tune.cut_counts import CutCounts
from gnnqlab.tune.prediction import Prediction
from gnnqlab.tune.probe import Probe
from gnnqlab.tune.wire import WITHIN_HOST, Wire

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["at_scale"]

Array = NDArray[np.float64]
Place = tuple[int, str]
_CODING = ("encode", "decode")


@dataclass(frozen=True, kw_only=True)
class _Cluster:
    """Cluster to predict for."""

    per_host: int | None
    link: str | None
    cores: int | None
    speed: float
    gamma_s: float | None
    latency_s: float

    def __post_init__(self) -> None:
        if self.per_host is not None and self.per_host < 1:
            raise ValueError(f"per_host must be at least 1, got {self.per_host}")
        if self.cores is not None and self.cores < 1:
            raise ValueError(f"cores must be at least 1, got {self.cores}; leave it out if each worker has its own")
        if not self.speed > 0:
            raise ValueError(f"speed must be positive, got {self.speed}; 2 is twice the speed of the probe")
        if self.latency_s < 0 or (self.gamma_s or 0.0) < 0:
            raise ValueError(f"seconds must not be negative, got latency_s={self.latency_s}, gamma_s={self.gamma_s}")

    def hosts(self, workers: int, probed_wire: Wire) -> int:
        if self.per_host is None and probed_wire.hosts == 1 and self.link is None:
            return 1  # as probed: all workers on one host, with no link between hosts
        # A link between hosts needs workers per host: as passed, else one, or as many as probed.
        workers_per_host = self.per_host or (1 if probed_wire.hosts == 1 else probed_wire.workers // probed_wire.hosts)
        if workers > workers_per_host and workers % workers_per_host:
            raise ValueError(
                f"workers must be a multiple of per_host, got {workers} worker(s), {workers_per_host} on a host"
            )
        return max(1, workers // workers_per_host)

    def wire(self, workers: int, probed_wire: Wire) -> Wire:
        hosts, gamma = self.hosts(workers, probed_wire), probed_wire.gamma_s if self.gamma_s is None else self.gamma_s
        if self.link is None:
            return replace(probed_wire, workers=workers, hosts=hosts, gamma_s=gamma)
        wire = Wire.from_rate(self.link, workers=workers, hosts=hosts, gamma_s=gamma, transport=probed_wire.transport)
        return wire if hosts > 1 else replace(wire, theta_s_per_byte=1 / WITHIN_HOST)  # no row leaves the host

    def slowdown(self, workers: int, probed_workers: int) -> float:
        """Return the time of computation relative to the probe's."""
        if self.cores is None:
            return 1 / self.speed
        # Workers beyond the cores take turns; the same factor of the probe is divided out.
        return max(1.0, workers / self.cores) / max(1.0, probed_workers / self.cores) / self.speed


@dataclass(frozen=True, kw_only=True, eq=False)
class _Baseline:
    """One system's prediction for the probe's own cut, as the basis for other numbers of workers."""

    prediction: Prediction
    counts: CutCounts
    """Counts of the probe's cut."""

    def __post_init__(self) -> None:
        trace, rows = self.prediction.assigner.trace, self.counts.rows
        for place in trace.places:
            sums = np.zeros_like(rows)
            for message in trace.messages_at(place):
                sums[message.sender, message.receiver] += message.num_rows
            # The scaling below holds only if one round sends each halo row exactly once.
            if len(self.prediction.volume.rounds[place]) != 1 or not np.array_equal(sums, _from_sender(rows, place[1])):
                exchange = type(self.prediction.system.exchange).__name__
                raise ValueError(
                    f"exchange must send each halo row once, all rows of a layer at a time, got {exchange}; "
                    "gnnqlab.tune.by_workers has the bytes of others"
                )

    @property
    def columns(self) -> dict[Place, int]:
        """D of each layer and direction."""
        trace = self.prediction.assigner.trace
        return {place: trace.messages_at(place)[0].columns for place in trace.places}

    @property
    def row_bytes(self) -> dict[Place, float]:
        """Mean bytes of a halo row of each layer and direction, with quantization parameters."""
        halo = max(1, self.counts.halo_rows)  # without halo rows nothing is sent, so the mean does not matter
        return {place: float(amount.sum()) / halo for place, amount in self.prediction.volume.sent_bytes.items()}

    def work(self, counts: CutCounts) -> dict[str, Array]:
        """Return the work of each worker in each phase that depends on its part, ``(P,)``."""
        columns = self.columns.items()
        boundary, halo = (counts.rows.sum(end).astype(float) for end in (1, 0))  # (P, P) -> (P,)
        encoded_rows = {"forward": boundary, "backward": halo}  # gradients are sent in the opposite direction
        decoded_rows = {"forward": halo, "backward": boundary}
        independent_edges = {way: counts.independent_edges(way).astype(float) for way in encoded_rows}  # (P,), edges
        dependent_edges = {way: counts.dependent_edges(way).astype(float) for way in encoded_rows}
        zeros = np.zeros(counts.workers)  # start of each sum, so that no layers give (P,) too
        return {
            "central": sum((num_columns * independent_edges[way] for (_, way), num_columns in columns), zeros),
            "marginal": sum((num_columns * dependent_edges[way] for (_, way), num_columns in columns), zeros),
            "encode": sum((num_columns * encoded_rows[way] for (_, way), num_columns in columns), zeros),
            "decode": sum((num_columns * decoded_rows[way] for (_, way), num_columns in columns), zeros),
            "dense": counts.owned_nodes.astype(float),
        }

    def by_phase(self, counts: CutCounts) -> dict[str, Array]:
        """Return the seconds of each phase of computation by worker, ``(P,)``, on devices like the probe's."""
        probed_work, work = self.work(self.counts), self.work(counts)
        seconds_by_phase = {}
        for phase, seconds in self.prediction.phases.items():
            if phase in ("wire", "reduce"):
                continue
            ratio = np.ones(counts.workers)  # optimizer and other do not depend on the part
            if phase in work and probed_work[phase].mean() > 0:
                ratio = work[phase] / probed_work[phase].mean()  # the probe's seconds are means over its workers
            seconds_by_phase[phase] = seconds * ratio
        return seconds_by_phase

    def sent_bytes(self, counts: CutCounts) -> float:
        return sum(self.row_bytes.values()) * counts.halo_rows

    def row(self, counts: CutCounts, cluster: _Cluster) -> dict[str, float]:
        """Return the seconds of an epoch by purpose, and bytes."""
        probed_wire, workers = self.prediction.wire_of_rows, counts.workers
        wire, stretch = cluster.wire(workers, probed_wire), cluster.slowdown(workers, self.counts.workers)
        seconds_by_phase = {phase: stretch * seconds for phase, seconds in self.by_phase(counts).items()}
        mean_s = {phase: float(seconds.mean()) for phase, seconds in seconds_by_phase.items()}
        # γ of the probe includes waiting for its own slowest worker, so only the excess is added.
        uneven_s = max(0.0, _spread(seconds_by_phase) - _spread(self.by_phase(self.counts)))
        gradients = self.prediction.timing.gradient_bytes
        reduce_s = self._reduce(wire, cluster.latency_s)
        # Transfers, of which the schedule hides a part behind computation.
        transfers_s, exposed_s = self._transfer_seconds(counts, wire), 0.0
        if workers > 1:
            schedule = self.prediction.schedule
            central_s = [mean_s.get("central", 0.0) * share for share in self._central_shares(counts)]
            exposed_s = schedule.exposed_seconds(transfers_s, central_s, sum(mean_s.values()))
        coding_s = sum(mean_s.get(phase, 0.0) for phase in _CODING)
        computing_s = sum(mean_s.values()) - coding_s
        return {
            "hosts": wire.hosts,
            "epoch_s": computing_s + coding_s + exposed_s + reduce_s + uneven_s,
            "computing_s": computing_s,
            "coding_s": coding_s,
            "wire_s": exposed_s,
            "reduce_s": reduce_s,
            "uneven_s": uneven_s,
            "under_way_s": sum(transfers_s) if workers > 1 else 0.0,
            "bytes": self.sent_bytes(counts),
            "gradient_bytes": float(gradients * 2 * (workers - 1)),
        }

    def _reduce(self, wire: Wire, latency_s: float) -> float:
        """Return the seconds of the gradient all-reduce at the end of an epoch."""
        workers, probed_workers = wire.workers, self.counts.workers
        if workers == 1:
            return 0.0
        probed_wire, gradients = self.prediction.wire_of_rows, self.prediction.timing.gradient_bytes
        ring = wire.theta_s_per_byte * wire.reduce_bytes(gradients)
        # The probed phase includes the ring of the probe's own workers and link, so only the difference is added.
        extra_s = ring - probed_wire.theta_s_per_byte * probed_wire.reduce_bytes(gradients)
        reduce_s = max(0.0, self.prediction.phases.get("reduce", 0.0) + extra_s)
        if probed_workers == 2 < workers:
            reduce_s = max(reduce_s, ring)  # two workers hide a part of it behind the backward pass, more hide nothing
        return reduce_s + 2 * (workers - probed_workers) * latency_s if workers > probed_workers else reduce_s

    def _transfer_seconds(self, counts: CutCounts, wire: Wire) -> list[float]:
        rows = counts.rows.astype(float)
        maxima = {way: wire.busiest_bytes(_from_sender(rows, way)) for way in ("forward", "backward")}  # in rows here
        theta, gamma, sizes = wire.theta_s_per_byte, wire.gamma_s, self.row_bytes
        return [gamma + theta * sizes[place] * maxima[place[1]] for place in self.columns]  # γ + θ · bytes

    def _central_shares(self, counts: CutCounts) -> Iterator[float]:
        work = {
            place: num_columns * int(counts.independent_edges(place[1]).sum())
            for place, num_columns in self.columns.items()
        }
        total_work = sum(work.values()) or 1
        return (work[place] / total_work for place in self.columns)


def at_scale(
    probe: Probe,
    systems: Mapping[str, str | System],
    *,
    workers: Sequence[int] = (2, 4, 8, 16, 32, 64),
    per_host: int | None = None,
    link: str | None = None,
    cores: int | None = None,
    speed: float = 1.0,
    gamma_s: float | None = None,
    latency_s: float = 0.0,
    graph: Graph | None = None,
) -> DataFrame:
    """Predict an epoch of systems on any number of workers, from one probe.

    Args:
        probe: of the graph; its kind of cut, exchange and precision are scaled.
        systems: display name -> name or system on the probe's cut.
        workers: numbers of workers P.
        per_host: workers that share a host's link; by default as probed, all workers if the probe had one host.
        link: between hosts, such as ``10gbit``; by default as probed. Within one host 2 GB/s are assumed.
        cores: shared by all workers; by default each has a device of its own.
        speed: of a device relative to the probe's.
        gamma_s: γ of an exchange; by default as probed.
        latency_s: of each of the ``2 (P - 1)`` messages of a ring all-reduce of gradients.
        graph: another graph with as many features and classes, for instance a larger one; by default the probe's.

    Returns:
        One row per system and P: ``system, workers, hosts, epoch_s`` and its parts ``computing_s, coding_s, wire_s``
        (the exposed part of ``under_way_s``), ``reduce_s`` (all-reduce of gradients), ``uneven_s`` (waiting for the
        worker with the largest part, beyond the probe's); ``bytes`` (rows and quantization parameters, by all workers)
        and ``gradient_bytes`` (in a ring, by all workers).

    Raises:
        ValueError: if there is no system or P, a value is out of range, the graph has other columns, or a part cannot
            be scaled: vertex-cuts, rows sent in several rounds; and as `Probe.forecast`.

    Example:
        ``at_scale(gq.probe("digits", hosts=2, link="200mbit"), {"Vanilla": "vanilla"}, workers=(2, 8))["epoch_s"]``
    """
    import pandas as pd

    if not systems or not workers:
        raise ValueError(
            f"systems and workers must have at least one entry each, got {len(systems)} and {len(workers)}"
        )
    if min(workers) < 1:
        raise ValueError(f"numbers of workers must be at least 1, got {min(workers)}")
    cluster = _Cluster(per_host=per_host, link=link, cores=cores, speed=speed, gamma_s=gamma_s, latency_s=latency_s)
    source = load(probe.config.graph)
    target = source if graph is None else graph
    if (target.num_features, target.num_classes) != (source.num_features, source.num_classes):
        raise ValueError(
            f"graph must have {source.num_features} features and {source.num_classes} classes as the probe's, got "
            f"{target.num_features} and {target.num_classes}; probe a small graph with the same columns"
        )
    # The probe's own cut, to which the work of all other cuts is relative.
    probed_counts = _counts(probe, source, probe.config.workers, probe.config.launch.hosts or 1)
    forecasts = {name: probe.forecast(system=system) for name, system in systems.items()}
    bases = {
        name: _Baseline(prediction=probe.prediction(forecast), counts=probed_counts)
        for name, forecast in forecasts.items()
    }
    rows = []
    for count in workers:
        counts = _counts(probe, target, count, cluster.hosts(count, probe.wire))  # one cut for all systems
        rows += [{"system": name, "workers": count, **base.row(counts, cluster)} for name, base in bases.items()]
    return pd.DataFrame(rows)


def _counts(probe: Probe, graph: Graph, workers: int, hosts: int) -> CutCounts:
    return CutCounts.from_cut(graph, cut_graph(graph, on_hosts(probe.config.system.partition, hosts), workers))


def _from_sender(rows: NDArray[Any], direction: str) -> NDArray[Any]:
    """Return rows from sender to receiver: embeddings go from owner to holder, gradients back."""
    return rows if direction == "forward" else rows.T


def _spread(seconds_by_phase: Mapping[str, Array]) -> float:
    """Return the time of the slowest worker above the mean."""
    worker_seconds = sum(seconds_by_phase.values(), np.zeros(1))  # (P,) of all phases
    return float(worker_seconds.max() - worker_seconds.mean())
