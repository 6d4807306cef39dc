"""Predicted bytes are sent bytes: every system of the registry, and every model, in real training."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch

import gnnqlab as gq
from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.bits.orchestrator import Orchestrated, OrchestratedWidths
from gnnqlab.bits.policy import Fixed, UniformRandom
from gnnqlab.exchange import Replicas
from gnnqlab.graph import load
from gnnqlab.lab.figures.frames import by_tier
from gnnqlab.message.codecs.codec import Float32, Stochastic
from gnnqlab.message.codecs.rotated import Rotated
from gnnqlab.nn.models.registry import MODELS, ModelSettings
from gnnqlab.partition import Random, build_shard
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems import SYSTEMS, cagnet, feature_parallel, make_system, sancus, sancus_q
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from gnnqlab.tune.at_scale import at_scale
from gnnqlab.tune.probe import Probe
from gnnqlab.tune.trace import trace
from tests.exchange.random_edges import EdgesAtRandom
from tests.ranks import run_ranks
from tests.tune.probes import GRAPH, MODEL, SHAPE, on_parts_of, seen, sent_by_epoch, sent_bytes, written_down

EPOCHS = 3
"""So long AdaQP sends its first bit-width and SYLVIE its first base width: all bytes are known beforehand."""
MORE = {
    "bns-gcn": [{"p": 0.3}, {"p": 0.9}],
    "fixed-bits": [{"bits": 16}, {"bits": 4, "parameters": "bfloat16"}, {"bits": 32}],
    "random-bits": [{"period": 1, "bit_widths": (1, 8, 16, 32)}],
    "varco": [{"period": 1, "parameters": "bfloat16"}],
    "sylvie": [{"bit_widths": (4, 8)}, {"parameters": "float32"}],
    "adaqp": [{"parameters": "bfloat16"}, {"as_released": True}],
}
"""Settings that change the bytes, in addition to the recipes' own."""
OF_NODES = [name for name in sorted(SYSTEMS) if make_system(name).exchange.takes_cuts_of == "nodes"]
CASES = [(name, settings) for name in OF_NODES for settings in ({}, *MORE.get(name, []))]


def _cases(workers: int) -> list[tuple[str, str, dict[str, Any]]]:
    """Every case on two of the models: on others for another number of workers, so that all models are covered."""
    models = sorted(MODELS)
    return [
        (models[(number + workers + step) % len(models)], *case) for number, case in enumerate(CASES) for step in (0, 3)
    ]


def _system(name: str, settings: dict[str, Any]) -> gq.System:
    return replace(make_system(name, **settings), partition=Random())


def _train(rank: int, workers: int) -> list[list[tuple[int, ...]]]:
    """Train all cases; return the bytes of payload, parameters and bases that this worker sent, by epoch."""
    graph = load(GRAPH)
    shard = build_shard(graph, Random().assign(graph, workers), rank, workers)
    found = []
    for model, name, settings in _cases(workers):
        trainer = worker_trainer(shard, _system(name, settings), ModelSettings(name=model, **SHAPE), TrainSettings())
        sent = [(0, 0, 0)]
        for epoch in range(EPOCHS):
            trainer.epoch(epoch)
            channels = trainer.exchange.channels
            bases = sum(each.sent_bytes or 0 for each in trainer.adaptives.values())
            sent.append((
                sum(each.bytes_payload for each in channels), sum(each.bytes_params for each in channels), bases
            ))  # fmt: skip
        trainer.close()
        found.append([tuple(b - a for a, b in zip(*pair, strict=True)) for pair in itertools.pairwise(sent)])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_predicted_bytes_are_sent_bytes(workers: int) -> None:
    ranks = run_ranks(_train, workers)
    measured = [torch.tensor(case).sum(0).tolist() for case in zip(*ranks, strict=True)]
    probes = {model: replace(written_down(workers), trace=seen(workers, model)) for model in MODELS}
    for (model, name, settings), sent in zip(_cases(workers), measured, strict=True):
        system = _system(name, settings)
        probe = on_parts_of(probes[model], system)
        found = [probe.forecast(system=system, epoch=epoch) for epoch in range(EPOCHS)]
        predicted = [[each.bytes_payload, each.bytes_params, each.bytes_bases] for each in found]
        assert predicted == sent, f"{name} {settings} on {model}"
        assert all(each.bytes_sent == sum(all_kinds) for each, all_kinds in zip(found, sent, strict=True))
        assert name != "low-rank" or sent[2][2] > 0, "bases of epoch 1 are sent during epoch 2"


def _sent(workers: int, name: str, settings: dict[str, Any], bits: Any) -> int:
    """Return the bytes that one epoch sends with given bit-widths."""
    graph = load(GRAPH)
    threads = ThreadedWorkers(
        graph, Random().cut(graph, workers), _system(name, settings), MODEL, TrainSettings(), bits=bits
    )
    threads.step(0)
    return sum(sent_bytes(threads))


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("settings", [{}, {"parameters": "bfloat16"}, {"bit_widths": (2, 16, 32)}])
def test_assigned_bit_widths_send_the_predicted_bytes(workers: int, settings: dict[str, Any]) -> None:
    probe = written_down(workers)
    found = probe.forecast(system="adaqp", group_size=4, lam=0.4, **settings)
    assert len(found.rows) > 1
    assert _sent(workers, "adaqp", settings, probe.build_policy(found)) == found.bytes_sent


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("base", [1, 2, 4, 8])
def test_every_base_bit_width_sends_the_predicted_bytes(workers: int, base: int) -> None:
    probe = written_down(workers)
    found = probe.forecast(system="sylvie", base=base)
    p = torch.zeros(probe.trace.shards[0].num_global_nodes)
    for shard in probe.trace.shards:
        p[torch.cat([shard.owned, shard.halo])] = shard.importance
    policy = OrchestratedWidths(Orchestrated(), torch.arange(p.numel()), p)
    policy.base = base
    assert _sent(workers, "sylvie", {}, policy) == found.bytes_sent
    assert found.base == base and f"a base bit-width of {base}" in found.assumes and min(found.rows) == base


@pytest.mark.parametrize("workers", [2, 3])
def test_each_direction_has_its_own_codec_and_widths(workers: int) -> None:
    recipe = replace(
        _system("vanilla", {}),
        codec=(Stochastic(parameters="bfloat16"), Stochastic()),
        bits=(Orchestrated(), UniformRandom(bit_widths=(4, 16))),
    )
    probe = written_down(workers)
    found = probe.forecast(system=recipe, base=8)
    other = probe.forecast(system=replace(recipe, bits=(Fixed(bits=8), UniformRandom(bit_widths=(4, 16)))), epoch=0)
    threads = ThreadedWorkers(
        load(GRAPH), Random().cut(load(GRAPH), workers), replace(recipe, bits=other.recipe.bits), MODEL, TrainSettings()
    )
    threads.step(0)
    assert sent_bytes(threads) == (found.bytes_payload, found.bytes_params) == (other.bytes_payload, other.bytes_params)
    assert found.base == 8 and "forward: a base bit-width of 8" in found.assumes and set(found.rows) == {4, 8, 16}


@pytest.mark.parametrize("bits", [Fixed(bits=3), UniformRandom(bit_widths=(2, 3, 4), period=1)])
def test_three_bit_rows_send_the_predicted_bytes(bits: Any) -> None:
    """``ceil(3 D / 8) + 4`` bytes of a rotated row; layers of 16 and of 3 columns, the last with part of a byte."""
    recipe = replace(_system("vanilla", {}), codec=Rotated(), bits=bits)
    found = written_down().forecast(system=recipe, epoch=0)
    threads = ThreadedWorkers(load(GRAPH), Random().cut(load(GRAPH), 2), recipe, MODEL, TrainSettings())
    threads.step(0)
    assert sent_bytes(threads) == (found.bytes_payload, found.bytes_params)
    if isinstance(bits, Fixed):
        messages = written_down().trace.messages
        assert found.bytes_sent == sum(each.num_rows * (-(-3 * each.columns // 8) + 4) for each in messages)
    probe = written_down()
    asked = probe.forecast(system=replace(recipe, bits=Assigned(bit_widths=(2, 3, 4), group_size=4, lam=0.5)))
    assert 3 in asked.rows and set(asked.rows) <= {2, 3, 4}


def test_records_hold_the_same(tmp_path: Any) -> None:
    """A launched run records the predicted bytes; its records have separate columns for headers and gradients."""
    probe = gq.probe(GRAPH, layers=2, hidden=8, launched=False, epochs=3, theorem=False)
    settings: dict[str, Any] = {"bit_widths": (1, 4, 16), "period": 1, "parameters": "bfloat16"}
    run = gq.launch(GRAPH, system="random-bits", layers=2, hidden=8, epochs=3, out=tmp_path, wait=True, **settings)
    sent = run.records.groupby("epoch")[["bytes_payload", "bytes_params"]].sum()
    for epoch, row in sent.iterrows():
        found = probe.forecast(system="random-bits", epoch=int(epoch), **settings)
        assert (found.bytes_payload, found.bytes_params) == (row["bytes_payload"], row["bytes_params"])
    assert run.records["bytes_headers"].min() > 0 and run.records["bytes_gradients"].min() > 0


REPLICAS = ["vanilla", "fixed-bits", "random-bits", "varco"]


def _replicas(name: str) -> gq.System:
    more = {"random-bits": {"period": 1, "bit_widths": (1, 8, 32)}, "fixed-bits": {"bits": 4, "parameters": "bfloat16"}}
    return replace(make_system(name, **more.get(name, {})), partition=EdgesAtRandom(), exchange=Replicas())


@pytest.mark.parametrize("workers", [2, 3])
def test_predicted_bytes_are_sent_bytes_over_all_rounds(workers: int) -> None:
    """Partial sums and totals: under a vertex-cut a layer and direction has two rounds, both with bytes."""
    graph = load(GRAPH)
    cut = EdgesAtRandom().cut(graph, workers)
    for model in sorted(MODELS):
        shape = ModelSettings(name=model, **SHAPE)
        trace_of = trace(graph, shape, _replicas("vanilla"), workers=workers, epochs=3)
        config = replace(written_down(workers).config, system=_replicas("vanilla"), model=shape)
        probe = replace(written_down(workers), config=config, trace=trace_of)
        for name in REPLICAS:
            threads = ThreadedWorkers(graph, cut, _replicas(name), shape, TrainSettings())
            for epoch, sent in enumerate(sent_by_epoch(threads, 2)):
                found = probe.forecast(system=_replicas(name), epoch=epoch)
                assert found.bytes_sent == sent, (model, name, epoch)
            rounds = {channel.round for trainer in threads.trainers for channel in trainer.exchange.channels}
            assert rounds == {0, 1}


def test_every_round_takes_its_own_time() -> None:
    probe = written_down(3)
    config = replace(probe.config, system=_replicas("vanilla"))
    probe = replace(probe, config=config, trace=trace(load(GRAPH), MODEL, config.system, workers=3, epochs=3))
    found = probe.forecast(system="fixed-bits", bits=8)
    threads = ThreadedWorkers(load(GRAPH), EdgesAtRandom().cut(load(GRAPH), 3), found.recipe, MODEL, TrainSettings())
    threads.step(0)
    sent: dict[Any, Any] = {}
    for trainer in threads.trainers:
        for channel in trainer.exchange.channels:
            into = sent.setdefault(channel.place, torch.zeros(3, 3))
            for route in channel.plan.send:
                into[channel.plan.rank, route.peer] = channel.layouts["send", route.peer].num_bytes
    assert found.wire_s == pytest.approx(sum(probe.wire.exchange_s(each.double().numpy()) for each in sent.values()))
    with pytest.raises(ValueError, match="bits Assigned need halo rows"):
        probe.forecast(lam=0.5)


def test_tiers_are_those_of_the_records(tmp_path: Any) -> None:
    """Two hosts of two workers: the predicted bytes between hosts are those in the records."""
    shape: dict[str, Any] = {"layers": 2, "hidden": 8, "workers": 4, "hosts": 2, "wire": "paced"}
    probe = gq.probe(GRAPH, launched=False, epochs=3, theorem=False, **shape)
    run = gq.launch(GRAPH, system="fixed-bits", bits=4, epochs=5, out=tmp_path, wait=True, **shape)
    found, sent = probe.forecast(system="fixed-bits", bits=4).by_tier(), by_tier(run.traffic)
    assert found["bytes"].tolist() == sent["bytes"].tolist() and found["bytes"].min() > 0
    assert found["bytes"].sum() == probe.forecast(system="fixed-bits", bits=4).bytes_sent
    assert "kB between hosts" in repr(probe.forecast(system="fixed-bits", bits=4))
    alone = gq.probe(GRAPH, layers=2, hidden=8, launched=False, epochs=3, theorem=False).forecast().by_tier()
    assert alone.loc["outer"].tolist() == [0, 0] and alone.loc["inner"].min() > 0


def _fetch_twice(rank: int, workers: int) -> int:
    graph = load(GRAPH)
    shard = build_shard(graph, Random().assign(graph, workers), rank, workers)
    trainer = worker_trainer(shard, _narrow_forward(), ModelSettings(name="gat", **SHAPE), TrainSettings())
    trainer.epoch(0)
    trainer.close()
    return sum(channel.bytes_payload for channel in trainer.exchange.channels)


def _narrow_forward() -> gq.System:
    return replace(_system("sar", {}), codec=(Stochastic(), Float32()), bits=(Fixed(bits=4), Fixed(bits=32)))


def test_bytes_of_second_fetches_are_predicted() -> None:
    """Attention that takes one worker's rows at a time fetches them twice, and its gradients are sent once."""
    found = replace(written_down(3), trace=seen(3, "gat")).forecast(system=_narrow_forward())
    assert sum(run_ranks(_fetch_twice, 3)) == found.bytes_payload


BLOCKS = {
    "cagnet": cagnet(),
    "sancus, fixed": sancus(rule="fixed", every=2),
    "sancus, age": sancus(rule="age", every=3, warm_up=1),
    "sancus-q": sancus_q(rule="fixed"),
    "mixed widths": replace(cagnet(), codec=Stochastic(), bits=UniformRandom(bit_widths=(2, 8, 32))),
}


def _probe_of(base: gq.System, model: str) -> Probe:
    shape = ModelSettings(name=model, **SHAPE)
    config = replace(written_down(3).config, system=base, model=shape)
    return replace(written_down(3), config=config, trace=trace(load(GRAPH), shape, base, workers=3, epochs=3))


COLUMNS = {
    "float32": feature_parallel(),
    "4 bits": feature_parallel(bits=4),
    "rotated": replace(feature_parallel(), codec=Rotated(), bits=Fixed(bits=3)),
    "mixed widths": replace(feature_parallel(), bits=UniformRandom(bit_widths=(2, 8, 32), period=1)),
}


@pytest.mark.parametrize("model", ["gcn", "gat", "graphsage"])
def test_predicted_bytes_are_sent_bytes_of_columns(model: str) -> None:
    """Shares of two lengths have rounds of their own; attention has one more, of logits."""
    probe, graph = _probe_of(replace(feature_parallel(), codec=Float32()), model), load(GRAPH)
    for name, system in COLUMNS.items():
        shape = probe.config.model
        threads = ThreadedWorkers(graph, system.partition.cut(graph, 3), system, shape, TrainSettings())
        for epoch, sent in enumerate(sent_by_epoch(threads, 3)):
            assert probe.forecast(system=system, epoch=epoch).bytes_sent == sent > 0, (name, epoch)
    assert probe.forecast(system="fixed-bits", bits=4).bytes_sent == probe.forecast(system=COLUMNS["4 bits"]).bytes_sent
    with pytest.raises(ValueError, match="exchange Columns cannot work in this system"):
        gq.autotune(GRAPH, known=probe)
    with pytest.raises(ValueError, match="halo rows need an edge-cut, got a column partition"):
        at_scale(probe, {"columns": feature_parallel()}, workers=(4,))


@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_predicted_bytes_are_sent_bytes_of_blocks(model: str) -> None:
    """As many rounds as blocks, without those that a plan skips."""
    probe, graph = _probe_of(cagnet(), model), load(GRAPH)
    shape = probe.config.model
    for name, system in BLOCKS.items():
        threads = ThreadedWorkers(graph, system.partition.cut(graph, 3), system, shape, TrainSettings())
        for epoch, sent in enumerate(sent_by_epoch(threads, 4)):
            assert probe.forecast(system=system, epoch=epoch).bytes_sent == sent > 0, (name, epoch)
    assert "every block is sent" in repr(probe.forecast(system=sancus()))
