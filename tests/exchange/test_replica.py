"""Replicas that add up their sums: the law under vertex-cuts, equal replicas, noise and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.exchange.schedules.pipeline import Pipelined
from gnnqlab.exchange.schedules.schedule import Overlapped, Synchronous
from gnnqlab.exchange.vertex_cut.exchange import Replicas
from gnnqlab.exchange.vertex_cut.sums import Synchronised
from gnnqlab.message.caches.cache import Unchanged
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.nn import ModelSettings
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from tests.agreement import assert_same_training
from tests.cases import each
from tests.exchange.random_edges import EdgesAtRandom
from tests.graphs import random_graph
from tests.nn.test_law import one_process, train
from tests.ranks import run_ranks

SETTINGS = TrainSettings(seed=5, weight_decay=1e-3)
SYSTEM = replace(vanilla(), partition=EdgesAtRandom(), exchange=Replicas())


def shape(name):
    return ModelSettings(name=name, layers=3, hidden=16, dropout=0.3, input_dropout=0.1)


def on_rank(rank, workers, graph, cut, schedule):
    shard, system = cut.shard(graph, rank), replace(SYSTEM, schedule=schedule)
    return {name: train(worker_trainer(shard, system, shape(name), SETTINGS)) for name in sorted(MODELS)}


@pytest.mark.parametrize(("workers", "idle", "directed", "features", "schedule"), [
    (1, 0, False, 12, Synchronous()),
    (2, 0, True, 40, Overlapped()),
    (3, 0, False, 40, Synchronous()),
    (4, 1, True, 12, Overlapped()),
])  # fmt: skip
def test_workers_equal_one_process(workers, idle, directed, features, schedule):
    graph = random_graph(directed=directed, features=features, seed=workers)
    cut = EdgesAtRandom(seed=1, idle=idle).cut(graph, workers)
    results = run_ranks(on_rank, workers, graph, cut, schedule)
    for name in sorted(MODELS):
        truth = one_process(graph, shape(name), SETTINGS)
        found = [result[name] for result in results]
        try:
            assert_same_training(found, truth)
            assert all(each["scores"] == truth["scores"] for each in found)
        except AssertionError as error:
            error.add_note(name)
            raise


def recorded(rank, workers, graph, cut, systems):
    """Train; return totals of each aggregation, (case, epoch, layer, direction) -> rows, and the ids of the rows."""
    shard, found, now, whole = cut.shard(graph, rank), {}, {}, Synchronised.dependent

    def dependent(step, round):
        whole(step, round)
        if round == step.aggregation.last and step.aggregation.context.training:
            found[now["case"], step.aggregation.context.epoch, step.aggregation.context.layer, step.direction] = (
                step.rows.clone()
            )

    Synchronised.dependent = dependent
    try:
        for case, (system, name) in systems.items():
            now["case"] = case
            trainer = worker_trainer(shard, system, shape(name), SETTINGS)
            losses = [trainer.epoch(epoch) for epoch in range(3)]
            assert all(torch.isfinite(torch.tensor(float(loss))) for loss in losses), losses
            trainer.close()
    finally:
        Synchronised.dependent = whole
    return shard.row_ids, found


def company():
    rounded = replace(SYSTEM, codec=gq.codecs.Stochastic())
    systems = {
        "float32": SYSTEM,
        "one bit": replace(rounded, bits=gq.bits.Fixed(bits=1)),
        "by node": replace(
            rounded, codec=gq.codecs.Stochastic(noise="node", parameters="bfloat16"), bits=gq.bits.Fixed(bits=4)
        ),
        "several widths": replace(rounded, bits=gq.bits.UniformRandom(bit_widths=(2, 8, 32)), schedule=Overlapped()),
        "held": replace(rounded, cache=Unchanged(tolerance=0.3, differences=True), bits=gq.bits.Fixed(bits=4)),
        "bfloat16": replace(rounded, compute=gq.compute.BFloat16Rows(), bits=gq.bits.Fixed(bits=8)),
    }
    return {(case, name): (system, name) for case, system in systems.items() for name in ("gcn", "gat")}


def test_copies_of_a_node_are_equal_bit_by_bit():
    graph = random_graph(directed=True, features=12, seed=4)
    results = run_ranks(recorded, 3, graph, EdgesAtRandom(seed=2).cut(graph, 3), company())
    looks = {"gcn": 5, "gat": 6}  # GCN needs no gradients of raw features
    assert len(results[0][1]) == sum(3 * looks[name] for _, name in company())
    several = 0
    for key in results[0][1]:
        first: dict[int, torch.Tensor] = {}
        for ids, found in results:
            for node, row in zip(ids.tolist(), found[key]):
                several += node in first
                assert torch.equal(first.setdefault(node, row), row), (key, node)
    assert several


def noises(rank, workers, graph, cut):
    """Return the partial sums that each worker's first layer receives at its masters."""
    shard, came = cut.shard(graph, rank), {}
    exchange = worker_trainer(
        shard, replace(SYSTEM, codec=gq.codecs.Stochastic(), bits=gq.bits.Fixed(bits=1)), shape("gcn"), SETTINGS
    ).exchange
    ramp = torch.linspace(0, 1, 64)
    for direction in ("forward", "backward"):
        rows = ramp.repeat(shard.num_columns, 1)
        parts = torch.zeros(shard.boundary.numel(), 64)
        mirrors = exchange.mirrors
        plans = {"sum": mirrors.legs[0].plan, "side by side": mirrors.legs[0].side_by_side}
        for layer, (kind, plan) in enumerate(plans.items()):
            channel = mirrors.channel(ExchangeKey(layer, direction), plan, exact=False)
            if kind == "sum":
                rows[: shard.num_owned] = 0
                channel.post(rows, rows, epoch=0).decode()
                came[direction, kind] = rows[: shard.num_owned].clone()
            else:
                channel.post(ramp.repeat(shard.num_columns, 1), parts, epoch=0).decode()
                came[direction, kind] = parts
    return shard.boundary, shard.boundary_splits, came


def test_parts_of_one_sum_err_independently():
    graph = random_graph(edges=900, features=12, seed=4)
    for boundary, splits, came in run_ranks(noises, 3, graph, EdgesAtRandom(seed=2).cut(graph, 3)):
        of = boundary.split(splits.tolist())
        one, other = (nodes for nodes in of if nodes.numel())
        both = one[torch.isin(one, other)]
        assert both.numel() > 3
        for direction in ("forward", "backward"):
            rows = came[direction, "sum"][both]
            assert ((rows - rows.round()).abs() < 1e-6).all() and (rows.round() == 1).any(), "parts err identically"
            first, second = (part for part in came[direction, "side by side"].split(splits.tolist()) if part.numel())
            places = [torch.searchsorted(nodes, both) for nodes in (one, other)]
            assert not torch.equal(first[places[0]], second[places[1]]), direction


REFUSED = [
    ({"schedule": Pipelined()}, r"exchange Replicas cannot work .*choose schedule Synchronous\(\) or Overlapped"),
    ({"sampler": gq.samplers.BoundarySampling(p=0.5)}, r"exchange Replicas cannot work .*choose sampler AllRows\(\)"),
    (
        {"codec": gq.codecs.Stochastic(), "bits": Assigned()},
        r"bits Assigned need halo rows, got partial sums; choose",
    ),
    (
        {"partition": gq.partitioners.Random()},
        "exchange Replicas needs a vertex-cut .*, got partition Random, an edge-cut",
    ),
]


@each(("axes", "text"), REFUSED)
def test_incompatible_components_raise_value_error(axes, text):
    with pytest.raises(ValueError, match=text):
        replace(SYSTEM, **axes)


def extended(rank, workers, graph, cut):
    trainer = worker_trainer(cut.shard(graph, rank), SYSTEM, shape("gcn"), SETTINGS)
    with pytest.raises(ValueError, match=r"vertex-cut.*call aggregate or attend, or choose exchange Halo\(\)"):
        trainer.graph.open_pass(0, training=True).extend(trainer.graph.features)


def test_neighbours_are_not_brought_together():
    graph = random_graph()
    run_ranks(extended, 2, graph, EdgesAtRandom().cut(graph, 2))


def once_on_rank(rank, workers, graph, cut, kept):
    settings = replace(SETTINGS, input_features="cache" if kept else "resend")
    model = ModelSettings(name="gcn", layers=2, hidden=16)
    trainer = worker_trainer(cut.shard(graph, rank), SYSTEM, model, settings)
    losses, sent = [], []
    for epoch in range(3):
        losses.append(trainer.gradients(epoch))
        trainer.optimizer.step()
        sent.append(sum(channel.bytes_payload for channel in trainer.exchange.channels))
    trainer.close()
    return losses, sent


def test_sums_of_raw_features_may_travel_once():
    graph = random_graph(features=8)
    cut = EdgesAtRandom().cut(graph, 2)
    often, once = (run_ranks(once_on_rank, 2, graph, cut, kept) for kept in (False, True))
    for (losses, sent), (same, fewer) in zip(often, once):
        assert losses == same and sent[0] == fewer[0]
        rows = sent[0] // 4 // (8 + 4 + 4)  # layer 0 in full forward, layer 1 projected to classes in both directions
        assert sent[1] - sent[0] - (fewer[1] - fewer[0]) == rows * 8 * 4
