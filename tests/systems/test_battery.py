"""Tests that every system and every part of every axis must pass: one battery over the registry.

A new recipe, or a new part, is in it without a line here. Each passes through JSON and the command line, training on
1 and 3 workers, a stop, a training resumed from a checkpoint bit for bit, a comparison, and the law if its messages
can be exact. One spawn of workers per test trains all of them.
"""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

import gnnqlab as gq
from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.exchange.schedules.pipeline import Pipelined
from gnnqlab.message.caches.cache import Unchanged
from gnnqlab.nn import ModelSettings
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.partition import Random
from gnnqlab.systems import SYSTEMS, System, make_system
from gnnqlab.systems.parts import PARTS, part_from_json, part_to_json
from gnnqlab.train.checkpoints.checkpoint import read_checkpoint
from gnnqlab.train.config.command import command_of
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.control import CHECKPOINT_NOW
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.loop.fit import fit
from gnnqlab.train.loop.trainer import worker_trainer
from tests.agreement import assert_same_training, what_came_out
from tests.cases import each
from tests.exchange.random_edges import EdgesAtRandom
from tests.graphs import random_graph
from tests.nn.test_law import one_process
from tests.ranks import run_ranks
from tests.run.folders import run_folder

ASSIGNED = {"lam": 1.0, "when": "blocking"}
"""λ = 1 ignores seconds, and the epoch in which an assignment computed in the background is ready is not known."""
SETTINGS = {"adaqp": ASSIGNED, "adaqp-q": ASSIGNED, "adaqp-r": ASSIGNED, "gradients-only": {"partition_every": 2}}
"""System -> settings under which two trainings are the same; SYLVIE first decides by seconds after these epochs."""
EPOCHS = 6
PARTINGS = ("straight", "stopped", "resumed")
STOPPED = 3
"""Epochs after which a training is stopped and resumed: rows are stale, means and caches have a past by then."""
EXACT = {
    "adaqp": {"bit_widths": (32,), **ASSIGNED},
    "adaqp-p": {},
    "adaqp-q": {"bit_widths": (32,), **ASSIGNED},
    "adaqp-r": {"bit_widths": (32,), **ASSIGNED},
    "bns-gcn": {"p": 1.0},
    "cagnet": {},
    "cdfgnn": {"bits": 32, "epsilon": 0.0, "rule": "fixed"},
    "feature-parallel": {},
    "fixed-bits": {"bits": 32},
    "low-rank": {"bits": 32},
    "random-bits": {"bit_widths": (32,)},
    "sancus": {"epsilon": 0.0},
    "sancus-q": {"bits": 32, "epsilon": 0.0},
    "sar": {},
    "vanilla": {},
    "varco": {"bit_widths": (32,)},
}
"""System -> the settings under which it obeys the law; rows that wait for their first assignment start in 32 bits."""
INEXACT = {
    "pipegcn": "uses rows of the epoch before: held against a dense reference in tests/exchange/test_staleness.py",
    "sylvie": "uses rows of the epoch before: held against a dense reference in tests/exchange/test_staleness.py",
    "gradients-only": "drops edges: compared with a dense reference in tests/exchange/test_gradients_only.py",
    "exact": "saves codes: held against one process with the same in tests/systems/test_compute_recipes.py",
    "sylvie-r": "is SYLVIE's staleness",
    "tango": "multiplies codes: held against one process with the same in tests/systems/test_compute_recipes.py",
    "tango-int4": "is TANGO with fewer bits",
}
"""System -> the reason why no setting makes it obey, and the test that covers it instead."""


def of_part(axis: str, part: object) -> System:
    """Return a system around one part: Vanilla with the other parts that this one requires."""
    company = {"codec": gq.codecs.Stochastic()} if axis == "bits" else {}
    if axis == "codec" and 32 not in part.widths:
        company = {"bits": gq.bits.Fixed(bits=max(part.widths))}
    if getattr(part, "takes_cuts_of", "nodes") == "edges":
        company = {"partition": EdgesAtRandom()}
    if axis == "partition":
        company = {"exchange": taker(type(part))()}
    return replace(gq.systems.vanilla(), **company, **{axis: part})


def taker(partitioner: type) -> type | None:
    """Return the first exchange that takes the cuts of a partitioner."""
    made = getattr(partitioner, "cuts", "nodes")
    return next((kind for kind in PARTS["exchange"].values() if getattr(kind, "takes_cuts_of", "nodes") == made), None)


@cache
def candidates() -> dict[str, System]:
    """Return every system, and a system around each part that none of them has."""
    found = {name: make_system(name, **SETTINGS.get(name, {})) for name in SYSTEMS}
    used = {(axis, type(getattr(system, axis))) for system in found.values() for axis in PARTS}
    for axis, kinds in PARTS.items():
        for name, kind in kinds.items():
            if (axis, kind) not in used and (axis != "partition" or taker(kind)):
                found[f"{axis}-{name}"] = of_part(axis, kind())
    later = {"fixed-bits": make_system("fixed-bits"), "adaqp": make_system("adaqp", **ASSIGNED)}
    found |= {f"{name}-exact-later": gq.systems.exact_at(of, "backward 1", since=3) for name, of in later.items()}
    # State that no recipe has by default.
    smoothing = {"feature_smoothing": 0.5, "gradient_smoothing": 0.5}
    return found | {
        "pipegcn-smoothed": make_system("pipegcn", **smoothing),
        "stale-samples": replace(make_system("bns-gcn", p=0.5), schedule=Pipelined()),
        # A basis from the second epoch on, whatever it loses: trainings are too short for the default.
        "bases": replace(
            gq.systems.vanilla(),
            codec=gq.codecs.LowRank(first=0, refresh_every=1, least_gain=0.0),
            bits=gq.bits.Fixed(bits=1),
        ),
        "stale-bases": replace(
            gq.systems.pipegcn(),
            codec=gq.codecs.LowRank(first=0, refresh_every=2, least_gain=0.0),
            bits=gq.bits.Fixed(bits=2),
        ),
        "skipped-rows": replace(make_system("fixed-bits", bits=8), cache=Unchanged(tolerance=0.1)),
    }


def test_every_system_and_every_part_survives_json():
    for axis, kinds in PARTS.items():
        for name, kind in kinds.items():
            assert part_from_json(axis, json.loads(json.dumps(part_to_json(axis, kind())))) == kind(), (axis, name)
    for name, system in candidates().items():
        assert System.from_json(json.loads(json.dumps(system.to_json()))) == system, name
    assert all(make_system(name).name == name for name in SYSTEMS)


def test_every_system_is_made_from_the_command_line(monkeypatch):
    from gnnqlab import cli
    from gnnqlab.cli.train import Train

    made = []
    monkeypatch.setattr("gnnqlab.launch.local.launch", lambda config, root, prepare: made.append(config))
    monkeypatch.setattr(Train, "_finish", lambda self, run: {})
    for name in SYSTEMS:
        taken = getattr(make_system(name).exchange, "takes_cuts_of", "nodes")
        for partition in (part for part, kind in PARTS["partition"].items() if getattr(kind, "cuts", "nodes") == taken):
            cli.main(["train", "--graph", "digits", "--system", name, "--partition", partition, "--workers", "3"])
            plain = gq.configure("digits", system=name, workers=3)
            kind = PARTS["partition"][partition]
            assert made[-1] == replace(plain, system=replace(plain.system, partition=kind())), (name, partition)
            again = command_of(made[-1])
            cli.main(shlex.split(again)[1:])
            assert made[-1] == made[-2], again
    # A vertex-cut and an exchange that takes it are a system only together.
    cli.main(["train", "--graph", "digits", "--partition", "ebv", "--replace", "exchange=replicas"])
    assert made[-1].system == replace(
        make_system("vanilla"), partition=gq.partitioners.EBV(), exchange=gq.exchanges.Replicas()
    )
    cli.main(shlex.split(command_of(made[-1]))[1:])
    assert made[-1] == made[-2]


@each("axis", sorted(PARTS))
@each("junk", ["junk", 42, None, object(), gq.System])
def test_value_that_is_no_part_of_the_axis_raises_value_error(axis, junk):
    with pytest.raises(ValueError, match=f"{axis} must be a part of that axis.*got .*choose"):
        replace(gq.systems.vanilla(), **{axis: junk})


IMPOSSIBLE = [
    ({"bits": gq.bits.Fixed(bits=2)}, r"Float32 writes \[32\], got \[2\]; choose codec Stochastic\(\) or other bits"),
    (
        {"bits": Assigned(), "codec": gq.codecs.Stochastic(), "sampler": gq.samplers.BoundarySampling(p=0.5)},
        r"Assigned needs every boundary row.*got sampler BoundarySampling with p 0.5; choose sampler All",
    ),
    ({"cache": Unchanged(), "schedule": Pipelined()}, r"cache Unchanged cannot work .*choose schedule Synchronous\(\)"),
    (
        {"cache": Unchanged(), "sampler": gq.samplers.BoundarySampling(p=0.5)},
        r"cache Unchanged cannot work .*choose sampler All",
    ),
    (
        {"schedule": Pipelined(feature_smoothing=0.5), "sampler": gq.samplers.BoundarySampling(p=0.5)},
        r"Pipelined needs every boundary row.*p 0.5; choose sampler AllRows\(\)",
    ),
]


@each(("axes", "text"), IMPOSSIBLE)
def test_error_for_incompatible_parts_has_rule_value_and_alternative(axes, text):
    with pytest.raises(ValueError, match=text):
        replace(gq.systems.vanilla(), **axes)


def configured(name: str, workers: int, graph: str, *, epochs: int = EPOCHS):
    """Return the run of one candidate; METIS is tested as a part, the other cuts are random."""
    system = candidates()[name]
    # Coverage weights belong to the cut of gradients-only, too.
    if name not in ("vanilla", "gradients-only") and system.partition.cuts == "nodes":
        system = replace(system, partition=gq.partitioners.Random(seed=1))
    settings = {"layers": 3, "hidden": 16, "dropout": 0.3, "evaluate_every": 2, "seed": 5, "timeline_every": 0}
    return gq.configure(graph, system=system, workers=workers, epochs=epochs, **settings)


def train_all(rank: int, workers: int, graph: str, root: str) -> None:
    """Train every candidate without a stop, with an early stop, and resumed from that stop."""
    for name in candidates():
        straight, stopped, resumed = (Path(root, f"{name}-{what}") for what in PARTINGS)
        fit_one(rank, workers, configured(name, workers, graph), straight)
        fit_one(rank, workers, configured(name, workers, graph, epochs=STOPPED), stopped)
        if rank == 0:
            shutil.copytree(stopped / "checkpoints", resumed / "checkpoints")
        fit_one(rank, workers, configured(name, workers, graph), resumed)


def fit_one(rank: int, workers: int, config, folder: Path) -> None:
    """Do the work of a launched worker, with checkpoints requested at the first and the last epoch."""
    torch.distributed.barrier()
    config = replace(config, train=replace(config.train, checkpoint_every=EPOCHS))
    fit(config, folder, rank, workers, Heartbeat(folder / "heartbeat" / f"rank{rank}", rank))
    torch.distributed.barrier()


def prepared(root: Path, graph: str, workers: int) -> None:
    for name in candidates():
        for what in PARTINGS:
            config = configured(name, workers, graph, epochs=STOPPED if what == "stopped" else EPOCHS)
            run = run_folder(root, f"{name}-{what}", config, epoch=EPOCHS - 1)
            if what == "stopped":
                (run.folder / CHECKPOINT_NOW).touch()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_every_system_trains_stops_resumes_and_is_compared(workers, tmp_path):
    graph = gq.configure(random_graph(seed=2)).graph
    prepared(tmp_path, graph, workers)
    run_ranks(train_all, workers, graph, str(tmp_path))
    for name in candidates():
        straight, stopped, resumed = (gq.Run(tmp_path / f"{name}-{what}") for what in PARTINGS)
        losses = straight.records.pivot(index="epoch", columns="rank", values="loss")
        assert losses.shape == (EPOCHS, workers) and losses.eq(losses[0], axis=0).all().all(), name
        assert losses[0].iloc[-1] < losses[0].iloc[0], f"the loss of {name} does not fall: {losses[0].tolist()}"
        assert (straight.records["bytes_payload"].sum() > 0) == (workers > 1 and candidates()[name].sampler.p > 0), name
        assert not (stopped.folder / CHECKPOINT_NOW).exists() and len(stopped.records) == STOPPED * workers, name
        assert_same_end(name, straight, resumed)
    compared = gq.compare([gq.Run(tmp_path / f"{name}-straight") for name in candidates()])
    assert len(compared.to_frame()) == len(candidates())


def assert_same_end(name: str, straight: gq.Run, resumed: gq.Run) -> None:
    """Assert that a training resumed from a checkpoint ends bit for bit as one without a stop.

    Links are timed again, so the cost model of assigned bit-widths differs.
    """
    later = straight.records[straight.records["epoch"] >= STOPPED].reset_index(drop=True)
    assert later[["epoch", "rank"]].equals(resumed.records[["epoch", "rank"]]), name
    columns = ["loss", "bytes_payload", "bytes_params"]
    assert later[columns].equals(resumed.records[columns]), name
    folders = (run.folder / "checkpoints" / f"epoch-{EPOCHS:06d}.safetensors" for run in (straight, resumed))
    one, other = (read_checkpoint(path).tensors for path in folders)
    assert one.keys() == other.keys(), name
    differ = [key for key in one if "cost/" not in key and not torch.equal(one[key], other[key])]
    assert not differ, f"{name} has another state after its resumption: {differ}"


LAW = TrainSettings(seed=5, weight_decay=1e-3)


def law_shapes() -> dict[str, ModelSettings]:
    return {model: ModelSettings(name=model, layers=3, hidden=16, dropout=0.3, input_dropout=0.1) for model in MODELS}


def models_of(name: str) -> list[str]:
    """Return three of the models for each system, so that each model is in many; all for the one without services."""
    models = sorted(MODELS)
    start = sorted(exact_systems()).index(name)
    return models if name == "vanilla" else [models[(start + step) % len(models)] for step in (0, 2, 4)]


@cache
def exact_systems() -> dict[str, System]:
    """Return systems with exact messages, and a system around each part that leaves them exact."""
    found = {name: make_system(name, **settings) for name, settings in EXACT.items()}
    for name in ("adaqp", "adaqp-q", "adaqp-r"):
        found[name] = replace(found[name], bits=replace(found[name].bits, start=32))
    return found | {name: system for name, system in candidates().items() if name not in SYSTEMS and is_exact(system)}


def is_exact(system: System) -> bool:
    """Return True if a system around one part of its default settings sends float32 rows of this epoch."""
    part = system.to_json()
    fresh = part["schedule"]["name"] in ("synchronous", "overlapped") and part["cache"]["name"] != "adaptive"
    return fresh and set(system.bits.choices) == {32} and part["compute"]["name"] == "float32"


def obey_all(rank: int, workers: int, graph) -> dict[str, dict]:
    found = {}
    for name, system in exact_systems().items():
        of_nodes = system.partition.cuts == "nodes"
        shard = (Random(seed=1) if of_nodes else system.partition).cut(graph, workers).shard(graph, rank)
        for model in models_of(name):
            trainer = worker_trainer(shard, system, law_shapes()[model], LAW)
            losses, gradients = [], []
            for epoch in range(3):
                losses.append(trainer.gradients(epoch))
                gradients.append(trainer.parameters.gradients.clone())
                trainer.optimizer.step()
            trainer.evaluate(3)
            found[f"{name}/{model}"] = what_came_out(trainer, 3, losses, gradients)
    return found


@pytest.mark.slow
def test_the_law_holds_for_all_systems_and_models():
    assert set(EXACT) | set(INEXACT) == set(SYSTEMS), "a system obeys the law under some settings, or has a reason"
    graph = random_graph(directed=True, isolated=4, seed=3)
    results = run_ranks(obey_all, 3, graph)
    for model, shape in law_shapes().items():
        truth = one_process(graph, shape, LAW)
        for name in (name for name in exact_systems() if model in models_of(name)):
            try:
                assert_same_training([result[f"{name}/{model}"] for result in results], truth)
            except AssertionError as error:
                error.add_note(f"the case: {name}, {model}")
                raise
