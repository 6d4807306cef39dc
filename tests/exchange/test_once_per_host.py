"""Rows that are sent once to each other host: equal results bit for bit, bytes by tier, forecasts, refusals."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from itertools import product

import pytest
import torch

import gnnqlab as gq
from gnnqlab.errors import UnexpectedMessage
from gnnqlab.exchange import Overlapped, Pipelined, Synchronous
from gnnqlab.exchange.halo.exchange import Halo
from gnnqlab.exchange.schedules.sequential import Sequential
from gnnqlab.lab.figures.frames import by_tier
from gnnqlab.message.codecs.codec import Noise
from gnnqlab.message.transport.once_per_host import _by_row
from gnnqlab.message.transport.transport import make_transport
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random, build_shard
from gnnqlab.partition.host_copies import relayed_rows
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems import vanilla
from gnnqlab.systems.parts import PARTS
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from tests.agreement import assert_same_training
from tests.graphs import random_graph
from tests.nn.test_law import one_process, train
from tests.ranks import run_ranks

FOUR_BITS = {"codec": gq.codecs.Stochastic(noise="node"), "bits": gq.bits.Fixed(bits=4)}
SHAPE = ModelSettings(name="gcn", layers=2, hidden=8)


def once(hosts: int, **axes):
    return replace(vanilla(), exchange=Halo(hierarchical=True, hosts=hosts), **axes)


# --- Relays ---


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("workers", "hosts"), [(4, 2), (6, 2), (6, 3), (8, 2)])
def test_relays_send_a_row_once_to_each_host(seed, workers, hosts):
    graph, per_host = random_graph(directed=bool(seed % 2), seed=seed), workers // hosts
    parts = gq.partition(graph, Random(seed=seed), hosts=hosts, per_host=per_host)
    ids = {(s.rank, route.peer): route.ids for s in parts.shards for route in s.plan("forward").send}
    counts = relayed_rows(ids, workers, hosts)
    outer = 0
    for ends, nodes in ids.items():
        assert sum(counts[ends].values()) == nodes.numel()
        for (start, end), rows in counts[ends].items():
            assert end == ends[1] and (start == ends[0] or start // per_host == end // per_host != ends[0] // per_host)
            outer += rows * (start // per_host != end // per_host)
    assert outer == parts.quality.outer - parts.quality.repeated_outer


@pytest.mark.parametrize("name", sorted({*PARTS["codec"]} - {"spikes"}))
def test_codec_encodes_a_row_alone(name):
    kind = PARTS["codec"][name]
    codec = kind(noise="node") if "noise" in {field.name for field in fields(kind)} else kind()
    assert codec.same_at_receivers
    x, ids = torch.randn(23, 40, generator=torch.Generator().manual_seed(0)), torch.arange(23) * 7
    chosen = torch.tensor([1, 4, 5, 11, 22])
    for bits in codec.widths:
        whole, part = codec.layout(bits, 23, 40), codec.layout(bits, 5, 40)
        segments = []
        for layout, rows, peer in ((whole, torch.arange(23), 0), (part, chosen, 1)):
            segments.append(torch.zeros(layout.num_bytes, dtype=torch.uint8))
            codec.encode(x, rows, ids[rows], layout, segments[-1], Noise(3, 1, 64, peer))
        cut = torch.cat([each[chosen].flatten() for each in _by_row(segments[0], whole)])
        assert torch.equal(cut, segments[1]), bits


# --- The same training ---


def cases(workers):
    hosts = {4: (2,), 6: (3,)}.get(workers, (workers,))
    schedules = {"synchronous": Synchronous(), "overlapped": Overlapped(), "stale": Pipelined()}
    found = {}
    for (when, schedule), transport in product(schedules.items(), ("direct", "ring", "all-to-all")):
        if workers == 4 and (transport == "direct" or when == "stale"):
            for name, axes in {"float32": {}, "4 bits": FOUR_BITS}.items():
                settings = TrainSettings(
                    transport=transport, input_features="cache" if when == "overlapped" else "resend"
                )
                found[when, transport, name] = once(hosts[0], schedule=schedule, **axes), settings
        elif transport == "direct":
            found[when, transport, "float32"] = once(hosts[0], schedule=schedule), TrainSettings()
    return found


def both_ways(rank, workers, graph, owner, names):
    results = {}
    for case, (system, settings) in cases(workers).items():
        for name in names:
            shape = replace(SHAPE, name=name)
            for way, exchange in (("once", system.exchange), ("apart", Halo())):
                shard = build_shard(graph, owner, rank, workers)
                trainer = worker_trainer(shard, replace(system, exchange=exchange), shape, settings, run="one")
                result = train(trainer)
                sent = [(c.bytes_payload, c.bytes_params, c.bytes_headers) for c in trainer.exchange.channels]
                came = [
                    (a.sender, a.layout.payload_bytes, a.layout.param_bytes)
                    for c in trainer.exchange.channels
                    for a in c.arrivals
                ]
                results[case, name, way] = result, sent, came
    return results


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_relays_change_no_bit_of_a_training(workers):
    graph = random_graph(directed=True, features=12, seed=5)
    names = ("gcn", "gat") if workers == 4 else ("gcn",)
    results = run_ranks(both_ways, workers, graph, Random(seed=2).assign(graph, workers), names)
    for case, name in product(cases(workers), names):
        ways = {way: [each[case, name, way] for each in results] for way in ("once", "apart")}
        for one, other in zip(ways["once"], ways["apart"], strict=True):
            for key in ("losses", "gradients", "logits"):
                assert torch.equal(one[0][key], other[0][key]), (case, name, key)
        if case[0] != "stale" and case[2] == "float32":
            assert_same_training(
                [each[0] for each in ways["once"]], one_process(graph, replace(SHAPE, name=name), TrainSettings())
            )
        for found in ways.values():
            sent = [sum(values) for values in zip(*(channel for _, channels, _ in found for channel in channels))]
            came = [sum(values) for values in zip(*(message for _, _, messages in found for message in messages))]
            assert sent[:2] == came[1:]  # what senders count, relays included, is what receivers count
        far = {
            way: sum(p + q for rank, (_, _, came) in enumerate(ways[way]) for s, p, q in came if s // 2 != rank // 2)
            for way in ways
        }
        assert (far["once"] < far["apart"]) == (workers == 4)


def test_bytes_between_hosts_equal_the_quality_of_the_cut():
    for seed, (workers, hosts) in product(range(3), [(4, 2), (6, 3), (6, 2)]):
        graph, per_host = random_graph(directed=True, features=12, seed=seed), workers // hosts
        parts = gq.partition(graph, Random(seed=seed), hosts=hosts, per_host=per_host)
        for axes, row in (({}, lambda d: 4 * d), (FOUR_BITS, lambda d: -(-4 * d // 8) + 8)):
            threads = ThreadedWorkers(graph, parts.cut, once(hosts, **axes), SHAPE, TrainSettings())
            threads.step(0)
            channels = [channel for trainer in threads.trainers for channel in trainer.exchange.channels]
            columns = {
                way: {c.layer: c.columns for c in channels if c.direction == way} for way in ("forward", "backward")
            }
            outer = {"forward": 0, "backward": 0}
            for arrival in (arrival for channel in channels for arrival in channel.arrivals):
                is_outer = arrival.sender // per_host != arrival.receiver // per_host
                outer[arrival.direction] += is_outer * arrival.layout.num_bytes
            quality = parts.quality
            rows = quality.outer - quality.repeated_outer
            assert quality.repeated_outer and outer["forward"] == rows * sum(map(row, columns["forward"].values()))
            assert outer["backward"] == quality.outer * sum(map(row, columns["backward"].values()))


def test_traffic_of_a_launched_run_equals_its_forecast(tmp_path):
    graph = "sbm:300,3,8"
    setup = {"layers": 2, "hidden": 8, "workers": 4, "hosts": 2, "wire": "paced"}
    system = replace(vanilla(), exchange=Halo(hierarchical=True), partition=Random())
    four_bits = replace(system, **FOUR_BITS)
    probe = gq.probe(graph, system=system, launched=False, epochs=3, theorem=False, **setup)
    run = gq.launch(graph, system=four_bits, epochs=3, out=tmp_path, wait=True, **setup)
    found, sent = probe.forecast(system=four_bits).by_tier(), by_tier(run.traffic)
    assert found["bytes"].tolist() == sent["bytes"].tolist() and found["bytes"].min() > 0
    plain = gq.launch(graph, system=replace(four_bits, exchange=Halo()), epochs=3, out=tmp_path, wait=True, **setup)
    assert run.records["loss"].tolist() == plain.records["loss"].tolist()
    apart = by_tier(plain.traffic)
    assert sent["bytes"].sum() == apart["bytes"].sum() and sent["bytes"]["outer"] < apart["bytes"]["outer"]


# --- Machines, damage, refusals ---


def relays_of_machines(rank, workers, graph, owner):
    os.environ["LOCAL_WORLD_SIZE"] = "2"
    system = replace(vanilla(), exchange=Halo(hierarchical=True).on_hosts(1))
    trainer = worker_trainer(build_shard(graph, owner, rank, workers), system, SHAPE, TrainSettings())
    trainer.epoch(0)
    copies = trainer.exchange.channels[0].plan.host_copies
    trainer.close()
    return copies is not None and len(copies.passed_on)


def test_relays_use_the_machines_of_torchrun():
    graph = random_graph(seed=5)
    assert run_ranks(relays_of_machines, 4, graph, Random(seed=2).assign(graph, 4)) == [1, 1, 1, 1]


class Damaging:
    """A transport that changes a byte of messages within a host, as a relay with broken memory would."""

    def __init__(self, inner, rank):
        self.inner, self.rank, self.posted = inner, rank, 0

    def post(self, send, receive, headers=None, **options):
        transfer = self.inner.post(send, receive, headers, **options)
        if headers is not None and any(each.round for each in headers.expected.values()):
            return Changed(transfer, next(iter(receive.values())))
        return transfer


class Changed:
    def __init__(self, inner, body):
        self.inner, self.body = inner, body
        self.started, self.seconds, self.wire_s = inner.started, inner.seconds, 0.0

    def start(self):
        self.inner.start()

    def wait(self):
        self.inner.wait()
        self.body[0] ^= 1


def damaged(rank, workers, graph, owner):
    def transports(name, rank, workers):
        return Damaging(make_transport(name, rank, workers), rank)

    shard = build_shard(graph, owner, rank, workers)
    trainer = worker_trainer(shard, once(2), SHAPE, TrainSettings(), run="one", transports=transports)
    with pytest.raises(UnexpectedMessage, match="checksum"):
        trainer.epoch(0)
    return True


def test_relays_detect_a_changed_row():
    graph = random_graph(seed=5)
    assert all(run_ranks(damaged, 4, graph, Random(seed=2).assign(graph, 4)))


@pytest.mark.parametrize(("axes", "rule"), [
    ({"codec": gq.codecs.Stochastic(), "bits": gq.bits.Fixed(bits=4)}, "Stochastic with noise 'receiver'; choose"),
    ({"codec": gq.codecs.Stochastic(noise="node"), "bits": gq.bits.UniformRandom(bit_widths=(2, 4))}, "UniformRandom"),
    ({"codec": gq.codecs.Spikes(noise="node"), "bits": gq.bits.Fixed(bits=4)}, "got codec Spikes with noise 'node'"),
    ({"sampler": gq.samplers.BoundarySampling(p=0.5)}, "this sampler omits some; choose sampler AllRows"),
    ({"cache": gq.caches.Unchanged()}, "got cache Unchanged; choose cache NoCache"),
    ({"schedule": Sequential()}, "got schedule Sequential, which receives them in turn"),
])  # fmt: skip
def test_halo_refuses_parts_without_equal_messages(axes, rule):
    with pytest.raises(ValueError, match=rule):
        once(2, **axes)


def test_halo_refuses_invalid_hosts():
    with pytest.raises(ValueError, match="Halo hosts must be at least 1, got 0"):
        Halo(hierarchical=True, hosts=0)
    with pytest.raises(ValueError, match="with hierarchical=False; choose hierarchical=True"):
        Halo(hosts=2)
    graph = random_graph(seed=5)
    cut = gq.partition(graph, Random(seed=2), workers=3).cut
    with pytest.raises(ValueError, match=r"multiple of the hosts, got 3 worker\(s\) on 2 hosts"):
        ThreadedWorkers(graph, cut, once(2), SHAPE, TrainSettings())


def test_halo_has_no_relays_with_one_worker_per_host():
    graph = random_graph(seed=5)
    cut = gq.partition(graph, Random(seed=2), workers=2).cut
    threads = ThreadedWorkers(graph, cut, once(2), SHAPE, TrainSettings())
    threads.step(0)
    assert all(c.plan.host_copies is None for trainer in threads.trainers for c in trainer.exchange.channels)
