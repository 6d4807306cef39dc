"""The path of a message is short: from ``aggregate`` to the transport, and from the transport to the sums."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch.distributed as dist

import gnnqlab
from gnnqlab.bits import Fixed
from gnnqlab.exchange import AggregationContext, Overlapped, Synchronous
from gnnqlab.kernels import native
from gnnqlab.message import Stochastic
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.partition import Random
from tests.exchange.test_halo import worker_graph
from tests.graphs import random_graph
from tests.ranks import run_ranks

PACKAGE = Path(gnnqlab.__file__).parent
MAX_FRAMES, MAX_FILES = 8, 7
MAX_FRAMES_TO_BYTES = 10
"""From the call of an exchange to the call of the codec's kernel, both ends counted."""
MAX_CALLS, MAX_OWN_CALLS = 158, 114
"""Calls of functions of gnnqlab in one aggregation: all, and those of the folders `exchange` and `message`. Most others
are checks of arguments in the kernels of the two sums, of encoding and of decoding."""


def frames() -> list[tuple[str, str]]:
    """The package's own frames on the stack, ``(file, function)``, innermost last."""
    here = [frame for frame in inspect.stack() if Path(frame.filename).is_relative_to(PACKAGE)]
    return [(Path(frame.filename).name, frame.function) for frame in reversed(here)]


def ways_on_rank(rank, workers, graph, owner, schedule):
    shard, _, worker = worker_graph(rank, workers, graph, owner, schedule=schedule)
    seen, send = [], dist.ProcessGroup.send

    def watched(*arguments):
        seen.append(frames())
        return send(*arguments)

    dist.ProcessGroup.send = watched
    worker.open_pass(0, training=True).aggregate(graph.features[shard.owned])
    dist.ProcessGroup.send = send
    return seen


@pytest.mark.parametrize("schedule", [Synchronous(), Overlapped()], ids=["synchronous", "overlapped"])
def test_from_aggregate_to_the_wire(schedule):
    graph = random_graph(seed=8)
    for ways in run_ranks(ways_on_rank, 2, graph, Random(seed=1).assign(graph, 2), schedule):
        assert ways
        for way in ways:
            assert way[0][1] == "aggregate"
            assert len(way) <= MAX_FRAMES, way
            assert len({file for file, _ in way}) <= MAX_FILES, way


def costs_on_rank(rank, workers, graph, owner):
    """Return calls by folder in the second aggregation of an epoch, and frames at each call of a codec's kernel."""
    wires = {"codec": Stochastic(), "bits": Fixed(bits=2), "run": 1}
    shard, exchange, worker = worker_graph(rank, workers, graph, owner, **wires)
    x, adjacency, calls, ways = graph.features[shard.owned].clone().requires_grad_(), worker.adjacency("sum"), [], []
    kernel = native.Kernel.__call__

    def encoded(self, *arguments):
        if self.name == "encode_rows":
            ways.append(frames())
        return kernel(self, *arguments)

    def called(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            calls.append(path.relative_to(PACKAGE).parts[0])

    for epoch in range(4):
        first = exchange.aggregate(adjacency, x, AggregationContext(0, epoch=epoch, training=True))
        context = AggregationContext(1, epoch=epoch, training=True)
        if epoch == 3:
            native.Kernel.__call__ = encoded
        sys.setprofile(called if epoch == 2 else None)
        second = exchange.aggregate(adjacency, first, context)
        sys.setprofile(None)
        native.Kernel.__call__ = kernel
        second.sum().backward()
    return Counter(calls), ways


def test_an_aggregation_makes_few_calls_and_few_frames():
    graph = random_graph(seed=8)
    for calls, ways in run_ranks(costs_on_rank, 2, graph, Random(seed=1).assign(graph, 2)):
        assert 0 < calls["exchange"] + calls["message"] <= MAX_OWN_CALLS, calls
        assert calls.total() <= MAX_CALLS, calls
        for way in ways:
            assert way[0] == ("exchange.py", "aggregate")
            assert len(way) <= MAX_FRAMES_TO_BYTES, way


def test_channel_factory_has_at_most_10_parameters():
    assert len(inspect.signature(ChannelFactory).parameters) <= 10
