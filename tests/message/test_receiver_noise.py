"""Noise by receiver and noise by node: correlated errors, and their effect on the gradient."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gnnqlab.bits import Fixed
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.graph import Graph
from gnnqlab.message.caches.cache import Unchanged
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random
from gnnqlab.simulation.gradient_noise import gradient_noise
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems import System, fixed_bits, vanilla
from gnnqlab.train.config.run_config import TrainSettings
from tests.cases import each
from tests.graphs import random_graph

MODEL = ModelSettings(layers=2, hidden=8, norm="none", dropout=0.0)


def received(graph, system, workers, epoch=0):
    """Return ``{(node, receiver): decoded row}`` and ``{node: row}`` of one exchange of rows."""
    cut = system.partition.cut(graph, workers)
    threads = ThreadedWorkers(graph, cut, system, MODEL, TrainSettings(seed=4))
    rows = torch.randn(graph.num_nodes, 24, generator=torch.Generator().manual_seed(1))

    def extend(trainer):
        context = AggregationContext(0, epoch, training=True)
        return trainer.exchange.extend(rows[trainer.graph.ids], context)

    found = {}
    for shard, extended in zip(threads.shards, threads.run(extend), strict=True):
        for node, row in zip(shard.halo.tolist(), extended[shard.num_owned :], strict=True):
            found[node, shard.rank] = row
    return found, rows


@each("cache", [None, Unchanged()])
@each(("noise", "alike"), [("node", True), ("receiver", False)])
def test_receivers_of_a_row_err_alike_or_apart(noise, alike, cache):
    graph, workers = random_graph(), 4
    system = replace(fixed_bits(bits=1), partition=Random(), codec=Stochastic(noise=noise))
    system = system if cache is None else replace(system, cache=cache)
    found, _ = received(graph, system, workers)
    by_node = {}
    for (node, _), row in found.items():
        by_node.setdefault(node, []).append(row)
    several = [copies for copies in by_node.values() if len(copies) > 1]
    assert len(several) > 10
    for copies in several:
        assert torch.equal(copies[0], copies[1]) == alike


def test_noise_per_node_and_per_receiver_is_unbiased():
    graph, repeats = random_graph(30, 200), 400
    for noise in ("node", "receiver"):
        system = replace(fixed_bits(bits=1), partition=Random(), codec=Stochastic(noise=noise))
        mean, truth = {}, None
        for epoch in range(repeats):
            found, truth = received(graph, system, 3, epoch)
            for key, row in found.items():
                mean[key] = mean.get(key, 0) + row / repeats
        for (node, _), row in mean.items():
            spread = truth[node].max() - truth[node].min()
            # One bit: an element's deviation is at most half the row's range; five deviations of the mean.
            assert (row - truth[node]).abs().max() <= 5 * 0.5 * spread / repeats**0.5


def test_two_workers_have_one_receiver_and_one_noise():
    graph, shape = random_graph(), replace(MODEL, hidden=16)
    both = [
        gradient_noise(
            graph, Fixed(bits=2), shape, repeats=4, noise=noise, system=replace(vanilla(), partition=Random())
        )
        for noise in ("node", "receiver")
    ]
    assert both[0] == both[1]


def star():
    """A hub on worker 0 that 48 nodes of three other workers read; each of these decodes one row, the hub's."""
    nodes = 64
    order = torch.arange(nodes)
    return Graph.from_edges(
        torch.zeros(nodes - 1, dtype=torch.int64),
        torch.arange(1, nodes),
        num_nodes=nodes,
        features=torch.randn(nodes, 6, generator=torch.Generator().manual_seed(0)),
        labels=(order % 8 == 0).long(),
        train_idx=order[:62],
        val_idx=order[62:63],
        test_idx=order[63:],
        num_classes=6,
        symmetrize=False,
        self_loops="add",
    )


def test_errors_that_agree_do_not_average_out():
    """In a layer that sums first, W's gradient has ``e_1 s_1 + e_2 s_2 + e_3 s_3``: errors times sums of gradients.

    Nearly all nodes have one label, so the three sums are almost equal: with one error the variance is that of
    ``3 e s``, with three errors a third of it.
    """
    graph, shape = star(), ModelSettings(layers=1, norm="none", dropout=0.0)
    recipe = replace(vanilla(), partition=Blocks())
    alike, apart = (
        gradient_noise(graph, Fixed(bits=1), shape, workers=4, repeats=300, noise=noise, system=recipe).variance
        for noise in ("node", "receiver")
    )
    assert alike > 1.5 * apart


class Blocks(Random):
    """Assigns nodes in order: the hub and 15 others to worker 0."""

    def cut(self, graph, workers):
        from gnnqlab.partition.cut import NodeCut

        owner = torch.arange(graph.num_nodes) * workers // graph.num_nodes
        return NodeCut(owner=owner, workers=workers, library=None)


def test_it_is_a_setting_of_the_codec():
    system = replace(fixed_bits(), codec=Stochastic(noise="node"))
    assert System.from_json(system.to_json()).codec.noise == "node"
    assert Stochastic().noise == "receiver"
    with pytest.raises(ValueError, match="noise must be 'receiver' or 'node', got 'everybody'"):
        Stochastic(noise="everybody")
