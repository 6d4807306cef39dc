"""Measurements of a system on several hosts use the same cut as a run on these hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import gnnqlab as gq
from gnnqlab.bits import Fixed
from gnnqlab.course.experiments.width_decisions import importance_ablation
from gnnqlab.exchange import Replicas
from gnnqlab.nn import ModelSettings
from gnnqlab.simulation.cached_training import CachedWorkers
from gnnqlab.simulation.convergence_check import convergence
from gnnqlab.simulation.gradient_noise import gradient_noise
from gnnqlab.simulation.theory_check import gradient_variance
from gnnqlab.systems import System, cdfgnn, fixed_bits
from gnnqlab.systems.registry import SYSTEMS, make_system
from gnnqlab.train.config.run_config import LaunchSettings, RunConfig, TrainSettings
from gnnqlab.tune.trace import trace
from tests.cases import each
from tests.graphs import random_graph

GRAPH = random_graph()
SHAPE = ModelSettings(layers=2, hidden=8, norm="none", dropout=0.0)
EDGES = replace(fixed_bits(bits=2), partition=gq.partitioners.EBV(), exchange=Replicas())
"""EBV for two hosts cuts differently for four workers than EBV for one host."""


def sent(system: System, **hosts: int) -> tuple[int, int]:
    cached = CachedWorkers(
        GRAPH, replace(system, cache=gq.caches.AdaptiveCache()), SHAPE, TrainSettings(), workers=4, **hosts
    )
    cached.step(0)
    return cached.count_rows()


MEASURES: dict[str, Callable[..., Any]] = {
    "noise": lambda system, **hosts: gradient_noise(
        GRAPH, Fixed(bits=2), SHAPE, workers=4, repeats=2, system=system, **hosts
    ),
    "convergence": lambda system, **hosts: convergence(
        GRAPH, system, SHAPE, workers=4, epochs=1, looks=1, **hosts
    ).frame["noise_square"].tolist(),
    "cached": sent,
    "trace": lambda system, **hosts: [
        each.ids.tolist() for each in trace(GRAPH, SHAPE, system, workers=4, epochs=2, theorem=False, **hosts).messages
    ],
}  # fmt: skip


@each("name", MEASURES)
def test_both_hosts_are_used(name: str) -> None:
    measure = MEASURES[name]
    found = measure(EDGES, hosts=2)
    assert found == measure(replace(EDGES, partition=gq.partitioners.EBV(hosts=2)))
    assert found != measure(EDGES)


def test_hierarchical_aggregation_uses_the_given_number_of_hosts() -> None:
    meeting = replace(EDGES, exchange=Replicas(hierarchical=True))
    placed = meeting.on_hosts(2)
    assert (placed.partition.hosts, placed.exchange.hosts) == (2, 2)  # type: ignore[attr-defined]
    assert sent(meeting, hosts=2) == sent(placed) != sent(EDGES, hosts=2), "rows within a host pass no cache"


def test_configuration_passes_its_hosts_to_the_system() -> None:
    config = RunConfig(graph="digits", system=cdfgnn(), workers=4, launch=LaunchSettings(hosts=2))
    assert config.system_on_hosts.partition.hosts == 2 and config.system.partition.hosts is None  # type: ignore[attr-defined]
    halo = replace(config, system=fixed_bits())
    assert halo.system_on_hosts is halo.system, "no component has a setting for hosts"
    own = replace(config, system=replace(cdfgnn(), partition=gq.partitioners.EBV(hosts=4)))
    assert own.system_on_hosts is own.system, "its hosts are already set"


def test_experiments_on_halo_rows_reject_vertex_cuts() -> None:
    with pytest.raises(ValueError, match="Theorem 3 needs an edge-cut, got a vertex-cut .*; choose METIS"):
        gradient_variance(GRAPH, EDGES, SHAPE, workers=4, repeats=2)
    with pytest.raises(
        ValueError, match="importance is that of halo rows, which need an edge-cut, got a vertex-cut .*; choose METIS"
    ):
        importance_ablation(GRAPH, SHAPE, workers=4, system=EDGES)


@each("name", SYSTEMS)
def test_the_run_that_finds_a_link_takes_the_cut_of_every_system(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from gnnqlab.launch import calibrate

    class Begun(Exception):
        pass

    def begin(short: RunConfig, **_: Any) -> None:
        assert (short.system.partition, short.system.exchange) == (system.partition.fixed(), system.exchange)
        raise Begun

    system = make_system(name)
    monkeypatch.setattr(calibrate, "begin", begin)
    with pytest.raises(Begun):
        calibrate._vanilla(RunConfig(graph="digits", system=system), epochs=2)
