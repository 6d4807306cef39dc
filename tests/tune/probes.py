"""A probe of a small graph with fixed instead of measured seconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from gnnqlab.graph import load
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems import System, vanilla
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.tune.probe import Probe
from gnnqlab.tune.timing import EpochTime, Timing, with_probed_parts
from gnnqlab.tune.trace import trace
from gnnqlab.tune.traced import Trace

GRAPH = "sbm:120,3,6"
SHAPE = {"layers": 2, "hidden": 16, "dropout": 0.5}
MODEL = ModelSettings(**SHAPE)
PHASES = {"central": 2.0, "marginal": 1.0, "encode": 0.5, "decode": 0.25, "dense": 4.0, "reduce": 1.0}
RATE = 1000.0
"""Bytes per second of the fixed link."""
GAMMA = 0.125


@cache
def seen(workers: int = 2, model: str = "gcn") -> Trace:
    recipe = replace(vanilla(), partition=Random())
    return trace(load(GRAPH), ModelSettings(name=model, **SHAPE), recipe, workers=workers, epochs=9)


def timing(workers: int = 2) -> Timing:
    """Make the timing that a link of RATE bytes per second and GAMMA per exchange would have."""

    def spent(volume: float) -> EpochTime:
        whole = sum(PHASES.values()) + 4 * GAMMA + volume / RATE
        return EpochTime(epoch_s=whole, phases=dict(PHASES), busiest_bytes=volume, exchanges=4)

    return Timing(
        exact=spent(40_000.0),
        quantized=spent(8_000.0),
        gradient_bytes=1000,
        workers=workers,
        hosts=1,
        link="loopback",
        bytes_per_s=None,
        transport="direct",
    )


def written_down(workers: int = 2) -> Probe:
    config = RunConfig(graph=GRAPH, model=MODEL, workers=workers, system=replace(vanilla(), partition=Random()))
    return Probe(config=config, trace=seen(workers), timing=timing(workers), wire=timing(workers).wire)


def on_parts_of(probe: Probe, system: System) -> Probe:
    """Return a probe as if the parts of a system that a probe depends on had been probed; the trace stays."""
    config = replace(probe.config, system=with_probed_parts(vanilla(), system))
    return replace(probe, config=config)


def sent_bytes(threads: ThreadedWorkers) -> tuple[int, int]:
    """Return the payload and the parameters that all workers have sent so far."""
    channels = [channel for trainer in threads.trainers for channel in trainer.exchange.channels]
    return sum(channel.bytes_payload for channel in channels), sum(channel.bytes_params for channel in channels)


def sent_by_epoch(threads: ThreadedWorkers, epochs: int) -> Iterator[int]:
    """Train; yield the bytes that each epoch sends, parameters included."""
    before = 0
    for epoch in range(epochs):
        threads.step(epoch)
        after = sum(sent_bytes(threads))
        yield after - before
        before = after
