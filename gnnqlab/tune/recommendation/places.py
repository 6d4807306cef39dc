"""Probes of other cuts, exchanges and products, derived from one probe without launching anything.

A probe is valid for the parts that it timed (`gnnqlab.tune.timing.PROBED`). For another cut or exchange the messages
are traced in two epochs on workers in this process, and the probed seconds are scaled by counted work:

    central, marginal     edges that need no remote rows, and those that do, times columns
    encode, decode        elements sent (a block that all workers receive is encoded once)
    all others            as probed

For other products the processor time of each phase is measured in the same way, relative to the probe's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gnnqlab.graph.graph import Graph
from gnnqlab.systems.registry import make_system
from gnnqlab.systems.system import System
from gnnqlab.tune.probe import Probe
from gnnqlab.tune.timing import EpochTime, Timing, probed_parts, with_probed_parts
from gnnqlab.tune.trace import trace
from gnnqlab.tune.traced import Trace

__all__ = ["ProbedPlaces", "scale_to_cut", "with_short_gradients"]

_CUT_EPOCHS = 2
"""Traced epochs of another cut: the second one has the ranges of a first assignment."""
_PRODUCT_EPOCHS = 5
"""Traced epochs of other products, of which the least time counts."""
_MEASURED = ("central", "marginal", "dense", "other")
"""Phases that depend on products."""
_LIMIT = 4.0
"""Limit of measured ratios of phases, because short ones are noisy."""


class ProbedPlaces:
    """Probes by partition, exchange and compute; each is derived at its first use.

    Args:
        probe: of Vanilla's own parts.
        graph: the probed graph.
    """

    def __init__(self, probe: Probe, graph: Graph) -> None:
        self.probe, self._graph = probe, graph
        self._probes: dict[str, Probe] = {_key(probe.config.system): probe}

    def find(self, system: System, *, services: bool = False) -> Probe:
        """Return the probe of a system's place.

        Args:
            system: with partition, exchange and compute.
            services: True if weight gradients are all-reduced in bfloat16.
        """
        key = _key(system)
        if key not in self._probes:
            self._probes[key] = self._derive(system)
        if not services:
            return self._probes[key]
        short_key = f"{key}, short gradients"
        if short_key not in self._probes:
            self._probes[short_key] = with_short_gradients(self._probes[key])
        return self._probes[short_key]

    def _derive(self, system: System) -> Probe:
        base = self.probe
        config = replace(base.config, system=with_probed_parts(make_system("vanilla"), system))
        has_own_products = system.compute != base.config.system.compute
        own_trace = trace(
            self._graph,
            config.model,
            config.system_on_hosts,
            workers=config.workers,
            epochs=_PRODUCT_EPOCHS if has_own_products else _CUT_EPOCHS,
            settings=config.train,
            theorem=False,
        )
        timing = scale_to_cut(base.timing, base.trace, own_trace)
        if has_own_products:
            timing = _scale_phases(timing, _measured_ratios(base.trace, own_trace))
        return Probe(config=config, trace=own_trace, timing=timing, wire=base.wire, error=base.error)


def _key(system: System) -> str:
    return repr(list(probed_parts(system).values()))


def scale_to_cut(timing: Timing, probed: Trace, own: Trace) -> Timing:
    """Return the timing of another cut, with the work that both traces count.

    Args:
        timing: of the probed cut.
        probed: trace of the probed cut.
        own: trace of the other cut.
    """
    share, probed_share = _central_share(own), _central_share(probed)
    coded = _coded_elements(own) / max(1.0, _coded_elements(probed))

    def scaled(epoch_time: EpochTime) -> EpochTime:
        phases = dict(epoch_time.phases)
        sums_s = phases.get("central", 0.0) + phases.get("marginal", 0.0)
        for name, part, probed_part in (("central", share, probed_share), ("marginal", 1 - share, 1 - probed_share)):
            # A phase without work in the probe takes its share of all sums.
            phases[name] = phases.get(name, 0.0) * part / probed_part if probed_part else part * sums_s
        phases |= {name: coded * phases.get(name, 0.0) for name in ("encode", "decode")}
        return epoch_time.with_phases(phases)

    return replace(timing, exact=scaled(timing.exact), quantized=scaled(timing.quantized))


def with_short_gradients(probe: Probe) -> Probe:
    """Return a probe of trainings that all-reduce weight gradients in two bytes each instead of four."""
    timing, wire = probe.timing, probe.timing.wire
    saved_s = wire.theta_s_per_byte * wire.reduce_bytes(timing.gradient_bytes // 2)

    def shortened(epoch_time: EpochTime) -> EpochTime:
        reduce_s = epoch_time.phases.get("reduce", 0.0)
        return epoch_time.with_phases({**epoch_time.phases, "reduce": max(0.0, reduce_s - saved_s)})

    short_timing = replace(
        timing,
        exact=shortened(timing.exact),
        quantized=shortened(timing.quantized),
        gradient_bytes=timing.gradient_bytes - timing.gradient_bytes // 2,
    )
    return replace(probe, timing=short_timing)


def _scale_phases(timing: Timing, ratios: Mapping[str, float]) -> Timing:
    def scaled(epoch_time: EpochTime) -> EpochTime:
        phases = {name: ratios.get(name, 1.0) * seconds for name, seconds in epoch_time.phases.items()}
        return epoch_time.with_phases(phases)

    return replace(timing, exact=scaled(timing.exact), quantized=scaled(timing.quantized))


def _measured_ratios(probed: Trace, own: Trace) -> dict[str, float]:
    """Return the processor time of each phase relative to the probe's, within limits."""
    ratios = {}
    for name in _MEASURED:
        probed_s, own_s = probed.phases.get(name, 0.0), own.phases.get(name, 0.0)
        if probed_s > 0 and own_s > 0:
            ratios[name] = min(max(own_s / probed_s, 1 / _LIMIT), _LIMIT)
    return ratios


def _central_share(trace: Trace) -> float:
    """Return the share of the multiplications of sums that need no remote rows."""
    independent = total = 0
    for layer, direction in trace.places:
        columns = trace.messages_at((layer, direction))[0].columns
        for shard in trace.shards:
            independent += columns * shard.independent_edges(direction)
            total += columns * shard.num_edges
    return independent / total if total else 1.0


def _coded_elements(trace: Trace) -> float:
    receivers = max(1, trace.workers - 1)
    return sum(each.num_rows * each.columns / (receivers if each.to_all else 1) for each in trace.messages)
