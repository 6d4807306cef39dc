"""The way of a message is short: from ``aggregate`` to the wire, and back out of it."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch.distributed as dist

import gnnqlab
from gnnqlab.exchange import Overlapped, Synchronous
from gnnqlab.message.channels.wires import Wires
from gnnqlab.partition import Random
from tests.exchange.test_halo import worker_graph
from tests.graphs import random_graph
from tests.ranks import run_ranks

PACKAGE = Path(gnnqlab.__file__).parent
MOST_FRAMES, MOST_FILES = 8, 7


def frames() -> list[tuple[str, str]]:
    """The package's own frames on the stack, ``(file, function)``, innermost last."""
    here = [frame for frame in inspect.stack() if Path(frame.filename).is_relative_to(PACKAGE)]
    return [(Path(frame.filename).name, frame.function) for frame in reversed(here)]


def ways_on_rank(rank, workers, graph, owner, schedule):
    shard, _, worker = worker_graph(rank, workers, graph, owner, schedule=schedule)
    seen = {"isend": [], "wait": []}
    isend = dist.isend

    def watched(*arguments, **settings):
        seen["isend"].append(frames())
        return isend(*arguments, **settings)

    dist.isend = watched
    worker.at(0, training=True).aggregate(graph.features[shard.owned])
    dist.isend = isend
    return seen["isend"]


@pytest.mark.parametrize("schedule", [Synchronous(), Overlapped()], ids=["synchronous", "overlapped"])
def test_from_aggregate_to_the_wire(schedule):
    graph = random_graph(seed=8)
    for ways in run_ranks(ways_on_rank, 2, graph, Random(seed=1).assign(graph, 2), schedule):
        assert ways
        for way in ways:
            assert way[0][1] == "aggregate"
            assert len(way) <= MOST_FRAMES, way
            assert len({file for file, _ in way}) <= MOST_FILES, way


def test_what_makes_channels_is_small():
    assert len(inspect.signature(Wires).parameters) <= 10
