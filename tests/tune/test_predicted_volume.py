"""Bytes by formula are counted bytes: every exchange, every model, every system of one bit-width."""

from __future__ import annotations

from dataclasses import replace

import pytest

import gnnqlab as gq
from gnnqlab.exchange.traffic_model import PartitionSizes
from gnnqlab.graph import load
from gnnqlab.nn.models.registry import MODELS, ModelSettings
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems import cagnet, cdfgnn, make_system, sancus, sancus_q
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.tune.predicted_volume import epoch_bytes
from tests.exchange.random_edges import EdgesAtRandom
from tests.tune.probes import sent_by_epoch

GRAPH = "sbm:121,3,6"
RANDOM = gq.partitioners.Random()
HALO = replace(make_system("fixed-bits", bits=4, parameters="bfloat16"), partition=RANDOM)
SYSTEMS = {
    "vanilla": replace(make_system("vanilla"), partition=RANDOM),
    "fixed bits": HALO,
    "pipegcn": replace(make_system("pipegcn"), partition=RANDOM),
    "replicas": replace(cdfgnn(bits=8), partition=EdgesAtRandom(), cache=gq.systems.vanilla().cache),
    "cagnet": cagnet(),
    "cagnet, 3 bits by direction": replace(
        cagnet(), codec=gq.codecs.Stochastic(), bits=(gq.bits.Fixed(bits=2), gq.bits.Fixed(bits=8))
    ),
    "feature-parallel": make_system("feature-parallel"),
    "feature-parallel, 4 bits": make_system("feature-parallel", bits=4),
    "sancus, fixed": sancus(rule="fixed", every=2),
    "sancus, age": sancus(rule="age", every=9, max_age=2),
    "sancus-q, age": sancus_q(rule="age", every=2, warm_up=2),
    "sancus, as released": sancus(epsilon=9.0, as_released=True),
}
REPLICATED = {"cagnet, c = 2": (cagnet(replication=2), 8), "c = 2 on 4": (cagnet(replication=2), 4)}


def counted(system, shape, workers, epochs=4):
    """Return payload and parameters of each epoch, and the sizes of the cut."""
    graph = load(GRAPH)
    threads = ThreadedWorkers(graph, system.partition.cut(graph, workers), system, shape, TrainSettings())
    return list(sent_by_epoch(threads, epochs)), PartitionSizes.from_shards(threads.shards)


def by_formula(system, shape, sizes, epochs=4):
    graph = load(GRAPH)
    facts = {"features": graph.num_features, "classes": graph.num_classes}
    return [epoch_bytes(system, shape, sizes, **facts, epoch=epoch) for epoch in range(epochs)]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_bytes_by_formula_are_bytes_counted(name):
    shape = ModelSettings(name=name, layers=3, hidden=10, dropout=0.3)
    for case, system in SYSTEMS.items():
        epochs = 4 if name in ("gcn", "gat") else 1
        sent, sizes = counted(system, shape, 3, epochs)
        assert by_formula(system, shape, sizes, epochs) == sent and max(sent) > 0, case


def test_replicated_blocks_send_the_bytes_of_the_formula():
    for case, (system, workers) in REPLICATED.items():
        for name in ("gcn", "graphsage"):
            shape = ModelSettings(name=name, layers=3, hidden=10)
            sent, sizes = counted(system, shape, workers, 1)
            assert sizes.replication == 2 and by_formula(system, shape, sizes, 1) == sent, (case, name)


def test_the_formula_of_cagnet_is_written_down():
    """BASELINES: (P - 1) n words of d_(l-1) forward and of d_l backward per layer, for any cut."""
    shape, sizes = ModelSettings(layers=3, hidden=16, dropout=0.0), PartitionSizes(num_nodes=1000, workers=64)
    widths = [8, 16, 16, 5]  # the last layer projects first, so 5 columns are sent in both directions
    by_hand = 63 * 1000 * 4 * ((8 + 16) + (16 + 16) + (5 + 5))
    assert epoch_bytes(cagnet(), shape, sizes, features=widths[0], classes=widths[-1]) == by_hand
    words = (64 / 4 - 1 + 2 * 3) * 1000  # n (P / c) / c of broadcasts less the own block, and an all-reduce over c = 4
    replicated = PartitionSizes(num_nodes=1000, workers=64, replication=4)
    assert epoch_bytes(cagnet(), shape, replicated, features=8, classes=5) == words * 4 * (24 + 32 + 10)


def test_one_worker_sends_zero_bytes_and_mixed_bit_widths_raise_value_error():
    shape = ModelSettings()
    assert epoch_bytes(cagnet(), shape, PartitionSizes(num_nodes=9, workers=1), features=4, classes=2) == 0
    with pytest.raises(ValueError, match=r"one bit-width for a formula, got UniformRandom with .*; use gq.probe"):
        epoch_bytes(make_system("random-bits"), shape, PartitionSizes(num_nodes=9, workers=2), features=4, classes=2)
