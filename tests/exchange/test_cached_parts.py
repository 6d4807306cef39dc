"""CDFGNN's Algorithm 2 to the letter: a slow version of it reproduces totals and sent rows of real workers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

import gnnqlab as gq
from gnnqlab.exchange.schedules.schedule import Overlapped, Synchronous
from gnnqlab.exchange.vertex_cut.exchange import Replicas
from gnnqlab.exchange.vertex_cut.sums import Synchronised
from gnnqlab.message import AdaptiveCache
from gnnqlab.nn import ModelSettings
from gnnqlab.systems import vanilla
from gnnqlab.systems.system import System
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from tests.exchange.random_edges import EdgesAtRandom
from tests.graphs import random_graph
from tests.ranks import run_ranks

EPOCHS, EPSILON = 6, 0.15
SHAPE = ModelSettings(layers=2, hidden=8, dropout=0.2)
CACHE = AdaptiveCache(epsilon=EPSILON, rule="fixed")
SYSTEM = replace(vanilla(), partition=EdgesAtRandom(), exchange=Replicas(), cache=CACHE)


def note(step, into):
    context = step.aggregation.context
    if context.training:
        into[context.epoch, context.layer, step.direction] = step.rows.double().numpy().copy()


def on_rank(rank, workers, graph, cut, systems):
    """Train; return ids of the rows, and per system the partial sums, the totals, and the sent rows by round."""
    shard, found = cut.shard(graph, rank), []
    post, dependent = Synchronised.post, Synchronised.dependent
    for system in systems:
        before, after = {}, {}

        def posting(step, round, before=before):
            if round == 0:
                note(step, before)
            return post(step, round)

        def done(step, round, after=after):
            dependent(step, round)
            if round == step.aggregation.last:
                note(step, after)

        Synchronised.post, Synchronised.dependent = posting, done
        try:
            trainer = worker_trainer(shard, system, SHAPE, TrainSettings(seed=3))
            losses = [float(trainer.epoch(epoch)) for epoch in range(EPOCHS)]
        finally:
            Synchronised.post, Synchronised.dependent = post, dependent
        sent = defaultdict(int)
        for channel in trainer.exchange.channels:
            sent[channel.round] += channel.rows_sent
        found.append({"before": before, "after": after, "sent": dict(sent), "losses": losses})
        trainer.close()
    return shard.row_ids.tolist(), shard.num_owned, found


def moved(now, held):
    return held is None or np.abs(now - held).max() > EPSILON * np.abs(now).max()


def algorithm_2(results, index, key):
    """Return the totals of all mirrors by epoch, and the rows that are sent to masters and to mirrors."""
    parts, total, sent, used = {}, {}, [0, 0], []
    copies = defaultdict(list)  # node -> its workers
    for rank, (ids, _, _) in enumerate(results):
        for row, node in enumerate(ids):
            copies[node].append((rank, row, row < results[rank][1]))
    for epoch in range(EPOCHS):
        active = set()
        for node, places in copies.items():
            if len(places) == 1:
                continue
            for rank, row, is_master in places:
                now = results[rank][2][index]["before"][epoch, *key][row]
                if moved(now, parts.get((rank, node))):
                    parts[rank, node] = now
                    active.add(node)
                    sent[0] += not is_master
        for node in active:
            total[node] = sum(parts[rank, node] for rank, _, _ in copies[node])
            sent[1] += len(copies[node]) - 1
        used.append(dict(total))
    return used, sent


@pytest.mark.parametrize("workers", [2, 3])
def test_totals_and_sent_rows_are_those_of_algorithm_2(workers):
    graph = random_graph(nodes=60, edges=300, features=12, seed=4)
    systems = [replace(SYSTEM, schedule=schedule) for schedule in (Synchronous(), Overlapped())]
    results = run_ranks(on_rank, workers, graph, EdgesAtRandom(seed=2).cut(graph, workers), systems)
    for index in range(len(systems)):
        keys = {key[1:] for key in results[0][2][index]["before"]}
        assert len(keys) == 4, "two layers, forward and backward"
        counted = np.zeros(2, int)
        for key in keys:
            used, sent = algorithm_2(results, index, key)
            counted += sent
            for rank, (ids, _, found) in enumerate(results):
                for epoch in range(EPOCHS):
                    rows = found[index]["after"][epoch, *key]
                    for row, node in enumerate(ids):
                        if node in used[epoch]:
                            np.testing.assert_allclose(rows[row], used[epoch][node], atol=1e-5, err_msg=f"{rank} {key}")
        measured = [sum(each[2][index]["sent"][round] for each in results) for round in (0, 1)]
        assert measured == counted.tolist()
        assert all(each[2][index]["losses"] == results[0][2][index]["losses"] for each in results)


def test_the_variant_tests_totals_themselves():
    graph = random_graph(nodes=60, edges=300, features=12, seed=4)
    systems = [SYSTEM, replace(SYSTEM, cache=replace(CACHE, totals="moved"))]
    results = run_ranks(on_rank, 3, graph, EdgesAtRandom(seed=2).cut(graph, 3), systems)
    active, variant = ([sum(each[2][index]["sent"][round] for each in results) for round in (0, 1)] for index in (0, 1))
    assert variant[1] < active[1], "a total moves less than its parts"
    _, sent = algorithm_2(results, 1, next(iter(results[0][2][1]["before"]))[1:])
    assert sent[1] != variant[1]


def test_without_a_threshold_it_is_the_exact_training():
    graph = random_graph(nodes=60, edges=300, features=12, seed=4)
    exact = replace(CACHE, epsilon=0.0)
    systems = [replace(SYSTEM, cache=exact), replace(SYSTEM, cache=gq.caches.Unchanged())]
    for workers in (1, 2, 3):
        (_, _, (cached, plain)), *_ = run_ranks(
            on_rank, workers, graph, EdgesAtRandom(seed=2).cut(graph, workers), systems
        )
        assert cached["losses"] == pytest.approx(plain["losses"], rel=1e-4)


def test_files_of_earlier_versions_keep_their_rule():
    value = replace(SYSTEM, partition=gq.partitioners.EBV()).to_json()
    assert System.from_json(value).cache.totals == "active"
    del value["cache"]["totals"]
    assert System.from_json(value).cache.totals == "moved"


def test_a_resumed_training_continues_with_the_cached_parts(tmp_path):
    settings = {"system": "cdfgnn", "workers": 3, "hidden": 8, "checkpoint_every": 3, "seed": 1}
    whole = gq.launch("digits", epochs=6, out=tmp_path / "whole", wait=True, **settings)
    half = gq.launch("digits", epochs=3, out=tmp_path / "half", wait=True, **settings)
    resumed = half.resume(epochs=6).wait()
    losses = [run.records.groupby("epoch")["loss"].first().tolist() for run in (whole, resumed)]
    assert losses[0] == losses[1]
    rows = [run.cache.groupby("epoch")["rows_sent"].sum().tolist() for run in (whole, resumed)]
    assert rows[0] == rows[1]
