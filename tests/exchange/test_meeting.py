"""Hierarchical aggregation of replicas on a host: the law, equal replicas, bytes of each tier, refusals."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.exchange.schedules.schedule import Overlapped, Synchronous
from gnnqlab.exchange.vertex_cut.exchange import Replicas
from gnnqlab.graph import load
from gnnqlab.lab.figures.frames import by_tier
from gnnqlab.nn import ModelSettings
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.partition.host_aggregation import hierarchical_legs, representatives
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from gnnqlab.tune.trace import trace
from tests.agreement import assert_same_training
from tests.exchange.random_edges import EdgesAtRandom
from tests.exchange.test_replica import SETTINGS, recorded, shape
from tests.graphs import random_graph
from tests.nn.test_law import one_process, train
from tests.ranks import run_ranks
from tests.tune.probes import GRAPH, MODEL, SHAPE, written_down

SYSTEM = replace(vanilla(), partition=EdgesAtRandom(), exchange=Replicas(hierarchical=True, hosts=2))


# --- Masters of hosts ---


def test_representatives_hold_a_copy_on_their_host():
    generator = torch.Generator().manual_seed(0)
    held = torch.rand(500, 6, generator=generator) < 0.4
    master = torch.randint(6, (500,), generator=generator)
    held[torch.arange(500), master] = True
    stands = representatives(torch.arange(500), held, master, 2)
    for node, (copies, owner) in enumerate(zip(held.tolist(), master.tolist())):
        for host in range(2):
            of_host = [worker for worker in range(3 * host, 3 * host + 3) if copies[worker]]
            expected = owner if owner in of_host else of_host[node % len(of_host)] if of_host else -1
            assert stands[node, host] == expected


@pytest.mark.parametrize(("workers", "hosts", "idle"), [(4, 2, 0), (6, 2, 1), (6, 3, 0), (3, 1, 0)])
def test_both_ends_of_every_leg_agree(workers, hosts, idle):
    graph = random_graph(directed=True, seed=workers)
    cut = EdgesAtRandom(seed=2, idle=idle).cut(graph, workers)
    shards = [cut.shard(graph, rank) for rank in range(workers)]
    legs = [hierarchical_legs(shard, hosts) for shard in shards]
    per_host, outer_pairs = workers // hosts, set()
    for rank, number in itertools.product(range(workers), range(4)):
        leg, shard = legs[rank][number], shards[rank]
        assert leg.plan.exact == (number in (0, 3)) and leg.gathers == (number < 2)
        for route in leg.plan.send:
            there = legs[route.peer][number]
            assert torch.equal(there.plan.from_peer(rank).ids, route.ids)
            assert torch.equal(shard.row_ids[route.rows], route.ids)
            if route.num_rows:
                assert (rank // per_host == route.peer // per_host) == (number in (0, 3))
            if number == 1:
                outer_pairs |= {(int(node), rank // per_host) for node in route.ids}
                host = rank // per_host
                of_host = shard.copies[route.rows, host * per_host : (host + 1) * per_host]
                aside = there.side_by_side.from_peer(rank)
                assert torch.equal(there.summed[aside.rows], (of_host > 1).any(1))
    wanted = {
        (int(node), holder // per_host)
        for holder, shard in enumerate(shards)
        for node in shard.row_ids
        if int(cut.owner[node]) // per_host != holder // per_host
    }
    assert outer_pairs == wanted
    assert sum(int(leg[1].plan.sent_rows.sum()) for leg in legs) == len(wanted)


# --- The law ---


def models_of(workers):
    return sorted(MODELS) if workers == 4 else ["gat", "gcn", "jknet"]


def on_rank(rank, workers, graph, cut, hosts, schedule):
    system = replace(SYSTEM, exchange=Replicas(hierarchical=True, hosts=hosts), schedule=schedule)
    shard = cut.shard(graph, rank)
    return {name: train(worker_trainer(shard, system, shape(name), SETTINGS)) for name in models_of(workers)}


@pytest.mark.parametrize(("workers", "hosts", "idle", "directed", "features", "schedule"), [
    (4, 2, 0, True, 40, Synchronous()),
    (6, 2, 1, True, 12, Overlapped()),
])  # fmt: skip
def test_workers_that_meet_equal_one_process(workers, hosts, idle, directed, features, schedule):
    graph = random_graph(edges=140, directed=directed, features=features, seed=workers, self_loops="remove")
    # Masters are anywhere, so that one may have no edge into its node although replicas on both hosts have some.
    owner = torch.randint(workers - idle, (graph.num_nodes,), generator=torch.Generator().manual_seed(workers))
    cut = replace(EdgesAtRandom(seed=1, idle=idle).cut(graph, workers), owner=owner)
    results = run_ranks(on_rank, workers, graph, cut, hosts, schedule)
    for name in models_of(workers):
        truth = one_process(graph, shape(name), SETTINGS)
        found = [result[name] for result in results]
        try:
            assert_same_training(found, truth)
            assert all(each["scores"] == truth["scores"] for each in found)
        except AssertionError as error:
            error.add_note(name)
            raise


def company():
    rounded = replace(SYSTEM, codec=gq.codecs.Stochastic())
    systems = {
        "float32": SYSTEM,
        "one bit": replace(rounded, bits=gq.bits.Fixed(bits=1), schedule=Overlapped()),
        "linear": replace(
            SYSTEM, codec=gq.codecs.Linear(), bits=gq.bits.Fixed(bits=4), cache=gq.caches.AdaptiveCache()
        ),
    }
    return {(case, name): (system, name) for case, system in systems.items() for name in ("gcn", "gat")}


def test_copies_are_equal_bit_by_bit_on_all_hosts():
    graph = random_graph(directed=True, features=12, seed=4)
    results = run_ranks(recorded, 4, graph, EdgesAtRandom(seed=2).cut(graph, 4), company())
    several = 0
    for key in results[0][1]:
        first: dict[int, torch.Tensor] = {}
        for ids, found in results:
            for node, row in zip(ids.tolist(), found[key]):
                several += node in first
                assert torch.equal(first.setdefault(node, row), row), (key, node)
    assert several and len(results[0][1]) == sum(3 * {"gcn": 5, "gat": 6}[name] for _, name in company())


# --- Bytes ---


def sent_by_tier(threads, per_host):
    """Payload and parameter bytes of the last messages by tier, from the layouts that were sent."""
    found = {"inner": 0, "outer": 0}
    for trainer in threads.trainers:
        for channel in trainer.exchange.channels:
            for route in channel.plan.send:
                same = channel.plan.rank // per_host == route.peer // per_host
                found["inner" if same else "outer"] += channel.layouts["send", route.peer].num_bytes
    return found


@pytest.mark.parametrize(("workers", "name"), [(4, "gcn"), (6, "gat"), (4, "graphsage")])
def test_bytes_follow_from_distinct_pairs_of_node_and_host(workers, name):
    graph = random_graph(directed=True, features=12, seed=3)
    cut = EdgesAtRandom(seed=1).cut(graph, workers)
    per_host, held = workers // 2, torch.zeros(graph.num_nodes, workers, dtype=torch.bool)
    for rank in range(workers):
        held[cut.shard(graph, rank).row_ids, rank] = True
    hosts = held.view(-1, 2, per_host).any(2).sum(1)
    outer, inner = int((hosts - 1).sum()), int((held.sum(1) - hosts).sum())
    model = ModelSettings(name=name, layers=2, hidden=8)
    for system in (SYSTEM, replace(SYSTEM, codec=gq.codecs.Stochastic(), bits=gq.bits.Fixed(bits=4))):
        threads = ThreadedWorkers(graph, cut, system, model, TrainSettings())
        threads.step(0)
        columns = [c.columns for c in threads.trainers[0].exchange.channels if c.place.round == 0]
        row = sum(4 * d if system is SYSTEM else -(-4 * d // 8) + 8 for d in columns)
        assert sent_by_tier(threads, per_host) == {"outer": 2 * outer * row, "inner": 2 * inner * 4 * sum(columns)}
        apart = replace(system, exchange=Replicas())
        other = ThreadedWorkers(graph, cut, apart, model, TrainSettings())
        other.step(0)
        assert sent_by_tier(other, per_host)["outer"] > 2 * outer * row


@pytest.mark.parametrize("name", sorted(MODELS))
def test_sent_bytes_equal_the_forecast(name):
    graph, shape_ = load(GRAPH), ModelSettings(name=name, **SHAPE)
    cut = EdgesAtRandom().cut(graph, 4)
    traced = trace(graph, shape_, SYSTEM, workers=4, epochs=3)
    probe = replace(written_down(4), config=replace(written_down(4).config, system=SYSTEM, model=shape_), trace=traced)
    widths = replace(SYSTEM, codec=gq.codecs.Stochastic(), bits=gq.bits.UniformRandom(period=1, bit_widths=(1, 8)))
    for system in (SYSTEM, replace(widths, bits=gq.bits.Fixed(bits=4)), widths):
        threads = ThreadedWorkers(graph, cut, system, shape_, TrainSettings())
        threads.step(0)
        channels = [channel for trainer in threads.trainers for channel in trainer.exchange.channels]
        sent = sum(channel.bytes_payload + channel.bytes_params for channel in channels)
        assert probe.forecast(system=system, epoch=0).bytes_sent == sent
        assert {channel.place.round for channel in channels} == {0, 1, 2, 3}


def test_launched_run_uses_its_hosts_and_records_traffic_of_both_tiers(tmp_path):
    setup = {"layers": 2, "hidden": 8, "workers": 4, "hosts": 2, "wire": "paced"}
    system = replace(vanilla(), partition=gq.partitioners.EBV(), exchange=Replicas(hierarchical=True))
    rounded = replace(system, codec=gq.codecs.Stochastic(), bits=gq.bits.Fixed(bits=4))
    probe = gq.probe(GRAPH, system=system, launched=False, epochs=3, theorem=False, **setup)
    run = gq.launch(GRAPH, system=rounded, epochs=3, out=tmp_path, wait=True, **setup)
    found, sent = probe.forecast(system=rounded).by_tier(), by_tier(run.traffic)
    assert found["bytes"].tolist() == sent["bytes"].tolist() and found["bytes"].min() > 0
    assert set(run.traffic[run.traffic["tier"] == "inner"]["bits"]) == {32}
    assert set(run.traffic[run.traffic["tier"] == "outer"]["bits"]) == {4}
    with pytest.raises(ValueError, match="must be 2 as probed, .* got 4; probe with hosts=4"):
        probe.with_link("1gbit", hosts=4)


# --- Refusals ---


def test_invalid_hosts_of_hierarchical_aggregation_raise_value_error():
    with pytest.raises(ValueError, match="hosts must be at least 1, got 0"):
        Replicas(hierarchical=True, hosts=0)
    with pytest.raises(ValueError, match="with hierarchical=False; choose hierarchical=True"):
        Replicas(hosts=2)
    graph = load(GRAPH)
    cut = EdgesAtRandom().cut(graph, 3)
    with pytest.raises(ValueError, match=r"multiple of the hosts, got 3 worker\(s\) on 2 hosts"):
        ThreadedWorkers(graph, cut, SYSTEM, MODEL, TrainSettings())
