"""SAR: the rows of one worker at a time give the result of all at once, forward and backward, in less memory."""

from __future__ import annotations

import weakref
from dataclasses import replace

import pytest

from gnnqlab.bits.orchestrator import Orchestrated
from gnnqlab.bits.policy import Fixed
from gnnqlab.compute import BFloat16Rows
from gnnqlab.exchange import Replicas, Sequential, Synchronous
from gnnqlab.exchange.halo.attention_in_turn import PIECES
from gnnqlab.message.caches.cache import Unchanged
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.message.samplers import BoundarySampling
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import EBV, Random, build_shard
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems import adaqp, sar, vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from gnnqlab.train.records.memory_tracker import counting
from tests.cases import each
from tests.graphs import random_graph
from tests.nn.test_law import MODELS, assert_all_same, train
from tests.ranks import run_ranks

SETTINGS = TrainSettings(seed=7)
LAW = {
    "gcn": ModelSettings(name="gcn", layers=3, hidden=16, dropout=0.3, input_dropout=0.1),
    "graphsage": ModelSettings(name="graphsage", layers=3, hidden=16, dropout=0.3),
    **{name: shape for name, shape in MODELS.items() if "32" not in name},
}


def test_every_model_obeys_one_worker_at_a_time():
    # With seed 7 an element of jknet is within a rounding of the ReLU's corner: sums in another order flip it.
    graph, settings = random_graph(directed=True, isolated=4), TrainSettings(seed=8)
    owner = Random(seed=3).assign(graph, 3)
    cases = {name: (graph, owner, shape, settings) for name, shape in LAW.items()}
    assert_all_same(3, cases, schedule=Sequential(depth=1))


@each(("workers", "depth"), [(1, 1), (2, 0), (2, 1), (3, 0), (3, 2), (4, 0), (4, 1), (4, 2), (4, 5)])
def test_workers_and_depths_obey(workers, depth):
    graph, settings = random_graph(isolated=4), TrainSettings(seed=7, weight_decay=1e-3)
    owner = Random(seed=3).assign(graph, workers)
    cases = {model: (graph, owner, LAW[model], settings) for model in ("graphsage", "gat, 4 heads")}
    assert_all_same(workers, cases, schedule=Sequential(depth=depth))


QUANTIZED = {"codec": Stochastic(), "bits": Fixed(bits=4)}


def sent(rank, workers, graph, owner, shape, axes) -> dict:
    """Train; return the results and the payload bytes of each exchange key."""
    trainer = worker_trainer(build_shard(graph, owner, rank, workers), replace(vanilla(), **axes), shape, SETTINGS)
    exchange = trainer.graph.exchange
    result = train(trainer)
    return result | {"bytes": {tuple(one.place): one.bytes_payload + one.bytes_params for one in exchange.channels}}


@each("model", ["graphsage", "gat"])
@each("axes", [QUANTIZED, {"compute": BFloat16Rows()}])
def test_messages_are_those_of_all_at_once(model, axes):
    """Noise of a row is the same in a round, so quantized training is the same training; the second fetch of attention
    is identical to the first."""
    graph, shape = random_graph(isolated=4), replace(LAW[model], dropout=0.0)
    owner = Random(seed=3).assign(graph, 3)
    whole, in_turn = (
        run_ranks(sent, 3, graph, owner, shape, {**axes, "schedule": schedule})
        for schedule in (Synchronous(), Sequential(depth=1))
    )
    bound = 5e-2 if "compute" in axes else 1e-4  # a rounding of a sum changes a few codes by one step
    for one, other in zip(in_turn, whole, strict=True):
        scale = other["losses"].abs().max()
        assert (one["losses"] - other["losses"]).abs().max() <= bound * scale
        for place, count in other["bytes"].items():
            fetches = 2 if model == "gat" and place[1] == "forward" else 1
            assert one["bytes"][place] == fetches * count, place


ASSIGNED = replace(adaqp(period=2, group_size=7).bits, bit_widths=(2, 8), lam=1.0, start=2, first=0, when="blocking")
"""λ = 1 ignores seconds, so the chosen bit-widths are the same in every run: 8 bits for every row that varies."""
ADAPTIVE = {"assigned": ASSIGNED, "orchestrated": Orchestrated(delta=1, momentum=0.0)}


def adapted(rank, workers, graph, owner, shape, axes) -> dict:
    """Train some epochs; return losses, decisions, and the payload and the ranges of each exchange key."""
    trainer = worker_trainer(build_shard(graph, owner, rank, workers), replace(vanilla(), **axes), shape, SETTINGS)
    exchange, found = trainer.graph.exchange, {"losses": [], "payload": [], "decided": []}
    for epoch in range(5):
        before = {tuple(one.place): one.bytes_payload for one in exchange.channels}
        trainer._epoch_s = 1.0  # SYLVIE weighs seconds, which differ from run to run
        found["losses"].append(trainer.epoch(epoch))
        after = {tuple(one.place): one.bytes_payload for one in exchange.channels}
        found["payload"].append({place: count - before.get(place, 0) for place, count in after.items()})
        found["decided"] += [
            (name, line.get("what"), [problem["rows"] for problem in line.get("problems", ())])
            for adaptive in trainer.adaptives.values()
            for name, line in adaptive.entries()
        ]
        if epoch == 0:  # later weights differ: they were trained with codes that differ by a step
            ranges = {(*one.place, peer): seen for one in exchange.channels for peer, seen in one.spreads.items()}
            found["ranges"] = {key: seen.clone() for key, seen in ranges.items()}
    trainer.close()
    return found


@each("model", ["graphsage", "gat"])
@each("name", ADAPTIVE)
def test_widths_adapt_in_turns_as_they_do_all_at_once(name, model):
    """A bit policy uses the ranges of all peers, not of the last round alone, and decides the same."""
    graph, shape = random_graph(isolated=4), replace(LAW[model], dropout=0.0)
    owner, axes = Random(seed=3).assign(graph, 3), {"codec": Stochastic(), "bits": ADAPTIVE[name]}
    whole, in_turn = (
        run_ranks(adapted, 3, graph, owner, shape, {**axes, "schedule": schedule})
        for schedule in (Synchronous(), Sequential(depth=1))
    )
    assert whole[0]["decided"], "no decision was tested"
    for one, other in zip(in_turn, whole, strict=True):
        assert one["losses"] == pytest.approx(other["losses"], rel=1e-3)  # a code may differ by one step
        assert one["decided"] == other["decided"]
        assert any(sent != one["payload"][0] for sent in one["payload"]), "bit-widths never changed"
        for mine, theirs in zip(one["payload"], other["payload"], strict=True):
            for place, count in theirs.items():
                assert mine[place] == (2 if model == "gat" and place[1] == "forward" else 1) * count, place
        assert one["ranges"].keys() == other["ranges"].keys()
        for place, seen in other["ranges"].items():
            assert one["ranges"][place].tolist() == pytest.approx(seen.tolist(), rel=1e-3, abs=1e-6), place


def resident(rank, workers, graph, owner, shape, schedule) -> list[int]:
    """Return the largest number of halo rows that were alive at once, in a training pass and in an evaluation."""
    trainer = worker_trainer(
        build_shard(graph, owner, rank, workers), replace(vanilla(), schedule=schedule), shape, SETTINGS
    )
    boundary, alive, most = trainer.graph.exchange.boundary, weakref.WeakSet(), [0]
    make = boundary.turn_buffer

    def counted(turn, like):
        made = make(turn, like)
        alive.add(made.untyped_storage())
        most[0] = max(most[0], len(alive))
        return made

    boundary.turn_buffer = counted
    trainer.gradients(0)
    passes = [most[0]]
    most[0] = 0
    trainer.evaluate(1)
    assert not alive, "rows outlive the pass"
    trainer.close()
    return [*passes, most[0]]


@each("depth", [0, 1])
@each("model", ["graphsage", "gat"])
def test_halo_rows_of_depth_plus_one_workers_are_in_memory_at_once(model, depth):
    graph = random_graph(isolated=4)
    owner = Random(seed=3).assign(graph, 4)
    for held in run_ranks(resident, 4, graph, owner, LAW[model], Sequential(depth=depth)):
        assert held == [1 + depth, 1 + depth]


@each(("depth", "times"), [(0, 7.5), (1, 4.0)])
def test_attention_holds_rows_or_their_gradients_not_both(depth, times):
    """Gradients of a round use the memory of its rows: rows of ``1 + depth`` workers and one more piece are alive."""
    graph, shape = random_graph(nodes=160, edges=2400), ModelSettings(name="gat", layers=3, hidden=64)
    halo = {}
    for schedule in (Synchronous(), Sequential(depth=depth)):
        system = replace(vanilla(), schedule=schedule)
        cut = cut_graph(graph, Random(seed=3), 4)
        workers = ThreadedWorkers(graph, cut, system, shape, SETTINGS, as_launched=True)
        halo[type(schedule)] = max(workers.run(halo_at_peak))
    most = max(turn.num_rows for trainer in workers.trainers for turn in trainer.exchange.boundary.turns.turns)
    assert halo[Sequential] <= (1 + depth + 1 / PIECES) * (most + PIECES) * shape.hidden * 4
    assert halo[Synchronous] >= times * halo[Sequential]


def halo_at_peak(trainer) -> int:
    stack, ledger = counting(trainer)
    with stack:
        trainer.gradients(0)
    return ledger.peaks["halo"]


def test_components_incompatible_with_sequential_raise_value_error():
    with pytest.raises(ValueError, match="cache Unchanged|cache stores the rows"):
        replace(sar(), cache=Unchanged())
    with pytest.raises(ValueError, match="Sequential needs every boundary row"):
        replace(sar(), sampler=BoundarySampling(p=0.5))
    with pytest.raises(ValueError, match="cannot receive rows from one worker at a time; choose exchange Halo"):
        replace(sar(), partition=EBV(), exchange=Replicas())
    with pytest.raises(ValueError, match="depth must not be negative, got -1"):
        sar(depth=-1)
