"""Stale rows, compared with a dense training with halo rows and halo gradients of the epoch before."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gnnqlab.bits.policy import Fixed
from gnnqlab.exchange import AdaptivePipeline, Pipelined
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.agreement import assert_same_training, what_came_out
from tests.cases import each
from tests.exchange.dense import Instead, StaleProduct, dense_of
from tests.graphs import random_graph
from tests.ranks import run_ranks

EPOCHS = 6
SHAPES = {
    "gcn": ModelSettings(layers=3, hidden=16, dropout=0.3),
    "graphsage": ModelSettings(name="graphsage", layers=2, hidden=16, dropout=0.3),
    "gcnii": ModelSettings(name="gcnii", layers=3, hidden=16, dropout=0.3),
}


class StaleGraph(LocalGraph):
    """A whole graph with rows of the epoch before for edges between workers (PipeGCN's formulas, dense)."""

    def __init__(self, graph, owner, *, seed, features=0.0, gradients=0.0, fresh=()):
        super().__init__(graph, seed=seed)
        self.exchange = Instead(self.exchange, self._aggregate, uses_stale_rows=True)
        self.owner, self.rows, self.gradients, self.fresh = owner, {}, {}, set(fresh)
        self.smoothing = features, gradients
        self.means = {}

    def _aggregate(self, adjacency, x, context):
        dense = dense_of(adjacency)
        across = self.owner[:, None] != self.owner[None, :]
        if not context.training:
            return dense @ x
        return StaleProduct.apply(x, dense * ~across, dense * across, self, context)

    def before(self, kind, context, now, epoch):
        """Return the rows for edges between workers, and store those of the next epoch."""
        store, smoothing = (self.rows, self.smoothing[0]) if kind == "rows" else (self.gradients, self.smoothing[1])
        seen = now if context not in store or epoch in self.fresh else store[context]
        if smoothing and seen is not now:
            mean = self.means.get((kind, context))
            seen = self.means[kind, context] = seen if mean is None else smoothing * mean + (1 - smoothing) * seen
        store[context] = now
        return seen


def train(trainer, fresh=()):
    losses, gradients = [], []
    for epoch in range(EPOCHS):
        if trainer.exchange is not None:
            trainer.exchange.schedule.is_fresh = epoch in fresh
        losses.append(trainer.gradients(epoch))
        gradients.append(trainer.parameters.gradients.clone())
        trainer.optimizer.step()
        if epoch % 2:
            trainer.evaluate(epoch)  # does not change messages under way
    return what_came_out(trainer, EPOCHS, losses, gradients)


def on_rank(rank, workers, graph, owner, shape, settings, axes, fresh):
    shard = build_shard(graph, owner, rank, workers)
    return train(worker_trainer(shard, replace(vanilla(), **axes), shape, settings), fresh)


def check(shape, schedule, *, workers=3, fresh=(), input_features="resend", **smoothing):
    graph, settings = random_graph(), TrainSettings(seed=3, input_features=input_features)
    owner = Random(seed=1).assign(graph, workers)
    results = run_ranks(on_rank, workers, graph, owner, shape, settings, {"schedule": schedule}, fresh)
    stale = StaleGraph(graph, owner, seed=3, fresh=fresh, **smoothing)
    network = build_model(shape, graph.num_features, graph.num_classes, seed=3)
    truth = train(Trainer(stale, label_objective(graph), network, settings))
    assert_same_training(results, truth)
    return truth


@each("name", SHAPES)
def test_rows_are_one_epoch_old(name):
    check(SHAPES[name], Pipelined())


def test_layer_0_may_travel_once():
    check(SHAPES["gcn"], Pipelined(), input_features="cache")


def test_smoothing():
    check(
        SHAPES["gcn"],
        Pipelined(feature_smoothing=0.9, gradient_smoothing=0.5),
        features=0.9,
        gradients=0.5,
    )


def test_fresh_epochs_between():
    truth = check(SHAPES["gcn"], AdaptivePipeline(dropped_by="receiver"), fresh=(2, 4))
    stale = check(SHAPES["gcn"], Pipelined())
    assert not torch.equal(truth["losses"], stale["losses"])  # the test distinguishes them


def test_always_fresh_is_the_law():
    graph, settings, shape = random_graph(), TrainSettings(seed=3), SHAPES["gcn"]
    owner = Random(seed=1).assign(graph, 2)
    axes = {"schedule": AdaptivePipeline()}
    results = run_ranks(on_rank, 2, graph, owner, shape, settings, axes, range(EPOCHS))
    network = build_model(shape, graph.num_features, graph.num_classes, seed=3)
    truth = train(Trainer(LocalGraph(graph, seed=3), label_objective(graph), network, settings))
    assert_same_training(results, truth)


@each("model", ["gat", "gcnii"])
def test_other_models_and_bits_train(model):
    graph = random_graph()
    shape = ModelSettings(name=model, layers=2, hidden=16, dropout=0.0)
    axes = {"schedule": Pipelined(), "codec": Stochastic(), "bits": Fixed(bits=4)}
    owner = Random(seed=1).assign(graph, 3)
    results = run_ranks(on_rank, 3, graph, owner, shape, TrainSettings(), axes, ())
    for result in results:
        assert torch.isfinite(result["losses"]).all()
        assert result["losses"][-1] < result["losses"][0]


@each(
    ("make", "text"),
    [
        (lambda: Pipelined(feature_smoothing=1.0), r"feature_smoothing must lie in \[0, 1\), got 1.0"),
        (lambda: AdaptivePipeline(bound=0), "bound must be at least 1 epoch, got 0"),
    ],
)
def test_mistakes_are_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


class Said:
    """A step that records its calls."""

    rounds, chained = 1, False

    def __init__(self, log, name):
        self._log, self._name = log, name

    def __getattr__(self, verb):
        def note(*_):
            self._log.append(f"{self._name} {verb}")
            return self  # the received rows

        return note


def test_gradients_of_rows_leave_once_those_of_weights_are_summed():
    log, pipeline = [], Pipelined().build()
    for epoch in range(2):
        for direction in ("forward", "backward"):
            pipeline.run(Said(log, direction), ExchangeKey(0, direction))
        log.append("weights")
        pipeline.release()
        if epoch == 0:
            log.clear()  # the first epoch waits for its own rows
    posts = [entry for entry in log if "post" in entry or entry == "weights"]
    assert posts == ["forward post", "weights", "backward post"]
    pipeline.release()
    assert log[-1] == "backward post" and log.count("backward post") == 1
