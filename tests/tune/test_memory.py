"""Memory by purpose, predicted by a trial in this process, equals the counts of workers in separate processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gnnqlab.bits import Fixed
from gnnqlab.compute import BFloat16Rows
from gnnqlab.message import BFloat16
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random
from gnnqlab.partition.parts import cut_graph
from gnnqlab.systems import make_system, vanilla
from gnnqlab.systems.system import System
from gnnqlab.train.config.run_config import RunConfig, TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from gnnqlab.train.records.memory_tracker import MemoryFile, read_memory
from gnnqlab.tune.memory import predict_memory
from gnnqlab.tune.timing import _digest
from tests.graphs import random_graph
from tests.ranks import run_ranks
from tests.tune.probes import written_down

RECIPES = (
    "vanilla", "fixed-bits", "random-bits", "adaqp", "sylvie", "pipegcn", "bns-gcn", "cdfgnn", "varco", "cagnet",
    "sancus", "sancus-q", "sar", "feature-parallel",
)  # fmt: skip
CASES = [("gcn", name) for name in RECIPES]
CASES += [(model, name) for model in ("gat", "graphsage") for name in ("vanilla", "fixed-bits", "sar")]
ROUNDED = {"vanilla, bfloat16": "vanilla", "adaqp, bfloat16": "adaqp", "vanilla, bfloat16 rows and messages": "vanilla"}
"""Name here -> recipe whose products are of bfloat16 rows."""
CASES += [("gcn", name) for name in ROUNDED] + [(model, "vanilla, bfloat16") for model in ("gat", "graphsage", "gcnii")]
WORKERS = 3


def recipe(name: str) -> System:
    own = make_system(ROUNDED.get(name, name))
    if name in ROUNDED:
        own = replace(own, compute=BFloat16Rows())
    if name.endswith("messages"):
        own = replace(own, codec=BFloat16(), bits=Fixed(bits=16))
    return (
        own
        if name in ("cdfgnn", "cagnet", "sancus", "sancus-q", "feature-parallel")
        else replace(own, partition=Random())
    )


def shape(model: str) -> ModelSettings:
    return ModelSettings(name=model, layers=3, hidden=16)


def counted(rank: int, workers: int, graph, cuts, folder: Path) -> None:
    for model, name in CASES:
        trainer = worker_trainer(cuts[name].shard(graph, rank), recipe(name), shape(model), TrainSettings())
        (folder / model / name).mkdir(parents=True, exist_ok=True)
        memory = MemoryFile(folder / model / name, rank, trainer, every=1)
        for epoch in range(2):
            memory.begin(epoch)
            trainer.epoch(epoch)
            trainer.evaluate(epoch)
            memory.figures()
        trainer.close()


def test_predicted_memory_matches_the_memory_that_workers_hold(tmp_path: Path):
    graph = random_graph(240, 2400)
    cuts = {name: cut_graph(graph, recipe(name).partition, WORKERS) for name in (*RECIPES, *ROUNDED)}
    run_ranks(counted, WORKERS, graph, cuts, tmp_path)
    for model, name in CASES:
        memory = read_memory(tmp_path / model / name)
        most = memory.groupby("rank")["bytes"].sum().max()
        foreseen = sum(predict_memory(graph, shape(model), recipe(name), workers=WORKERS).values())
        # workers also hold headers and earlier decisions
        assert 0.97 * most <= foreseen <= 1.01 * most, (model, name, foreseen, most)


def test_forecast_memory_equals_the_memory_of_a_trial():
    probe = written_down()
    told = probe.forecast(system="fixed-bits", bits=4)
    assert told.memory == predict_memory(
        probe.config.graph, probe.config.model, told.recipe, workers=2, settings=probe.config.train
    )
    with pytest.raises(ValueError, match="use gq.probe"):
        _ = replace(told, measure_memory=None).memory


def test_recompute_modes_reduce_predicted_memory_and_have_own_digests() -> None:
    graph, shape = random_graph(600, 900, features=32), ModelSettings(layers=3, hidden=32)
    kept = {
        keep: predict_memory(graph, shape, vanilla(), workers=1, settings=TrainSettings(recompute=keep))
        for keep in ("none", "selective", "full")
    }
    totals = [sum(found.values()) for found in kept.values()]
    assert totals == sorted(totals, reverse=True) and len(set(totals)) == 3
    runs = [RunConfig(graph="digits", train=TrainSettings(recompute=keep)) for keep in ("none", "selective")]
    assert _digest(runs[0]) != _digest(runs[1])
