"""Exchange of columns: the law, float64 references, errors of codes, counted bytes, resumption, and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.columns.redistribution import ColumnAggregation, _Logits
from gnnqlab.exchange.schedules.pipeline import Pipelined
from gnnqlab.exchange.schedules.schedule import Overlapped
from gnnqlab.exchange.schedules.sequential import Sequential
from gnnqlab.exchange.traffic_model import PartitionSizes
from gnnqlab.message.caches.cache import Unchanged
from gnnqlab.nn import LocalGraph, ModelSettings
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.simulation.threaded_workers import ThreadedWorkers, exact_trainer
from gnnqlab.systems import feature_parallel
from gnnqlab.train.checkpoints.checkpoint import Checkpoint
from gnnqlab.train.checkpoints.state import capture, restore
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from gnnqlab.tune.predicted_volume import epoch_bytes
from tests.agreement import assert_same_training
from tests.cases import each
from tests.exchange.dense import dense_of
from tests.graphs import random_graph
from tests.nn.test_law import one_process, train
from tests.ranks import run_ranks
from tests.tune.probes import sent_bytes

SETTINGS = TrainSettings(seed=5, weight_decay=1e-3)
EXACT = 1e-6
"""Largest error relative to the largest value of a float64 reference: sums of some ten float32 numbers."""
SLOPE = 0.2


def shape(name, **more):
    return ModelSettings(name=name, **{"layers": 3, "hidden": 16, "dropout": 0.3, "input_dropout": 0.1, **more})


def on_rank(rank, workers, graph, shapes, settings=SETTINGS):
    system = feature_parallel()
    shard = system.partition.cut(graph, workers).shard(graph, rank)
    return {key: train(worker_trainer(shard, system, each, settings)) for key, each in shapes.items()}


@pytest.mark.parametrize(("workers", "directed", "features", "self_loops"), [
    (1, True, 12, "add"),
    (2, True, 40, "remove"),
    (3, False, 40, "add"),  # 16 columns in shares of 6, 5 and 5
])  # fmt: skip
def test_workers_equal_one_process(workers, directed, features, self_loops):
    graph = random_graph(nodes=61, directed=directed, features=features, self_loops=self_loops, seed=workers)
    shapes = {name: shape(name) for name in sorted(MODELS)}
    results = run_ranks(on_rank, workers, graph, shapes)
    for name in shapes:
        truth, found = one_process(graph, shapes[name], SETTINGS), [result[name] for result in results]
        try:
            assert_same_training(found, truth)
            assert all(one["scores"] == truth["scores"] for one in found)
        except AssertionError as error:
            error.add_note(name)
            raise


@each("transport", ["ring", "all-to-all"])
def test_two_rounds_are_in_flight_with_every_transport(transport):
    graph, settings = random_graph(nodes=61), replace(SETTINGS, transport=transport)
    shapes = {name: shape(name) for name in ("gcn", "gat")}  # 16 columns in shares of 6, 5 and 5
    results = run_ranks(on_rank, 3, graph, shapes, settings)
    for name in shapes:
        assert_same_training([result[name] for result in results], one_process(graph, shapes[name], settings))


def threads_of(graph, workers, model=None, system=None, **settings):
    system = system or feature_parallel()
    cut = system.partition.cut(graph, workers)
    return ThreadedWorkers(graph, cut, system, model or shape("gcn"), replace(SETTINGS, **settings))


@each("model", [shape("gcn", hidden=3), shape("gat", hidden=4), shape("gat", hidden=8, heads=2)])
def test_workers_without_columns_take_part(model):
    """Seven workers and three or four columns; with two heads, three classes are three columns of each."""
    graph = random_graph(directed=True, classes=3, edges=300)
    graph = replace(graph, train_mask=graph.train_mask & (torch.arange(60) < 20))  # most of them have no loss either
    threads, truth = threads_of(graph, 7, model), exact_trainer(graph, model, seed=SETTINGS.seed)
    for epoch in range(2):
        threads.set_weights(truth.parameters.values)
        loss, gradient = threads.gradients(epoch)
        assert loss == pytest.approx(truth.gradients(epoch), rel=1e-5)
        error = (gradient - truth.parameters.gradients).abs().max()
        assert error <= 1e-5 * truth.parameters.gradients.abs().max()
        truth.optimizer.step()


def drawn(*size, seed):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


def aggregated(threads, kind, x, dy, extra=(), *, epoch=0):
    """Return the result, the gradient of ``x`` and those of ``extra`` of one aggregation, all nodes in order."""

    def work(trainer):
        # all of these are leaves of this worker's own graph
        ids = trainer.graph.ids
        own, weights = x[ids].requires_grad_(), [each.clone().requires_grad_() for each in extra]
        adjacency = trainer.graph.adjacency("symmetric")
        context = AggregationContext(0, epoch, training=True)
        if kind == "attend":
            y = trainer.exchange.attend(adjacency, own, *weights, slope=SLOPE, context=context)
        elif kind == "convolve":
            y = trainer.exchange.convolve(adjacency, own, *weights, context)
        else:
            y = trainer.exchange.aggregate(adjacency, own, context)
        y.backward(dy[ids])
        return ids, y.detach(), own.grad, [each.grad for each in weights]

    results = threads.run(work)
    y, dx = torch.empty_like(dy), torch.empty_like(x)
    for ids, rows, gradients, _ in results:
        y[ids], dx[ids] = rows, gradients
    return y, dx, [sum(parts) for parts in zip(*(result[3] for result in results), strict=True)]


def attention(connected, z, a_source, a_target):
    logits = (z * a_target).sum(-1)[:, None] + (z * a_source).sum(-1)[None]  # (V, V, K)
    scores = torch.nn.functional.leaky_relu(logits, SLOPE).masked_fill(~connected[:, :, None], -torch.inf)
    return torch.einsum("ijk,jkf->ikf", torch.softmax(scores, 1).nan_to_num(), z)


@each("workers", [1, 2, 3, 8])
@each("kind", ["aggregate", "convolve", "attend"])
def test_sums_and_gradients_are_those_of_float64_matrices(kind, workers):
    graph = random_graph(nodes=31, edges=150, directed=True)
    matrix = dense_of(LocalGraph(graph).adjacency("symmetric")).double()
    x = drawn(31, 2, 5, seed=1) if kind == "attend" else drawn(31, 10, seed=1)
    sizes = {"aggregate": [], "convolve": [(10, 6), (6,), (10, 6)], "attend": [(2, 5), (2, 5)]}[kind]
    extra = [drawn(*size, seed=2 + index) for index, size in enumerate(sizes)]
    leaves = [tensor.double().requires_grad_() for tensor in (x, *extra)]
    of = leaves[0]
    if kind == "attend":
        truth = attention(matrix != 0, *leaves)
    elif kind == "convolve":
        truth = matrix @ of @ leaves[1] + leaves[2] + of @ leaves[3]
    else:
        truth = matrix @ of
    dy = drawn(*truth.shape, seed=9)
    truth.backward(dy.double())
    y, dx, others = aggregated(threads_of(graph, workers), kind, x, dy, extra)
    for found, true in zip((y, dx, *others), (truth.detach(), *(leaf.grad for leaf in leaves)), strict=True):
        assert (found - true).abs().max() <= EXACT * true.abs().max()


@each("bits", [2, 4, 8])
def test_sums_and_gradients_of_codes_are_unbiased(bits):
    graph, epochs = random_graph(nodes=12, edges=40, directed=True, isolated=1), 400
    matrix, x, dy = dense_of(LocalGraph(graph).adjacency("symmetric")), drawn(12, 24, seed=1), drawn(12, 24, seed=2)
    threads = threads_of(graph, 3, system=feature_parallel(bits=bits))
    results = [aggregated(threads, "aggregate", x, dy, epoch=epoch)[:2] for epoch in range(epochs)]
    for found, true in zip(zip(*results, strict=True), (matrix @ x, matrix.T @ dy), strict=True):
        draws = torch.stack(found).double()  # (T, V, D)
        # Of the element that varies most: one beside a level is rounded to the other level in few epochs or in none.
        error = draws.std(0).max() / epochs**0.5
        assert error > 0 and (draws.mean(0) - true).abs().max() <= 5 * error


def noises(threads, direction):
    """Return received rows of a split and a join by worker: all shares of all rows have the same values, in one bit."""
    ramp = torch.linspace(0, 1, 32)

    def work(trainer):
        context = AggregationContext(0, 0, training=True)
        exchange = trainer.exchange
        aggregation = ColumnAggregation(
            exchange.redistribution, trainer.graph.adjacency("mean"), context, exchange.products
        )
        rows = aggregation.split(
            direction, ramp.repeat(exchange.redistribution.num_rows, exchange.redistribution.workers)
        )  # (V, 32)
        sums = aggregation.join(
            direction, ramp.repeat(exchange.redistribution.num_nodes, 1), 32 * exchange.redistribution.workers
        )
        shard = threads.shards[exchange.redistribution.rank]
        return torch.cat([shard.owned, shard.halo]), rows, sums.unflatten(1, (-1, 32))

    return threads.run(work)


@each("direction", ["forward", "backward"])
def test_shares_of_a_row_err_independently(direction):
    threads = threads_of(random_graph(nodes=30), 3, system=feature_parallel(bits=1))
    results = noises(threads, direction)
    by_node = [dict(zip(ids.tolist(), rows, strict=True)) for ids, rows, _ in results]
    for rank, shard in enumerate(threads.shards):
        one, other = (by_node[peer] for peer in {0, 1, 2} - {rank})
        assert not any(torch.equal(one[node], other[node]) for node in shard.owned.tolist()), "rows to two receivers"
        parts = [results[rank][2][:, peer] for peer in {0, 1, 2} - {rank}]  # (N, 32) each
        assert not (parts[0] == parts[1]).all(1).any(), "sums of two senders"


def test_all_shares_of_a_node_have_the_same_attention():
    """Logits are sent in few bits: the owner uses those that others receive, too."""
    threads = threads_of(random_graph(nodes=30), 3, system=feature_parallel(bits=4))
    z, logits = drawn(30, 4, seed=1), dict[int, list[torch.Tensor]]()

    def work(trainer):
        exchange, ids = trainer.exchange, trainer.graph.ids
        context = AggregationContext(0, 0, training=True)
        aggregation = ColumnAggregation(
            exchange.redistribution, trainer.graph.adjacency("mean"), context, exchange.products
        )
        shard = threads.shards[exchange.redistribution.rank]
        return torch.cat([shard.owned, shard.halo]), _Logits.apply(z[ids], aggregation), z[ids]

    for nodes, rows, own in threads.run(work):
        assert not torch.equal(rows[: len(own)], own), "nothing was rounded"
        for node, row in zip(nodes.tolist(), rows, strict=True):
            logits.setdefault(node, []).append(row)
    assert all(torch.equal(row, rows[0]) for rows in logits.values() for row in rows)


def counted(graph, model, workers, system):
    threads = threads_of(graph, workers, model, system)
    threads.step(0)
    return sum(sent_bytes(threads)), PartitionSizes.from_shards(threads.shards)


@each("workers", [2, 4, 8])
def test_bytes_are_those_of_the_formula(workers):
    graph = random_graph(nodes=90, features=8, classes=4)
    facts = {"features": graph.num_features, "classes": graph.num_classes}
    for name in sorted(MODELS):
        for system in (feature_parallel(), feature_parallel(bits=2)):
            sent, sizes = counted(graph, shape(name), workers, system)
            assert epoch_bytes(system, shape(name), sizes, **facts) == sent > 0, (name, system)
    # GCN: 8 features, forward only, 16 hidden columns and 4 classes both ways, in a split and a join of float32.
    sent, _ = counted(graph, shape("gcn"), workers, feature_parallel())
    by_hand = 2 * (workers - 1) / workers * 90 * 4 * (8 + 2 * 16 + 2 * 4)
    assert sent == pytest.approx(by_hand, rel=0.05)


def test_static_sums_are_computed_once():
    graph, sent, losses = random_graph(features=8), {}, {}
    for kept in ("resend", "cache"):
        threads = threads_of(graph, 3, ModelSettings(layers=2, hidden=16), input_features=kept)
        losses[kept] = [threads.step(epoch) for epoch in range(3)]
        channels = [channel for trainer in threads.trainers for channel in trainer.exchange.channels]
        sent[kept] = sum(one.bytes_payload for one in channels if tuple(one.place)[:2] == (0, "forward"))
    assert losses["resend"] == pytest.approx(losses["cache"], rel=1e-5)
    assert sent["resend"] == 3 * sent["cache"] > 0


RESUMED = {
    "two bits": (feature_parallel(bits=2), shape("gcn"), SETTINGS),
    "attention": (feature_parallel(bits=4), shape("gat"), SETTINGS),
    "static sums": (
        feature_parallel(bits=8),
        shape("graphsage", input_dropout=0.0),
        replace(SETTINGS, input_features="cache"),
    ),
    "widths that change": (
        replace(feature_parallel(), bits=gq.bits.UniformRandom(bit_widths=(2, 8, 32), period=2)),
        shape("gcn"),
        SETTINGS,
    ),
    "bases": (
        replace(
            feature_parallel(),
            codec=gq.codecs.LowRank(first=0, refresh_every=1, least_gain=0.0),
            bits=gq.bits.Fixed(bits=2),
        ),
        shape("gcn"),
        SETTINGS,
    ),
}


def resumed(rank, workers, graph):
    found = {}
    for name, (system, model, settings) in RESUMED.items():
        shard = system.partition.cut(graph, workers).shard(graph, rank)

        def trainer(shard=shard, system=system, model=model, settings=settings):
            return worker_trainer(shard, system, model, settings)

        straight = trainer()
        losses = [straight.epoch(epoch) for epoch in range(5)]
        straight.evaluate(5)
        stopped = trainer()
        for epoch in range(3):
            stopped.epoch(epoch)
        tensors, facts = capture(stopped)
        later = trainer()
        restore(later, Checkpoint(3, tensors, facts) if rank == 0 else None)
        losses_later = [later.epoch(epoch) for epoch in range(3, 5)]
        found[name] = losses[3:], losses_later, straight.parameters.values.clone(), later.parameters.values.clone()
        for one in (straight, stopped, later):
            one.close()
    return found


def test_a_resumed_training_is_the_same_bit_for_bit():
    for found in run_ranks(resumed, 3, random_graph(directed=True)):
        for name, (losses, losses_later, weights, weights_later) in found.items():
            assert losses == losses_later and torch.equal(weights, weights_later), name


REFUSED = [
    ({"schedule": Overlapped()}, r"exchange Columns cannot work .*rows of all nodes.*choose schedule Synchronous\(\)"),
    ({"schedule": Pipelined()}, r"exchange Columns cannot work .*rows of all nodes.*choose schedule Synchronous\(\)"),
    ({"schedule": Sequential()}, r"exchange Columns cannot work .*rows of all nodes.*choose schedule Synchronous\(\)"),
    ({"sampler": gq.samplers.BoundarySampling(p=0.5)}, r"exchange Columns cannot work .*choose sampler AllRows\(\)"),
    ({"cache": Unchanged()}, r"exchange Columns cannot work .*got cache Unchanged; choose cache NoCache\(\)"),
    ({"compute": gq.compute.BFloat16Rows()}, r"in float32, got compute BFloat16Rows; choose compute Float32Products"),
    ({"bits": Assigned()}, r"bits Assigned need halo rows, got shares of rows; choose bits Fixed\(\)"),
    ({"bits": (gq.bits.Fixed(bits=4), Assigned())}, r"bits Assigned need halo rows, got shares of rows"),
    (
        {"partition": gq.partitioners.Random()},
        "exchange Columns needs a column partition .*, got partition Random, an edge-cut",
    ),
]


@each(("axes", "text"), REFUSED)
def test_incompatible_components_raise_value_error(axes, text):
    with pytest.raises(ValueError, match=text):
        replace(feature_parallel(), **axes)


def test_settings_that_need_whole_rows_raise_value_error():
    for settings, text in (
        ({"task": "links"}, "got a partition of columns in system 'feature-parallel'; choose a system with"),
        ({"protocol": "inductive"}, "got a partition of columns with system 'feature-parallel'"),
        ({"node_features": "learned"}, "got a partition of columns; choose vanilla or adaqp"),
    ):
        with pytest.raises(ValueError, match=text):
            gq.configure("digits", system="feature-parallel", **settings)
    graph = random_graph()
    trainer = worker_trainer(feature_parallel().partition.cut(graph, 1).shard(graph, 0), feature_parallel(),
                             shape("gcn"), SETTINGS)  # fmt: skip
    with pytest.raises(ValueError, match=r"extend needs all columns .*call aggregate or attend, or choose exchange"):
        trainer.graph.open_pass(0, training=True).extend(trainer.graph.features)
    trainer.close()
