"""Points that are exact from an epoch on: Vanilla if all are, the other policy if none is, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.adaptive import Training
from gnnqlab.bits import ExactAt, Fixed, Rows
from gnnqlab.bits.policy import in_force
from gnnqlab.message import Stochastic
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer
from gnnqlab.worker_context import WorkerContext
from tests.agreement import assert_same_training
from tests.cases import each
from tests.exchange.test_sampling import EPOCHS, on_rank_in_turn, train
from tests.graphs import random_graph
from tests.ranks import run_ranks

GRAPH, SHAPE, SETTINGS = random_graph(), ModelSettings(layers=2, hidden=8, dropout=0.3), TrainSettings(seed=3)
TWO = Fixed(bits=2)
LATER = 2
SEVERAL = {
    "vanilla": {},
    "two bits": {"codec": Stochastic(), "bits": TWO},
    "exact": {"codec": Stochastic(), "bits": ExactAt(inner=TWO)},
    "never": {"codec": Stochastic(), "bits": ExactAt(inner=TWO, since=EPOCHS)},
    "later": {"codec": Stochastic(), "bits": ExactAt(inner=TWO, points=("backward 1",), since=LATER)},
    "pair": {"codec": Stochastic(), "bits": (TWO, ExactAt(inner=TWO, points=("backward 1",), since=LATER))},
    "nested": {
        "codec": Stochastic(),
        "bits": ExactAt(inner=ExactAt(inner=TWO, points=("forward",)), points=("backward",)),
    },
}


@pytest.fixture(scope="module")
def found():
    """Return the results of three workers with each policy, by name and rank."""
    owner = Random(seed=1).assign(GRAPH, 3)
    ranks = run_ranks(on_rank_in_turn, 3, GRAPH, owner, SHAPE, SETTINGS, list(SEVERAL.values()))
    return {name: [rank[number] for rank in ranks] for number, name in enumerate(SEVERAL)}


def assert_alike(some, others, epochs=slice(None)):
    for one, other in zip(some, others, strict=True):
        assert torch.equal(one["losses"][epochs], other["losses"][epochs])
        assert torch.equal(one["gradients"][epochs], other["gradients"][epochs])


@each("name", ["exact", "nested"])
def test_exact_everywhere_is_vanilla_bit_for_bit(found, name):
    assert_alike(found[name], found["vanilla"])
    assert [rank["sent"] for rank in found[name]] == [rank["sent"] for rank in found["vanilla"]]


def test_exact_everywhere_is_one_process(found):
    network = build_model(SHAPE, GRAPH.num_features, GRAPH.num_classes, seed=SETTINGS.seed)
    alone = Trainer(LocalGraph(GRAPH, seed=SETTINGS.seed), label_objective(GRAPH), network, SETTINGS)
    assert_same_training(found["exact"], train(alone))


def test_exact_nowhere_yet_is_the_other_policy(found):
    assert_alike(found["never"], found["two bits"])


def test_full_precision_point_changes_gradients_only_from_its_epoch_on(found):
    assert_alike(found["later"], found["two bits"], slice(LATER))
    one, other = found["later"][0]["gradients"][LATER], found["two bits"][0]["gradients"][LATER]
    assert not torch.equal(one, other)
    assert found["later"][0]["losses"][LATER] == found["two bits"][0]["losses"][LATER], "rows forward are the same"


def test_by_direction_it_is_the_same(found):
    assert_alike(found["pair"], found["later"])


def test_bytes_are_those_of_the_formula_in_every_epoch(found):
    columns = GRAPH.num_classes  # of layer 1, which projects first
    owner = Random(seed=1).assign(GRAPH, 3)
    halo = sum(Random(seed=1).cut(GRAPH, 3).shard(GRAPH, rank).num_halo for rank in range(3))
    assert halo and owner.unique().numel() == 3
    for epoch in range(EPOCHS):
        later, coded = (sum(rank["sent"][epoch] for rank in found[name]) for name in ("later", "two bits"))
        assert later - coded == (epoch >= LATER) * halo * (4 * columns - -(-2 * columns // 8)), epoch


def rows(direction, layer):
    return Rows(layer=layer, direction=direction, sender=0, receiver=1, ids=torch.arange(5), seed=0)


@each("epoch", [0, 6, 7, 20])
def test_a_round_is_new_whenever_widths_are(epoch):
    policy = ExactAt(inner=gq.bits.Growing(bit_widths=(1, 2, 4), period=5), points=("forward 1", "backward 3"), since=7)
    places = [("forward", 0), ("forward", 1), ("forward", 3), ("backward", 1), ("backward", 3)]
    plain = (1, 2, 4)[min(epoch // 5, 2)]
    exact = 32 if epoch >= 7 else plain
    assert [policy.widths(rows(*place), epoch) for place in places] == [plain, exact, plain, plain, exact]
    rounds = [policy.version(each) for each in range(15)]
    changes = [each for each in range(1, 15) if rounds[each] != rounds[each - 1]]
    assert changes == [5, 7, 10]


def worker():
    return WorkerContext(rank=0, workers=2, seed=0, ids=torch.arange(5), importance=torch.zeros(5))


def test_a_point_that_is_none_ends_the_training_with_those_that_are():
    policy = in_force(ExactAt(inner=TWO, points=("backward 7", "forward")), worker())
    look = policy.adaptives(Training(worker=worker()))[-1]
    look.observe([])  # a single worker sends no rows, so no point is wrong
    policy = in_force(ExactAt(inner=TWO, points=("backward 7", "forward")), worker())
    look = policy.adaptives(Training(worker=worker()))[-1]
    for place in (("forward", 0), ("backward", 1), ("forward", 1)):
        policy.widths(rows(*place), 0)
    with pytest.raises(ValueError, match="got none for 'backward 7'; choose from .*: forward 0, forward 1, backward 1"):
        look.observe([])


def test_requirements_of_the_inner_policy_are_inherited():
    inside = gq.systems.adaqp().bits
    policy = ExactAt(inner=inside, points=("forward",))
    assert policy.weighs_rows and policy.of_halo_rows and policy.times_links and policy.start == inside.start
    assert policy.needs_every_row == inside.needs_every_row and policy.choices == (2, 4, 8, 32)
    with pytest.raises(ValueError, match="needs every boundary row"):
        replace(gq.systems.adaqp(), bits=policy, sampler=gq.samplers.BoundarySampling(p=0.5))


def test_predicted_bit_widths_are_full_precision_from_the_epoch_on():
    class Context:
        def __init__(self, epoch):
            self.epoch = epoch

        def widths_of(self, policy, epoch):
            return {(0, way): [torch.full((3,), policy.widths(rows(way, 0), epoch))] for way in ("forward", "backward")}

    policy = ExactAt(inner=TWO, points=("backward 0",), since=5)
    seen = {epoch: policy.predict(Context(epoch)) for epoch in (None, 4, 5)}
    widths = {epoch: [of.widths[0, way][0].tolist() for way in ("forward", "backward")] for epoch, of in seen.items()}
    assert widths == {None: [[2] * 3, [32] * 3], 4: [[2] * 3, [2] * 3], 5: [[2] * 3, [32] * 3]}
    assert seen[None].assumes == ("an epoch from 5 on, in which points are exact",) and not seen[5].assumes


@each(
    ("settings", "text"),
    [
        ({"points": ("sideways 1",)}, "a point must be 'forward' or 'backward'.*got 'sideways 1'; write"),
        ({"points": ("forward one",)}, "a point must be 'forward' or 'backward'.*got 'forward one'"),
        ({"points": ("forward ",)}, "a point must be 'forward' or 'backward'.*got 'forward '"),
        ({"points": ()}, "points must name at least one point, got none"),
        ({"since": -1}, "since must not be negative, got -1"),
        ({"inner": 2}, "inner must be one policy for bits, got 2"),
    ],
)
def test_mistakes_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        ExactAt(**settings)
