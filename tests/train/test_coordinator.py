"""SYLVIE's Coordinator: its decisions, which are identical on all workers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from gnnqlab.adaptive import Training, adaptives_of
from gnnqlab.bits.assigner.descent import Descent
from gnnqlab.bits.orchestrator import Orchestrated, OrchestratedWidths
from gnnqlab.exchange.schedules.pipeline import AdaptivePipeline
from gnnqlab.exchange.schedules.staleness_switch import replay
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import make_system
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.reduction import Facts, Slots
from gnnqlab.train.loop.trainer import worker_trainer
from gnnqlab.worker_context import WorkerContext
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks


class Coordinator:
    """Return SYLVIE's three adaptive components, as a trainer has them, without a training."""

    def __init__(self, *, bound=100, **settings):
        self.settings = Orchestrated(**{"momentum": 0.0, "delta": 1, **settings})
        self.widths = OrchestratedWidths(self.settings, torch.arange(2), torch.ones(2))
        self.pipeline = AdaptivePipeline(bound=bound).build()
        worker = WorkerContext(rank=0, workers=1, seed=0, ids=torch.arange(2), importance=torch.ones(2))
        training = Training(worker=worker, parts={"bits": self.widths, "schedule": self.pipeline})
        self.by_axis = adaptives_of(training)
        self.adaptives = training.adaptives
        self.decisions = []

    def after_epoch(self, epoch, loss, epoch_s):
        for adaptive in self.adaptives.values():
            adaptive.after_epoch(epoch, loss, {"epoch_s": epoch_s})
            self.decisions += [line for file, line in adaptive.entries() if file == "decisions.jsonl"]

    def steer(self, settings, version):
        for adaptive in self.by_axis["bits"]:
            adaptive.steer(settings, version=version)

    def state(self):
        return {name: adaptive.state().facts for name, adaptive in self.adaptives.items()}

    def load(self, state):
        for name, adaptive in self.adaptives.items():
            adaptive.load(state[name], {})


def feed(made, losses, epoch_s=1.0):
    bases, fresh = [], []
    for epoch, loss in enumerate(losses):
        made.after_epoch(epoch, loss, epoch_s)
        bases.append(made.widths.base)
        fresh.append(made.pipeline.is_fresh)
    return bases, fresh


def test_replay_decides_as_a_training_with_the_same_timeline():
    """Losses of a training that levels off with noise; an epoch with fresh rows takes four times as long."""
    noise = torch.rand(60, generator=torch.Generator().manual_seed(1))
    losses = [0.95**epoch + 0.1 * float(noise[epoch]) for epoch in range(60)]
    made, fresh, seconds = Coordinator(bound=4, delta=3, momentum=0.5), [], []
    for epoch, loss in enumerate(losses):
        fresh.append(epoch == 0 or made.pipeline.is_fresh)
        # Known after an epoch: the seconds of the one before, but not those of the first.
        made.after_epoch(epoch, loss, seconds[-1] if epoch > 1 else None)
        seconds.append(4.0 if fresh[-1] else 1.0)
    assert replay(losses, made.settings, bound=4, stale_s=1.0, fresh_s=4.0) == fresh
    assert replay(losses, made.settings, bound=4) != fresh, "seconds count"
    assert 0 < sum(fresh[5:]) < 55


def test_the_running_loss_and_its_rate_by_hand():
    descent = Descent(momentum=0.5, delta=2)
    assert [descent.add(loss, 2.0) for loss in (8.0, 4.0, 2.0)] == [None, None, None]
    # F = 8, 6, 4, 3; rates (8 - 6) / 2 = 1, 1, 0.5
    assert descent.add(2.0, 2.0) == (1.0, 0.5)


def test_the_running_loss_keeps_the_larger_share_of_itself():
    descent = Descent(momentum=0.75, delta=1)
    descent.add(8.0, 1.0)
    descent.add(4.0, 1.0)
    assert descent.loss == 0.75 * 8 + 0.25 * 4


def test_a_slower_descent_widens_and_a_faster_one_narrows():
    # rates: 4, 2 (slower), 1 (slower), 3 (faster)
    bases, fresh = feed(Coordinator(), [10.0, 6.0, 4.0, 3.0, 0.0])
    assert bases == [1, 1, 2, 4, 2]
    assert fresh == [False, False, True, True, False]


def test_the_printed_formula_decides_the_other_way_round():
    bases, fresh = feed(Coordinator(formula="printed"), [10.0, 6.0, 4.0, 3.0, 0.0])
    assert bases == [1, 1, 1, 1, 2]
    assert fresh == [False, False, False, False, True]
    with pytest.raises(ValueError, match="formula must be 'text' or 'printed', got 'other'"):
        Orchestrated(formula="other")


def test_time_counts():
    made = Coordinator()
    for epoch, (loss, epoch_s) in enumerate([(10.0, 1.0), (8.0, 1.0), (6.0, 2.0)]):
        made.after_epoch(epoch, loss, epoch_s)
    assert made.widths.base == 2  # the loss fell by the same amount, in twice the time


def test_staleness_is_bounded():
    # falls faster in every epoch: there is no other reason to synchronize
    losses = [-(1.1**epoch) for epoch in range(30)]
    made = Coordinator(bound=3)
    _, fresh = feed(made, losses)
    ages, age = [], 0
    for before in [True, *fresh[:-1]]:  # epoch 0 has no stale rows to use
        age = 0 if before else age + 1
        ages.append(age)
    assert max(ages) == 3 and any(fresh)
    said = [entry["why"] for entry in made.decisions if entry["what"] == "fresh rows"]
    assert "3 stale epochs in a row, 3 are allowed" in said


def test_every_decision_has_its_epoch_and_reason():
    made = Coordinator()
    feed(made, [10.0, 6.0, 4.0])
    assert made.decisions == [
        {"epoch": 3, "what": what, "why": "the loss fell by 2 a second; 1 epochs before, by 4"}
        | {"rate": 2.0, "earlier_rate": 4.0, "F": 4.0}
        for what in ("base width 2", "fresh rows")
    ]


def test_unknown_epoch_time_uses_the_last_or_next_measured_one():
    descent = Descent(momentum=0.0, delta=1)
    told = [descent.add(loss, epoch_s) for loss, epoch_s in [(8.0, None), (4.0, None), (3.0, 2.0), (1.0, None)]]
    assert told == [None, None, (4 / 2, 1 / 2), (1 / 2, 2 / 2)]


def test_decisions_are_taken_after_every_epoch_from_delta_plus_one_on():
    # Eq. 5: b_(t+1) from the rates of t and t - δ wherever t > δ, every epoch. The loss halves: each rate is smaller.
    for delta in (1, 3, 5):
        made = Coordinator(delta=delta)
        bases, fresh = feed(made, [2.0**-epoch for epoch in range(12)])
        assert bases == [1] * (delta + 1) + [2, 4, 8] + [8] * (12 - delta - 4)
        assert fresh == [False] * (delta + 1) + [True] * (12 - delta - 1)


def test_decisions_go_on_from_a_state_as_they_would_have():
    losses = [10.0, 6.0, 4.0, 3.0, 0.0, -1.0, -3.5, -4.0, -9.0, -9.5, -12.0]
    straight, first, second = Coordinator(bound=2), Coordinator(bound=2), Coordinator(bound=2)
    feed(straight, losses)
    feed(first, losses[:5])
    kept = json.loads(json.dumps(first.state()))
    second.load(kept)
    assert second.state() == kept
    for epoch, loss in enumerate(losses[5:], start=5):
        second.after_epoch(epoch, loss, 1.0)
    assert first.decisions + second.decisions == straight.decisions
    assert second.state() == straight.state()


def test_a_state_survives_steering_of_the_same_settings():
    first = Coordinator(momentum=0.5, delta=2)
    feed(first, [4.0, 2.0, 1.5])
    second = Coordinator(momentum=0.5, delta=2)
    second.load(first.state())
    second.steer(second.settings, version=1)
    assert second.state() == first.state()


def on_rank(rank, workers, graph, owner, model, gradients):
    system = make_system("sylvie", delta=1, bound=3)
    shard, settings = build_shard(graph, owner, rank, workers), TrainSettings(seed=2, gradients=gradients)
    trainer = worker_trainer(shard, system, model, settings)
    told = []
    watch = trainer.adaptives["descent"]
    judge = watch.after_epoch
    watch.after_epoch = lambda epoch, loss, shared: (told.append(shared["epoch_s"]), judge(epoch, loss, shared))
    losses, own = [], []
    for epoch in range(12):
        losses.append(trainer.epoch(epoch))
        if trainer._epoch_s is not None:
            trainer._epoch_s += 0.25 * ((epoch + rank) % workers)  # each worker in turn is the slowest
        own.append(trainer._epoch_s)
    trainer.evaluate(12)
    trainer.close()
    decisions = [entry for adaptive in trainer.adaptives.values() for entry in adaptive.entries()]
    base = trainer.adaptives["base-width"].widths.base
    known = {"losses": losses, "decisions": decisions, "base": base, "told": told}
    return known, own


@each("model", ["gcn", "gat"])
@each("gradients", ["float32", "bfloat16"])
def test_all_workers_decide_alike(model, gradients):
    graph = random_graph()
    shape = ModelSettings(name=model, layers=2, hidden=16, dropout=0.0)
    owner = Random(seed=1).assign(graph, 3)
    results = run_ranks(on_rank, 3, graph, owner, shape, gradients)
    known, seconds = [result for result, _ in results], [own for _, own in results]
    assert all(one == known[0] for one in known)  # bit for bit
    assert known[0]["losses"][-1] < known[0]["losses"][0] and known[0]["decisions"]
    # No worker has sent the first epoch's seconds yet; later ones arrive an epoch late, as float32, and the maximum
    # counts.
    longest = [max(epoch) for epoch in zip(*(own[1:-1] for own in seconds))]
    assert known[0]["told"] == [None, None, *torch.tensor(longest).tolist()]


def told_of(rank, workers, graph, owner, evaluations):
    shard, known = build_shard(graph, owner, rank, workers), []
    for evaluated in evaluations:
        trainer = worker_trainer(shard, make_system("sylvie"), ModelSettings(layers=2, hidden=8), TrainSettings())
        known.append([])
        for epoch in range(8):
            trainer.epoch(epoch)
            known[-1].append(trainer._epoch_s is not None)
            if epoch in evaluated:
                trainer.evaluate(epoch)
        trainer.close()
    return known


def test_times_of_atypical_epochs_are_not_reported():
    graph = random_graph()
    for known in run_ranks(told_of, 2, graph, Random(seed=1).assign(graph, 2), ((), (2, 6), range(8))):
        assert known[0] == [False] + [True] * 7
        assert known[1] == [False, True, True, False, True, True, True, False]  # not the epochs after an evaluation
        assert known[2] == [False, False] + [True] * 6  # every epoch follows one, so all count


def test_unknown_time_of_one_worker_makes_the_maximum_unknown():
    slots = Slots(maxima=1, workers=3)
    for seconds, longest in (([1.0, 3.0, 2.0], 3.0), ([1.0, None, 2.0], None)):
        summed = torch.zeros(slots.count)
        for rank, epoch_s in enumerate(seconds):
            one = torch.zeros_like(summed)
            slots.write(one, Facts(torch.tensor(0.5), maxima=[epoch_s]), rank)
            summed += one
        assert slots.read(summed) == (1.5, False, (), (longest,))


def test_descent_callback_exists_only_for_systems_that_use_it():
    graph = random_graph()
    shard = build_shard(graph, Random(seed=1).assign(graph, 1), 0, 1)
    for system, names in (
        (make_system("vanilla"), ["bits"]),
        (make_system("sylvie"), ["descent", "base-width", "stale-rows", "freshness"]),
        (replace(make_system("vanilla"), schedule=AdaptivePipeline()), ["bits", "stale-rows", "descent", "freshness"]),
    ):
        trainer = worker_trainer(shard, system, ModelSettings(layers=2, hidden=8), TrainSettings())
        assert list(trainer.adaptives) == names
