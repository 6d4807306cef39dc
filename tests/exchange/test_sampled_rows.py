"""The rows of a sample, one by one: the sent rows in both directions, how often they are sent, and their bytes."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from gnnqlab.graph import Graph
from gnnqlab.message import BoundarySampling
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from tests.cases import each
from tests.exchange.test_halo import worker_graph
from tests.graphs import random_graph
from tests.ranks import run_ranks


def named_on_rank(rank, workers, graph, owner, sampler, epochs):
    """Return by epoch the node of each received halo row forward, and the gradients that are added backward.

    Nodes send their own number, and gradients of halo rows are the number of their node, so every value names its node.
    """
    shard, exchange, worker = worker_graph(rank, workers, graph, owner, sampler=sampler)
    found = []
    for epoch in range(epochs):
        x = (shard.owned[:, None] + 1.0).requires_grad_()
        y = worker.open_pass(epoch, training=True).extend(x)
        gradient = torch.zeros_like(y)
        gradient[shard.num_owned :, 0] = shard.halo + 1.0
        y.backward(gradient)
        came = y[shard.num_owned :, 0].detach() / sampler.rescale
        sent = {route.peer: route.ids.tolist() for route in exchange.boundary.sampling.plan("forward", epoch).send}
        back = {route.peer: route.ids.tolist() for route in exchange.boundary.sampling.plan("backward", epoch).send}
        found.append((came, sent, back, x.grad[:, 0] / sampler.rescale))
    return shard.owned, shard.halo, found


def test_ids_that_come_are_ids_that_were_sent_in_both_directions():
    graph, workers, epochs = random_graph(200, 900), 3, 4
    owner = Random(seed=1).assign(graph, workers)
    # 1/p is 4: a power of two, so scaling up and down again gives the same number.
    results = run_ranks(named_on_rank, workers, graph, owner, BoundarySampling(p=0.25), epochs)
    for epoch in range(epochs):
        for rank, (owned, halo, found) in enumerate(results):
            came, _, back, home = found[epoch]
            kept = came > 0
            assert torch.equal(came[kept], halo[kept] + 1.0)
            sent_here = [ids for other in range(workers) if other != rank for ids in results[other][2][epoch][1][rank]]
            assert sorted(halo[kept].tolist()) == sorted(sent_here)
            # Gradients are returned for the received rows, and for no others.
            assert sorted(halo[kept].tolist()) == sorted(node for ids in back.values() for node in ids)
            copies = torch.zeros(owned.numel())
            for other in range(workers):
                if other != rank:
                    for node in results[other][2][epoch][2][rank]:
                        copies[owned == node] += 1
            assert torch.equal(home, copies * (owned + 1.0))


def pair_of_three() -> tuple[Graph, torch.Tensor]:
    """Three nodes on each of two workers, each joined to one of the other's: three boundary rows either way."""
    graph = Graph.from_edges(
        torch.arange(3),
        torch.arange(3, 6),
        num_nodes=6,
        features=torch.randn(6, 4, generator=torch.Generator().manual_seed(0)),
        labels=torch.arange(6) % 2,
        train_idx=torch.tensor([0, 1, 3, 4]),
        val_idx=torch.tensor([2]),
        test_idx=torch.tensor([5]),
        num_classes=2,
        symmetrize=True,
    )
    return graph, torch.arange(6) // 3


def test_every_row_of_a_small_pair_is_sampled_in_some_epochs():
    """⌊0.1 · 3⌋ = 0 rows would never be sent; sampled one by one, each is sent at times and most messages are empty."""
    (graph, owner), epochs, p = pair_of_three(), 200, 0.1
    results = run_ranks(named_on_rank, 2, graph, owner, BoundarySampling(p=p), epochs)
    for _, _, found in results:
        kept = torch.stack([came > 0 for came, *_ in found]).double()
        # Binomial(200, 0.1): mean 20, deviation 4.24; five deviations, exceeded once in 10^6 for one of six rows.
        assert ((kept.sum(0) - epochs * p).abs() <= 5 * math.sqrt(epochs * p * (1 - p))).all()
        empty = (kept.sum(1) == 0).double().mean()
        assert abs(empty - (1 - p) ** 3) <= 5 * math.sqrt((1 - p) ** 3 * (1 - (1 - p) ** 3) / epochs)


def bytes_on_rank(rank, workers, graph, owner, shape, sampler, epochs):
    """Return ``[(bytes counted, rows drawn x columns x 4)]`` by epoch."""
    shard = build_shard(graph, owner, rank, workers)
    trainer = worker_trainer(shard, replace(vanilla(), sampler=sampler), shape, TrainSettings(seed=3))
    found = []
    for epoch in range(epochs):
        before = {id(one): one.bytes_payload for one in trainer.exchange.channels}
        trainer.epoch(epoch)
        counted, drawn = 0, 0
        for channel in trainer.exchange.channels:
            counted += channel.bytes_payload - before.get(id(channel), 0)
            for route in channel.plan.send:
                holder = route.peer if channel.direction == "forward" else rank
                rows = sampler.sampled_positions(route.ids, holder=holder, seed=3, epoch=epoch).numel()
                drawn += rows * channel.columns * 4
        places = {(channel.layer, channel.direction, channel.columns) for channel in trainer.exchange.channels}
        found.append((counted, drawn, places))
    trainer.close()
    return found


@each("small", [False, True])
def test_bytes_are_those_of_the_rows_that_were_drawn(small):
    """Vanilla's volume with the sampled rows in place of Ω: forward d of every layer, backward of all but the first."""
    graph, owner = pair_of_three() if small else (random_graph(), None)
    workers = 2 if small else 3
    owner = Random(seed=1).assign(graph, workers) if owner is None else owner
    sampler, shape = BoundarySampling(p=0.1 if small else 0.3), ModelSettings(layers=3, hidden=16, dropout=0.3)
    wide, classes = graph.num_features, graph.num_classes
    results = run_ranks(bytes_on_rank, workers, graph, owner, shape, sampler, 12)
    totals = set()
    for found in results:
        for counted, drawn, places in found:
            assert counted == drawn
            forward = {(0, "forward", wide), (1, "forward", 16), (2, "forward", classes)}
            assert places == forward | {(1, "backward", 16), (2, "backward", classes)}
            totals.add(counted)
    assert len(totals) > 1 and (0 in totals) == small  # drawn again each epoch; empty messages are allowed
