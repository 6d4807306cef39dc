"""The path of a message is short: from ``aggregate`` to the transport, and from the transport to the sums."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import gnnqlab
from gnnqlab.bits import Fixed
from gnnqlab.exchange import AggregationContext, Overlapped, Synchronous
from gnnqlab.halo import HaloPlan, exchange_rows
from gnnqlab.kernels import native
from gnnqlab.message import Stochastic
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from tests.exchange.test_halo import worker_graph
from tests.graphs import random_graph
from tests.ranks import run_ranks

PACKAGE = Path(gnnqlab.__file__).parent
MAX_FRAMES, MAX_FILES = 8, 7
MAX_FRAMES_TO_BYTES = 10
"""From the call of an exchange to the call of the codec's kernel, both ends counted."""
MAX_CALLS, MAX_OWN_CALLS = 120, 81
"""Calls of functions of gnnqlab in one aggregation: all, and those of the folders `exchange` and `message`. Most others
are checks of arguments in the kernels of the two sums, of encoding and of decoding."""
MAX_CALLS_OF_ROWS, MAX_CALLS_OF_EPOCH = 67, 1290
"""Calls of functions of gnnqlab in one `exchange_rows`, and in one epoch of a GCN of three layers, on two workers."""


def frames() -> list[tuple[str, str]]:
    """The package's own frames on the stack, ``(file, function)``, innermost last."""
    here = [frame for frame in inspect.stack() if Path(frame.filename).is_relative_to(PACKAGE)]
    return [(Path(frame.filename).name, frame.function) for frame in reversed(here)]


@contextmanager
def counted(calls: Counter) -> Iterator[None]:
    """Count the calls of functions of gnnqlab, by folder."""

    def called(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            calls[path.relative_to(PACKAGE).parts[0]] += 1

    sys.setprofile(called)
    try:
        yield
    finally:
        sys.setprofile(None)


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
    x, adjacency, calls, ways = (
        graph.features[shard.owned].clone().requires_grad_(),
        worker.adjacency("sum"),
        Counter(),
        [],
    )
    kernel = native.Kernel.__call__
    # The thread that waits in the background never begins, so this one waits itself: the calls are the same each time.
    ThreadPoolExecutor.submit = lambda *_: Future()

    def encoded(self, *arguments):
        if self.name == "encode_rows":
            ways.append(frames())
        return kernel(self, *arguments)

    for epoch in range(4):
        first = exchange.aggregate(adjacency, x, AggregationContext(0, epoch=epoch, training=True))
        context = AggregationContext(1, epoch=epoch, training=True)
        if epoch == 3:
            native.Kernel.__call__ = encoded
        with counted(calls) if epoch == 2 else nullcontext():
            second = exchange.aggregate(adjacency, first, context)
        native.Kernel.__call__ = kernel
        second.sum().backward()
    return calls, ways


def test_an_aggregation_makes_few_calls_and_few_frames():
    graph = random_graph(seed=8)
    for calls, ways in run_ranks(costs_on_rank, 2, graph, Random(seed=1).assign(graph, 2)):
        assert 0 < calls["exchange"] + calls["message"] <= MAX_OWN_CALLS, calls
        assert calls.total() <= MAX_CALLS, calls
        for way in ways:
            assert way[0] == ("exchange.py", "aggregate")
            assert len(way) <= MAX_FRAMES_TO_BYTES, way


def other_costs_on_rank(rank, workers, graph):
    """Return calls of one exchange of rows, and those of one epoch."""
    rows, trained = Counter(), Counter()
    plan = HaloPlan([torch.arange(5) if peer != rank else torch.empty(0, dtype=torch.int64) for peer in range(workers)],
                    [0 if peer == rank else 5 for peer in range(workers)])  # fmt: skip
    shard = build_shard(graph, Random(seed=1).cut(graph, workers).owner, rank, workers)
    ThreadPoolExecutor.submit = lambda *_: Future()  # as in `costs_on_rank`
    trainer = worker_trainer(shard, vanilla(), ModelSettings(layers=3, hidden=8), TrainSettings(), run="a")
    for step in range(3):
        with counted(rows) if step == 2 else nullcontext():
            exchange_rows(torch.ones(5, 3), plan, epoch=step)
        with counted(trained) if step == 2 else nullcontext():
            trainer.epoch(step)
    trainer.close()
    return rows.total(), trained.total()


def test_an_exchange_of_rows_and_an_epoch_make_few_calls():
    for rows, trained in run_ranks(other_costs_on_rank, 2, random_graph(seed=8)):
        assert 0 < rows <= MAX_CALLS_OF_ROWS
        assert rows < trained <= MAX_CALLS_OF_EPOCH, trained


def test_channel_factory_has_at_most_10_parameters():
    assert len(inspect.signature(ChannelFactory).parameters) <= 10
