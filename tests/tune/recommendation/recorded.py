"""Probes with recorded seconds: rankings are functions of a file, not of this machine's load."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from gnnqlab.graph import Graph, load
from gnnqlab.nn import ModelSettings
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import LaunchSettings, RunConfig
from gnnqlab.tune.probe import Probe
from gnnqlab.tune.recommendation.candidates import Candidate, list_candidates
from gnnqlab.tune.timing import Timing
from gnnqlab.tune.trace import trace

FILE = Path(__file__).with_name("timing.json")
GRAPH = "sbm:600,4,12"
SHAPE = ModelSettings(layers=3, hidden=64, dropout=0.5)
SYSTEMS = ("vanilla", "adaqp", "fixed-bits", "bns-gcn", "pipegcn", "sar")
LINK = "100mbit"


@cache
def graph() -> Graph:
    return load(GRAPH)


@cache
def recorded(link: str = LINK) -> Probe:
    """Return a probe of Vanilla on two hosts with the seconds of the file, or over another link."""
    system = vanilla()
    config = RunConfig(graph=GRAPH, model=SHAPE, system=system, launch=LaunchSettings(hosts=2, link=LINK))
    timing = Timing.from_json(json.loads(FILE.read_text()))
    probe = Probe(
        config=config, trace=trace(graph(), SHAPE, system, workers=2, epochs=5), timing=timing, wire=timing.wire
    )
    return probe if link == LINK else probe.with_link(link)


def candidates(systems: Sequence[str] = SYSTEMS) -> list[Candidate]:
    """Return candidates on their own partitioners."""
    return list_candidates(systems, partitions=False)
