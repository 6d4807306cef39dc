"""Blocks that are broadcast one after another: the law, sent blocks, skipped blocks, and refusals."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.schedules.pipeline import Pipelined
from gnnqlab.exchange.schedules.schedule import Overlapped
from gnnqlab.message.caches.cache import Unchanged
from gnnqlab.nn import LocalGraph, ModelSettings
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.simulation.threaded_workers import ThreadedWorkers, exact_trainer
from gnnqlab.systems import cagnet, make_system, sancus, sancus_q
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from gnnqlab.worker_context import WorkerContext
from tests.agreement import assert_same_training
from tests.cases import each
from tests.graphs import random_graph
from tests.nn.test_law import one_process, train
from tests.ranks import run_ranks

SETTINGS = TrainSettings(seed=5, weight_decay=1e-3)
EXACT = {
    "cagnet": cagnet(),
    "overlapped": replace(cagnet(), schedule=Overlapped()),
    "sancus, ε = 0": sancus(epsilon=0.0),
    "sancus, every epoch": replace(sancus(rule="fixed", every=1), schedule=Overlapped()),
    "sancus, warm-up": sancus(rule="age", every=9, warm_up=9),
    "sancus, as released": sancus(epsilon=9.0, as_released=True),
}


def shape(name):
    return ModelSettings(name=name, layers=3, hidden=16, dropout=0.3, input_dropout=0.1)


def on_rank(rank, workers, graph, systems, models):
    found = {}
    for case, system in systems.items():
        shard = system.partition.cut(graph, workers).shard(graph, rank)
        for name in models:
            found[case, name] = train(worker_trainer(shard, system, shape(name), SETTINGS))
    return found


def assert_law(workers, graph, systems, models):
    results = run_ranks(on_rank, workers, graph, systems, models)
    for name in models:
        truth = one_process(graph, shape(name), SETTINGS)
        for case in systems:
            found = [result[case, name] for result in results]
            try:
                assert_same_training(found, truth)
                assert all(each["scores"] == truth["scores"] for each in found)
            except AssertionError as error:
                error.add_note(f"{case}, {name}")
                raise


@pytest.mark.parametrize(("workers", "directed", "features", "self_loops"), [
    (1, True, 12, "add"),
    (2, True, 40, "remove"),
    (3, False, 40, "add"),
    (4, True, 12, "add"),
])  # fmt: skip
def test_workers_equal_one_process(workers, directed, features, self_loops):
    graph = random_graph(nodes=61, directed=directed, features=features, self_loops=self_loops, seed=workers)
    systems = EXACT if workers in (1, 3) else {name: EXACT[name] for name in ("cagnet", "overlapped", "sancus, ε = 0")}
    models = ["gat", "graphsage", "jknet"] if workers > 2 else sorted(MODELS)  # attention, two products, a join
    assert_law(workers, graph, systems, models)


REPLICATED = {
    "cagnet, c = 2": cagnet(replication=2),
    "overlapped": replace(cagnet(replication=2), schedule=Overlapped()),
    "skipped": replace(cagnet(replication=2), cache=gq.caches.StaleBlocks(epsilon=0.0)),
}
OF_SUMS = sorted(set(MODELS) - {"gat"})


@pytest.mark.parametrize(
    ("workers", "features", "systems"), [(4, 40, REPLICATED), (8, 12, {"cagnet": cagnet(replication=2)})]
)
def test_replicated_blocks_equal_one_process(workers, features, systems):
    graph = random_graph(nodes=61, directed=True, features=features, seed=workers)
    assert_law(workers, graph, systems, OF_SUMS if workers == 4 else ["graphsage"])


def dense(graph, alpha="symmetric"):
    matrix = LocalGraph(graph).adjacency(alpha)
    whole = torch.zeros(graph.num_nodes, graph.num_nodes)
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes), matrix.indptr.diff())
    return whole.index_put_((rows, matrix.indices.long()), matrix.weights, accumulate=True)


def drawn(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def one_look(rank, workers, graph, system):
    """Return one sum and one convolution of this worker's rows, and their gradients."""
    shard = system.partition.cut(graph, workers).shard(graph, rank)
    trainer = worker_trainer(shard, system, shape("gcn"), SETTINGS)
    adjacency, ids = trainer.graph.adjacency("symmetric"), shard.row_ids
    mine = torch.isin(ids, shard.owned).float().unsqueeze(1)  # the loss counts masters only
    found = {"ids": ids}
    for layer, kind in enumerate(("aggregate", "convolve")):
        x = drawn(graph.num_nodes, 6, seed=1)[ids].requires_grad_()
        context = AggregationContext(layer, 0, training=True)
        weights = [drawn(6, 5, seed=2).requires_grad_(), drawn(5, seed=3).requires_grad_()]
        weights.append(drawn(6, 5, seed=4).requires_grad_())
        if kind == "aggregate":
            y = trainer.exchange.aggregate(adjacency, x, context)
        else:
            y = trainer.exchange.convolve(adjacency, x, *weights, context)
        y.backward(drawn(graph.num_nodes, y.shape[1], seed=5)[ids] * mine)
        found[kind] = y.detach(), x.grad, [each.grad for each in weights]
    trainer.close()
    return found


@pytest.mark.parametrize(("workers", "system"), [(3, cagnet()), (4, cagnet(replication=2))])
def test_sums_and_gradients_are_those_of_the_dense_matrices(workers, system):
    graph = random_graph(nodes=31, directed=True)
    matrix, x, results = dense(graph), drawn(31, 6, seed=1), run_ranks(one_look, workers, graph, system)
    weight, bias, of_self = drawn(6, 5, seed=2), drawn(5, seed=3), drawn(6, 5, seed=4)
    truth = {"aggregate": matrix @ x, "convolve": matrix @ x @ weight + bias + x @ of_self}
    for kind, y in truth.items():
        gradient, of_x = drawn(*y.shape, seed=5), torch.zeros_like(x)
        for result in results:
            torch.testing.assert_close(result[kind][0], y[result["ids"]], rtol=1e-5, atol=1e-5)
            of_x.index_add_(0, result["ids"], result[kind][1])
        expected = matrix.T @ gradient
        if kind == "convolve":
            parts = [sum(parts) for parts in zip(*(result[kind][2] for result in results))]
            for found, true in zip(parts, (x.T @ expected, gradient.sum(0), x.T @ gradient)):
                torch.testing.assert_close(found, true, rtol=1e-5, atol=1e-4)
            expected = expected @ weight.T + gradient @ of_self.T
        torch.testing.assert_close(of_x, expected, rtol=1e-5, atol=1e-5)


def moved(epoch, nodes):
    """Return rows that change everywhere by 0.1 an epoch; those of the first half are ten times as long."""
    rows = drawn(nodes, 6, seed=1)
    rows[: nodes // 2] *= 10
    return rows + 0.1 * epoch


def looks(rank, workers, graph, systems, epochs):
    found = {}
    for case, system in systems.items():
        shard = system.partition.cut(graph, workers).shard(graph, rank)
        trainer = worker_trainer(shard, system, shape("gcn"), SETTINGS)
        adjacency = trainer.graph.adjacency("symmetric")
        found[case] = [
            trainer.exchange.aggregate(
                adjacency, moved(epoch, graph.num_nodes)[shard.row_ids], AggregationContext(0, epoch, True)
            )
            for epoch in range(epochs)
        ]
        trainer.close()
    return shard.row_ids, found


NEVER = 9.0
STALE = {
    "fixed": (sancus(rule="fixed", every=3, max_age=9), [[0, 0, 0, 3, 3, 3, 6]] * 2),
    "age": (sancus(rule="age", every=2, warm_up=2), [[0, 1, 1, 3, 3, 5, 5]] * 2),
    "largest age": (sancus(epsilon=NEVER, max_age=2), [[0, 0, 0, 3, 3, 3, 6]] * 2),
    "warm-up": (replace(sancus(epsilon=NEVER, warm_up=3), schedule=Overlapped()), [[0, 1, 2, 2, 2, 2, 2]] * 2),
    # an element of the second block, of standard deviation 1, moves by 0.1 an epoch against a bound of 0.25
    "variation": (sancus(epsilon=0.25), [[0] * 7, [0, 0, 0, 3, 3, 3, 6]]),
    "absolute": (
        replace(sancus(), cache=gq.caches.StaleBlocks(epsilon=0.25 * 90**0.5, measure="absolute")),
        [[0, 0, 0, 3, 3, 3, 6]] * 2,
    ),
}
"""Case -> system, and for each block, by epoch, the epoch of the rows that other workers use."""


def test_others_use_the_block_that_was_last_sent_and_its_owner_its_own():
    graph, epochs = random_graph(nodes=30, edges=200), 7
    matrix, first = dense(graph), torch.arange(30) < 15
    systems = {case: system for case, (system, _) in STALE.items()}
    for rank, (ids, found) in enumerate(run_ranks(looks, 2, graph, systems, epochs)):
        for case, (_, since) in STALE.items():
            for epoch in range(epochs):
                blocks = [moved(epoch if block == rank else since[block][epoch], 30) for block in (0, 1)]
                truth = matrix @ torch.where(first.unsqueeze(1), *blocks)
                close = torch.allclose(found[case][epoch], truth[ids], rtol=1e-5, atol=1e-5)
                assert close, (case, rank, epoch)


def trained(system, model="gcn", *, epochs=3, workers=3, bits=None):
    graph = random_graph(directed=True)
    threads = ThreadedWorkers(graph, system.partition.cut(graph, workers), system, shape(model), SETTINGS)
    for epoch in range(epochs):
        threads.step(epoch)
    return threads


def test_all_hold_the_decoded_block_and_the_owner_too():
    exchanges = [trainer.exchange for trainer in trained(sancus_q(bits=2, epsilon=0.3)).trainers]
    held = [exchange.blocks.wires.cache.held for exchange in exchanges]
    assert held[0]
    for place in held[0]:
        owner = place.round
        block = held[owner][place]["send", owner]
        assert block.abs().sum() > 0
        for rank in {0, 1, 2} - {owner}:
            assert torch.equal(held[rank][place]["receive", owner], block)


def test_a_block_is_written_once_and_lands_in_two_buffers_that_take_turns(monkeypatch):
    written = []
    plain = gq.codecs.Float32.encode
    monkeypatch.setattr(gq.codecs.Float32, "encode", lambda *given: written.append(given[1].shape[1]) or plain(*given))
    exchanges = [trainer.exchange for trainer in trained(cagnet(), epochs=1).trainers]
    assert len(written) == 3 * (3 + 3)  # blocks times layers, forward and backward
    for exchange in exchanges:
        blocks, widths = exchange.blocks, {12, 16, 4}
        assert {columns for _, columns in blocks._rows} == widths and len(blocks._rows) == 2 * len(widths)
        block = 4 * 20  # bytes per column of 20 rows
        assert len(blocks._bytes) <= 3 and blocks.block_bytes <= block * (2 * sum(widths) + 3 * max(widths))


REFUSED = [
    ({"schedule": Pipelined()}, r"exchange Broadcast cannot work .*StaleBlocks\(\) for stale blocks"),
    ({"sampler": gq.samplers.BoundarySampling(p=0.5)}, r"exchange Broadcast cannot work .*choose sampler AllRows"),
    ({"cache": Unchanged()}, r"got cache Unchanged, which selects rows; choose StaleBlocks"),
    ({"codec": gq.codecs.Stochastic(), "bits": Assigned()}, r"bits Assigned need halo rows, got whole blocks; choose"),
    (
        {"partition": gq.partitioners.Random()},
        "exchange Broadcast needs a block partition .*, got partition Random, an edge-cut",
    ),
]


@each(("axes", "text"), REFUSED)
def test_incompatible_components_raise_value_error(axes, text):
    with pytest.raises(ValueError, match=text):
        replace(cagnet(), **axes)


def test_impossible_settings_raise_errors_that_suggest_alternatives():
    with pytest.raises(ValueError, match=r"cache StaleBlocks cannot work .*choose exchange Broadcast\(\)"):
        replace(make_system("vanilla"), cache=gq.caches.StaleBlocks())
    with pytest.raises(ValueError, match="multiple of the squared replication, 4, got 6; choose other workers"):
        gq.partitioners.Contiguous(replication=2).cut(random_graph(), 6)
    with pytest.raises(ValueError, match="between 1 and the number of nodes"):
        gq.partitioners.Contiguous().cut(random_graph(nodes=5, edges=4), 6)
    with pytest.raises(ValueError, match="rule"):
        gq.caches.StaleBlocks(rule="sometimes")
    with pytest.raises(ValueError, match=r"got replication 2, .*Contiguous\(replication=1\) or a model without"):
        trained(cagnet(replication=2), "gat", workers=4)
    graph = random_graph()
    shard = cagnet().partition.cut(graph, 1).shard(graph, 0)
    trainer = worker_trainer(shard, cagnet(), shape("gcn"), SETTINGS)
    with pytest.raises(ValueError, match=r"received one at a time; call aggregate or attend"):
        trainer.graph.open_pass(0, training=True).extend(trainer.graph.features)
    trainer.close()


def test_raw_rows_may_travel_once():
    sent, losses = {}, {}
    for kept in ("resend", "cache"):
        graph = random_graph(features=8)
        system, model = cagnet(), ModelSettings(name="gcn", layers=2, hidden=16)
        threads = ThreadedWorkers(
            graph, system.partition.cut(graph, 2), system, model, replace(SETTINGS, input_features=kept)
        )
        losses[kept] = [float(threads.step(epoch)) for epoch in range(3)]
        channels = [channel for trainer in threads.trainers for channel in trainer.exchange.channels]
        sent[kept] = sum(one.bytes_payload for one in channels if tuple(one.place)[:2] == (0, "forward"))
    assert losses["resend"] == pytest.approx(losses["cache"], rel=1e-5)
    assert sent["resend"] == 3 * sent["cache"] > 0


def test_bytes_are_those_of_the_blocks_that_were_not_skipped_on_all_workers_alike():
    """Of (P - 1) n rows an epoch; a receiver that disagreed would wait, or take the next block for this one."""
    workers, epochs = 3, 6
    exchanges = [trainer.exchange for trainer in trained(sancus(epsilon=0.2), epochs=epochs).trainers]
    by_place = [{tuple(one.place): one for one in exchange.channels} for exchange in exchanges]
    shares = []
    for place, channel in by_place[0].items():
        if place[1] == "backward":
            continue
        owner, block = place[2], by_place[place[2]][place]
        assert block.bytes_payload == 4 * block.columns * block.rows_sent, place
        assert block.rows_offered == (workers - 1) * epochs * channel.plan.send[0].num_rows if owner == 0 else True
        for rank in set(range(workers)) - {owner}:
            came = [one.layout.num_rows for one in by_place[rank][place].arrivals if one.sender == owner]
            assert len(came) == epochs and sum(came) * (workers - 1) == block.rows_sent, (place, rank)
        shares.append(block.rows_sent / block.rows_offered)
    assert min(shares) < 1.0 and min(shares) >= 1 / epochs


def test_a_worker_without_train_nodes_takes_part():
    graph = random_graph(nodes=60)
    graph = replace(graph, train_mask=graph.train_mask & (torch.arange(60) < 20))
    threads = ThreadedWorkers(graph, cagnet().partition.cut(graph, 3), cagnet(), shape("gcn"), SETTINGS)
    truth = exact_trainer(graph, shape("gcn"), seed=SETTINGS.seed)
    for epoch in range(3):
        threads.set_weights(truth.parameters.values)
        loss, gradient = threads.gradients(epoch)
        assert loss == pytest.approx(truth.gradients(epoch), rel=1e-5)
        assert torch.allclose(gradient, truth.parameters.gradients, rtol=1e-4, atol=1e-6)
        truth.optimizer.step()


def test_held_blocks_survive_a_checkpoint():
    threads = trained(sancus_q(bits=4, epsilon=NEVER))
    caches = [trainer.exchange.blocks.wires.cache for trainer in threads.trainers]
    seats = [
        WorkerContext(rank=rank, workers=3, seed=0, ids=torch.arange(0), importance=torch.zeros(0)) for rank in range(3)
    ]

    def kept(cache, worker):
        return cache.adaptives(SimpleNamespace(worker=worker))[0]

    tensors = {
        name: rows for cache, worker in zip(caches, seats) for name, rows in kept(cache, worker).state().own.items()
    }
    for cache, worker in zip(caches, seats):
        other = cache.settings.build()
        kept(other, worker).load({}, tensors)
        assert other.since == cache.since and other.held.keys() == cache.held.keys()
        for place, held in cache.held.items():
            for end, rows in held.items():
                assert torch.equal(other.held[place][end], rows), (place, end)
