"""The loop on several workers compared with DGL's: DGL's steps, the table's arithmetic, and one real measurement."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks.registry import measure
from benchmarks.studies import parallel_batches as bench
from benchmarks.studies import parallel_batches_run
from benchmarks.studies.parallel_batches_run import Found, read_found, write_plan
from gnnqlab.nn import LocalGraph, ModelSettings
from gnnqlab.train.batches import MiniBatchSettings
from gnnqlab.train.config.configure import configure
from gnnqlab.train.config.run_config import TrainSettings
from tests.graphs import random_graph
from tests.ranks import run_ranks

ALL = MiniBatchSettings(fanouts=(1000, 1000), batch_size=8)


def dgl_weights(rank, workers, graph):
    """Train with DGL's loop, with every neighbour and no dropout: only the order is random."""
    from benchmarks.kernels.dgl_batches import DglLoop
    from gnnqlab.message.channels.remote_rows import RemoteRows
    from gnnqlab.message.codecs.codec import Float32
    from gnnqlab.message.transport.transport import make_transport
    from gnnqlab.partition import Random
    from gnnqlab.train.mini_batch import own_rows

    owner, place = Random(seed=3).assign(graph, workers), {"rank": rank, "workers": workers}
    transport = make_transport("direct", rank, workers)
    features = RemoteRows(own_rows(graph, owner, rank), owner, codec=Float32(), bits=32, transport=transport, **place)
    model = ModelSettings(name="graphsage", layers=2, hidden=8, dropout=0.0)
    loop = DglLoop(graph, features, model, TrainSettings(seed=1), ALL, **place)
    losses = [loop.epoch(epoch) for epoch in range(2)]
    return losses, torch.cat([each.detach().flatten() for each in loop.model.parameters()]), loop.gradient_bytes


def both(rank, workers, graph, folder):
    """Train with DGL's loop, and run a plan as launched workers do."""
    from benchmarks.studies.parallel_batches_run import fit_in_turn
    from gnnqlab.train.heartbeat import Heartbeat

    weights = dgl_weights(rank, workers, graph)
    config = configure(
        graph, model="graphsage", layers=2, hidden=16, dropout=0.0, workers=workers, epochs=3, verify_messages="off"
    )
    fit_in_turn(config, folder, rank, workers, Heartbeat(None))
    return weights


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    pytest.importorskip("dgl")
    folder, graph = tmp_path_factory.mktemp("run"), random_graph(nodes=72)  # three batches of eight training nodes
    small = {name: replace(ALL, fanouts=(4, 4), **bench.CONTESTANTS[name]) for name in (*bench.TIMED, *bench.SCORED)}
    write_plan(folder, small, [bench.DGL], seeds=[0, 1], evaluate_every=2)
    return graph, run_ranks(both, 2, graph, folder), read_found(folder, "loopback")


def test_dgl_on_two_workers_takes_the_steps_of_one(together):
    graph, (first, second), _ = together
    alone = dgl_weights(0, 1, graph)
    torch.testing.assert_close(first[1], alone[1], rtol=0, atol=1e-5)
    assert torch.equal(first[1], second[1])
    assert [sum(parts) for parts in zip(first[0], second[0], strict=True)] == pytest.approx(alone[0], abs=1e-5)
    assert alone[0][1] < alone[0][0] and alone[2] == 4 * len(alone[1])


def test_every_contestant_of_a_plan_is_trained_with_every_seed(together):
    _, _, several = together
    names = {*bench.TIMED, *bench.SCORED}
    assert sorted((each.name, each.seed) for each in several) == sorted(
        (name, seed) for name in names for seed in (0, 1)
    )
    assert all(len(each.epochs_s) == 3 and min(each.epochs_s) > 0 and 0 <= each.score <= 1 for each in several)
    sent = {each.name: each.sent_bytes for each in several if each.seed == 0}
    assert sent["float32"] == sent["float32, nothing ahead"] and sent["int8"] == sent["int8, nothing ahead"]
    assert sent["int8"] < sent["int8 features alone"] < sent["float32"]


def found(name: str, epoch_s: float, sent_bytes: float = 0.0, score: float | None = None, seed: int = 0) -> Found:
    return Found(name=name, seed=seed, epochs_s=(99.0, epoch_s, epoch_s), sent_bytes=sent_bytes, score=score)


def test_epoch_time_is_relative_to_dgl_float32_and_no_prefetching():
    seconds = {bench.DGL: 6.0, "float32": 3.0, "float32, nothing ahead": 4.0, "int8": 2.0, "int8, nothing ahead": 3.0}
    rows = bench.speed_rows("made up", [found(name, value) for name, value in seconds.items() if "int8" not in name])
    assert [(row["figure"], row["rival"], row["ratio"]) for row in rows] == [
        ("float32: epoch, median", bench.DGL, 2.0),
        ("float32: epoch, median", "float32, nothing ahead", pytest.approx(4 / 3)),
        ("float32, nothing ahead: epoch, median", bench.DGL, 1.5),
    ]
    every = bench.speed_rows("made up", [found(name, value, 8.0 - value) for name, value in seconds.items()])
    (fewer,) = [row for row in every if row["figure"] == "int8: bytes an epoch"]
    assert (fewer["value"], fewer["rival_value"], fewer["ratio"]) == (6.0, 5.0, pytest.approx(5 / 6))
    assert len(every) == 8


def test_scores_are_compared_by_seed():
    scores = {"float32": [0.80, 0.90, 0.85], "int8": [0.82, 0.92, 0.87]}
    several = [found(name, 1.0, score=s, seed=n) for name, of in scores.items() for n, s in reversed([*enumerate(of)])]
    (row,) = bench.score_rows("made up", several)
    assert row["points"] == pytest.approx(2.0) and row["half_interval"] == pytest.approx(0.0, abs=1e-9)
    assert row["value"] == pytest.approx(87) and row["rival_value"] == pytest.approx(85) and row["goal"] is None


def test_contestants_are_measured(monkeypatch, capsys):
    asked = []

    def run(config, contestants, dgl, *, seeds, evaluate_every=0):
        where = "loopback" if config.launch.link is None else f"{config.launch.link}, {config.launch.hosts} hosts"
        asked.append((config.workers, where, len(contestants), len(seeds), evaluate_every))
        several = [(name, seed) for name in contestants for seed in seeds]
        return [replace(found(name, 1.0, 4.0, 0.5, seed), link=where) for name, seed in several]

    monkeypatch.setattr(parallel_batches_run, "run_in_turn", run)
    monkeypatch.setattr(bench, "TIMED", ("float32", "int8"))
    monkeypatch.setattr(bench, "ALONE", ("float32",))
    options = {"graph": "sbm:300,3,6", "models": ("graphsage",), "workers": (1, 4), "link": "500mbit", "seeds": 2}
    rows = measure("minibatch", repeats=1, **options)["rows"]
    assert asked == [
        (1, "loopback", 1, 1, 0), (4, "loopback", 2, 1, 0), (4, "500mbit, 4 hosts", 2, 1, 0), (2, "loopback", 3, 2, 5),
    ]  # fmt: skip
    assert [sum(words in row["case"] for row in rows) for words in ("4 worker(s)", "500mbit", "2 seed(s)")] == [4, 2, 2]
    assert all(row["ratio"] == 1.0 for row in rows)
    assert "graphsage, 2 worker(s), loopback, seed 1: int8 1.000 s per epoch, 50.00 %" in capsys.readouterr().err


@pytest.mark.slow
def test_launched_workers_have_their_link():
    model = {"model": "gcn", "layers": 2, "hidden": 8, "verify_messages": "off"}
    config = configure("sbm:200,3,6", **model, workers=2, epochs=2, hosts=2, link="5mbit", wire="paced")
    names = ("float32", "int8")
    small = {name: replace(ALL, batch_size=60, **bench.CONTESTANTS[name]) for name in names}
    several = parallel_batches_run.run_in_turn(config, small, seeds=[3])
    assert [(one.name, one.seed, one.score, len(one.epochs_s)) for one in several] == [
        ("float32", 3, None, 2), ("int8", 3, None, 2),
    ]  # fmt: skip
    for one in several:
        # A worker sends half of the bytes; a quarter is subtracted for gradients, which exceed the pace if they are
        # few.
        assert one.link == "5mbit paced, 2 hosts" and one.epoch_s > 0.75 * one.sent_bytes / 2 / (5e6 / 8)


def test_a_network_is_evaluated_over_the_whole_graph():
    from gnnqlab.train.mini_batch import MiniBatchTrainer

    graph = random_graph(nodes=72)
    model = ModelSettings(name="graphsage", layers=2, hidden=8, dropout=0.5)
    trainer = MiniBatchTrainer(graph, graph.features, torch.zeros(72).long(), model, TrainSettings(seed=1), ALL)
    whole = LocalGraph(graph)
    exact = trainer.model(whole.open_pass(0, training=False), whole.features)
    assert torch.equal(trainer.logits(whole), exact) and not trainer.logits(whole).requires_grad
    trainer.close()
