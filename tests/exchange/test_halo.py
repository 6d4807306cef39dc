"""The halo exchange: extending rows, caching static ones, and the order of the steps."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.exchange import AggregationContext, HaloExchange, Overlapped, Pipelined, Synchronous
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.message.transport.transport import make_transport
from gnnqlab.nn import LocalGraph, ModelSettings, WorkerGraph
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from tests.graphs import random_graph
from tests.ranks import run_ranks


def worker_graph(rank, workers, graph, owner, **changes):
    shard = build_shard(graph, owner, rank, workers)
    schedule = changes.pop("schedule", Synchronous())
    wires = ChannelFactory(**{"transport": make_transport("direct", rank, workers), **changes})
    exchange = HaloExchange(shard, wires, schedule)
    return shard, exchange, WorkerGraph(shard, exchange)


def extended(rank, workers, graph, owner):
    shard, _, worker = worker_graph(rank, workers, graph, owner)
    x = graph.features[shard.owned].clone().requires_grad_()
    y = worker.open_pass(0, training=True).extend(x)
    nodes = torch.cat([shard.owned, shard.halo])
    assert torch.equal(y.detach(), graph.features[nodes])
    y.sum().backward()
    return shard.owned, shard.halo, x.grad[:, 0]


def test_extended_rows_come_with_their_gradients():
    graph = random_graph(seed=8)
    results = run_ranks(extended, 3, graph, Random(seed=1).assign(graph, 3))
    copies = torch.zeros(graph.num_nodes)
    for owned, halo, _ in results:
        copies[owned] += 1
        copies[halo] += 1
    for owned, _, gradient in results:
        assert torch.equal(gradient, copies[owned])


def refused(rank, workers, graph, owner):
    shard, _, worker = worker_graph(rank, workers, graph, owner, schedule=Pipelined())
    x = graph.features[shard.owned]
    with pytest.raises(ValueError, match="extend needs the rows of this epoch, got a schedule .* call aggregate or"):
        worker.open_pass(1, training=True).extend(x)
    with torch.no_grad():  # evaluation is exact under every schedule
        return torch.equal(worker.open_pass(1, training=False).extend(x)[shard.num_owned :], graph.features[shard.halo])


def test_rows_of_this_epoch_are_refused_to_a_schedule_of_older_ones():
    graph = random_graph(seed=8)
    assert run_ranks(refused, 2, graph, Random(seed=1).assign(graph, 2)) == [True, True]


def test_extend_in_one_process_returns_the_same_tensor():
    graph = random_graph()
    assert LocalGraph(graph).open_pass(0, training=True).extend(graph.features) is graph.features


def bytes_by_epoch(rank, workers, graph, owner, input_features):
    shard = build_shard(graph, owner, rank, workers)
    settings = TrainSettings(input_features=input_features)
    trainer = worker_trainer(shard, vanilla(), ModelSettings(layers=2, hidden=16), settings)
    counts = []
    for epoch in range(3):
        before = sum(channel.bytes_payload for channel in trainer.exchange.channels)
        trainer.epoch(epoch)
        counts.append(sum(channel.bytes_payload for channel in trainer.exchange.channels) - before)
        trainer.evaluate(epoch)
    return counts, shard.boundary.numel(), shard.num_halo


def test_bytes_equal_the_formula():
    # Vanilla: 4 bytes x rows x width, forward at every layer, backward from the second on (X needs no gradient);
    # layer 0 aggregates 12 features (12 < 16), layer 1 projects 16 to 4 classes first and sends 4.
    graph = random_graph(seed=8)
    owner = Random(seed=1).assign(graph, 3)
    for input_features in ("resend", "cache"):
        for counts, boundary, halo in run_ranks(bytes_by_epoch, 3, graph, owner, input_features):
            later = 4 * boundary * (0 if input_features == "cache" else 12) + 4 * (boundary + halo) * 4
            first = 4 * boundary * 12 + 4 * (boundary + halo) * 4
            assert counts == [first, later, later]


class Counting:
    """A transport that counts its exchanges."""

    def __init__(self, inner):
        self.inner, self.posted = inner, 0

    def post(self, *buffers):
        self.posted += 1
        return self.inner.post(*buffers)


def posted_by_kind(rank, workers, graph, owner):
    training, exact = (Counting(make_transport("direct", rank, workers)) for _ in range(2))
    shard, exchange, worker = worker_graph(
        rank, workers, graph, owner, transport=training, exact_transport=exact, keep_static=True
    )
    adjacency, x = worker.adjacency("symmetric"), graph.features[shard.owned]
    counts = []
    for epoch, evaluates, static in ((0, False, False), (0, True, False), (1, False, True), (2, False, True)):
        y = exchange.aggregate(adjacency, x, AggregationContext(0, epoch, training=not evaluates, static=static))
        counts.append((training.posted, exact.posted))
    return counts, shard.owned, y


def test_rows_outside_training_take_the_transport_given_for_them():
    graph = random_graph(seed=8)
    results = run_ranks(posted_by_kind, 3, graph, Random(seed=1).assign(graph, 3))
    whole = LocalGraph(graph).open_pass(0, training=True).aggregate(graph.features)
    for counts, owned, y in results:
        # a training pass; an evaluation; static rows, which are sent once; no more afterwards
        assert counts == [(1, 0), (1, 1), (1, 2), (1, 2)]
        assert torch.allclose(y, whole[owned], atol=1e-5)


class Recorder:
    """Records the steps that run."""

    def __init__(self, rounds=1, chained=False):
        self.rounds, self.chained = rounds, chained
        self.verbs = []

    def __getattr__(self, verb):
        def note(*arguments):
            self.verbs.append(" ".join([verb, *(str(each) for each in arguments[:1])]))
            return self  # the received rows

        return note


def verbs_of(schedule, *rounds):
    step = Recorder(*rounds)
    schedule.build().run(step, ExchangeKey(0, "forward"))
    return step.verbs


def test_synchronous_waits_before_it_computes():
    assert verbs_of(Synchronous()) == ["prepare", "post 0", "wait 0", "independent", "dependent 0"]
    more = ["post 1", "wait 1", "dependent 1"]
    assert verbs_of(Synchronous(), 2, True) == ["prepare", "post 0", "wait 0", "independent", "dependent 0", *more]


def test_overlapped_computes_before_it_waits():
    assert verbs_of(Overlapped()) == ["prepare", "post 0", "independent", "wait 0", "dependent 0"]


def test_next_round_is_posted_early_unless_it_depends_on_the_current_round():
    begin = ["prepare", "post 0", "independent", "wait 0"]
    assert verbs_of(Overlapped(), 2, False) == [*begin, "post 1", "dependent 0", "wait 1", "dependent 1"]
    assert verbs_of(Overlapped(), 2, True) == [*begin, "dependent 0", "post 1", "wait 1", "dependent 1"]


def test_rounds_are_pipelined_one_by_one():
    pipeline, place = Pipelined().build(), ExchangeKey(0, "forward")
    pipeline.run(Recorder(2, True), place)
    later = Recorder(2, True)
    pipeline.run(later, place)
    assert later.verbs == [
        "prepare", "independent", "wait 0", "post 0", "dependent 0", "wait 1", "post 1", "dependent 1",
    ]  # fmt: skip
