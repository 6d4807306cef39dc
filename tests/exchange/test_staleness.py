"""Staleness of rows is exactly one epoch: rows that stop changing become exact epoch by epoch (PipeGCN)."""

from __future__ import annotations

import struct
from dataclasses import replace

import torch
from torch.nn import functional

from gnnqlab.exchange import AdaptivePipeline, Pipelined
from gnnqlab.graph import Graph
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.agreement import TOLERANCE, assert_same_training, what_came_out
from tests.cases import each
from tests.exchange.dense import Instead, dense_of
from tests.graphs import random_graph
from tests.ranks import run_ranks

EPOCHS = 6
CHANGE = 2
"""Epoch before which weights (and features) change once; they are constant afterwards."""


def train(trainer, fresh=()):
    losses, gradients = [], []
    for epoch in range(EPOCHS):
        if fresh:
            trainer.exchange.schedule.is_fresh = epoch in fresh
        losses.append(trainer.gradients(epoch))
        gradients.append(trainer.parameters.gradients.clone())
        trainer.optimizer.step()
    return what_came_out(trainer, EPOCHS, losses, gradients)


def on_rank(rank, workers, graph, owner, shape, schedule):
    shard = build_shard(graph, owner, rank, workers)
    return train(worker_trainer(shard, replace(vanilla(), schedule=schedule), shape, TrainSettings(seed=3)))


# --- Frozen weights: the epoch in which each value is exact again ---


DEPTHS = (2, 3, 4)
WRONG = 1e-3
"""Smallest error that is caused by a stale row: a hundred times the effect of another order of sums."""


def fill(model, seed):
    """Set parameters small enough that the softmax has a gradient."""
    with torch.no_grad():
        for index, values in enumerate(model.parameters()):
            draw = torch.Generator().manual_seed(100 * seed + index)
            values.copy_(0.5 * torch.randn(values.shape, generator=draw))


def frozen(trainer, features, epochs):
    """Return logits and gradients of epochs with frozen weights, which change, like features, before ``CHANGE``."""
    logits, gradients = [], []
    trainer.model.register_forward_hook(lambda model, arguments, result: logits.append(result.detach().clone()))
    fill(trainer.model, 0)
    for epoch in epochs:
        if epoch == CHANGE:
            fill(trainer.model, 1)
            trainer.graph.features.copy_(features[trainer.graph.ids])
        trainer.gradients(epoch)
        gradients.append([values.grad.clone() for values in trainer.model.parameters()])
    trainer.close()
    return logits, gradients


def frozen_on_rank(rank, workers, graph, owner, shapes, settings, features):
    found = []
    for shape in shapes:
        shard = build_shard(graph, owner, rank, workers)  # a new shard, with unchanged features
        trainer = worker_trainer(shard, replace(vanilla(), schedule=Pipelined()), shape, settings)
        found.append(frozen(trainer, features, range(CHANGE + 2 * shape.layers + 2)))
    return found, shard.owned


def off(found, truth):
    return float((found - truth).abs().max() / truth.abs().max())


def errors(results, index, graph, shape, settings, features):
    """Return the error of logits, and the largest of a parameter's gradient, in each epoch, relative to its size."""
    network = build_model(shape, graph.num_features, graph.num_classes, seed=settings.seed)
    whole = Trainer(LocalGraph(graph, seed=settings.seed), label_objective(graph), network, settings)
    logits, gradients = frozen(whole, features, [0, CHANGE])
    of_logits, of_gradients = [], []
    for epoch in range(len(results[0][0][index][0])):
        found = torch.empty_like(logits[-1])
        for those, ids in results:
            found[ids] = those[index][0][epoch]
        of_logits.append(off(found, logits[-1]))
        pairs = [zip(those[index][1][epoch], gradients[-1], strict=True) for those, _ in results]
        of_gradients.append(max(off(one, truth) for each in pairs for one, truth in each))
    return of_logits, of_gradients


@each("case", ["weights", "weights, layer 0 once", "weights and features", "projected first"])
def test_constant_rows_become_exact_after_one_epoch_per_exchange(case):
    """Each exchange whose rows changed adds one epoch: first the forward ones, one after another, then backward.

    Of L layers that aggregate first, raw features are the rows of layer 0; the same in all epochs, they are exact,
    cached (``input_features="cache"``) or not, so logits are from e + L - 1 on. Backward, L - 1 more exchanges follow:
    weight gradients are exact from e + 2L - 2 on. If features change too, layer 0 is one more: e + L and e + 2L - 1.
    A layer 0 that projects first sends ``X W``, which changes with W, and back comes its gradient: e + L, e + 2L.
    """
    # Equal widths aggregate first.
    graph = random_graph(60, 100, features=20 if case == "projected first" else 8, classes=8)
    shapes = [ModelSettings(layers=layers, hidden=8, dropout=0.0, norm="none") for layers in DEPTHS]
    settings = TrainSettings(seed=3, input_features="cache" if "once" in case else "resend")
    features = graph.features.clone()
    if case == "weights and features":
        features = torch.randn(features.shape, generator=torch.Generator().manual_seed(5))
    owner = Random(seed=1).assign(graph, 3)
    results = run_ranks(frozen_on_rank, 3, graph, owner, shapes, settings, features)
    for index, layers in enumerate(DEPTHS):
        forward = layers if case in ("weights and features", "projected first") else layers - 1
        backward = layers if case == "projected first" else layers - 1
        single = replace(graph, features=graph.features.clone())
        found = errors(results, index, single, shapes[index], settings, features)
        for one, delay in zip(found, (forward, forward + backward), strict=True):
            assert all(each > WRONG for each in one[: CHANGE + delay]), (layers, delay, one)
            assert all(each <= TOLERANCE for each in one[CHANGE + delay :]), (layers, delay, one)


# --- The epoch in the headers ---


def ages_on_rank(rank, workers, graph, owner, shape, schedule, fresh):
    """Return ``(direction, layer, epoch, epochs in the headers of the used rows)`` of all exchanges of a training."""
    shard = build_shard(graph, owner, rank, workers)
    settings = TrainSettings(seed=3, verify_messages="on")
    trainer = worker_trainer(shard, replace(vanilla(), schedule=schedule), shape, settings)
    runner, found = trainer.exchange.schedule, []
    run = runner.run

    def watched(step, place):
        wait = step.wait

        def waited(round, came):
            wait(round, came)
            came_as = [struct.unpack_from("<4sHHQq", each.numpy())[4] for each in came.headers.receive.values()]
            found.append((place.direction, place.layer, step.layer.context.epoch, set(came_as)))

        step.wait = waited
        run(step, place)

    runner.run = watched
    train(trainer, fresh)
    return found


@each("name", ["gcn", "gat"])
@each(("schedule", "fresh"), [(Pipelined(), ()), (AdaptivePipeline(), (3,))])
def test_used_rows_were_sent_exactly_one_epoch_before(name, schedule, fresh):
    graph = random_graph(features=20)  # all layers project first, so that all send gradients back
    shape = ModelSettings(name=name, layers=2, hidden=8, dropout=0.0)
    for found in run_ranks(ages_on_rank, 3, graph, Random(seed=1).assign(graph, 3), shape, schedule, fresh):
        places = {(direction, layer) for direction, layer, _, _ in found}
        assert places == {("forward", 0), ("forward", 1), ("backward", 0), ("backward", 1)}
        assert len(found) == len(places) * EPOCHS
        for _, _, epoch, sent in found:
            assert sent == {epoch if epoch == 0 or epoch in fresh else epoch - 1}


# --- Cases without visible staleness ---


def test_without_remote_edges_it_is_vanilla():
    halves = [random_graph(30, 100, seed=seed, isolated=0) for seed in (1, 2)]
    edges = [torch.stack([graph.indices.long(), rows_of(graph)]) + 30 * k for k, graph in enumerate(halves)]
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    graph = Graph.from_edges(
        *torch.cat(edges, 1),
        num_nodes=60,
        features=torch.cat([half.features for half in halves]),
        labels=torch.cat([half.labels for half in halves]),
        train_idx=order[:30],
        val_idx=order[30:45],
        test_idx=order[45:],
        num_classes=4,
    )
    owner = torch.arange(60) // 30
    for dropout in (0.0, 0.3):
        shape = ModelSettings(layers=3, hidden=16, dropout=dropout)
        stale = run_ranks(on_rank, 2, graph, owner, shape, Pipelined())
        fresh = run_ranks(on_rank, 2, graph, owner, shape, vanilla().schedule)
        for one, other in zip(stale, fresh, strict=True):
            for name in one:  # stored rows are dropped by the worker that sums them, before projection
                bound = TOLERANCE * other[name].abs().max() if dropout else 0.0
                assert (one[name] - other[name]).abs().max() <= bound


def rows_of(graph):
    return torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)


def test_smoothing_coefficient_zero_equals_no_smoothing():
    """γ = 0 omits the means; a γ that float32 cannot distinguish from 0 computes them with the same result."""
    graph = random_graph()
    owner, shape = Random(seed=1).assign(graph, 3), ModelSettings(layers=3, hidden=16, dropout=0.3)
    plain = run_ranks(on_rank, 3, graph, owner, shape, Pipelined())
    none = Pipelined(feature_smoothing=0.0, gradient_smoothing=0.0)
    for one, other in zip(plain, run_ranks(on_rank, 3, graph, owner, shape, none), strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
    whole = {**plain[0], "ids": torch.arange(graph.num_nodes), "logits": torch.empty(graph.num_nodes, 4)}
    for one in plain:
        whole["logits"][one["ids"]] = one["logits"]
    tiny = Pipelined(feature_smoothing=1e-30, gradient_smoothing=1e-30)
    # Gradients of several peers are summed separately before they are added: another order, so not bit for bit.
    assert_same_training(run_ranks(on_rank, 3, graph, owner, shape, tiny), whole)


# --- Attention over stale rows ---


class StaleAttention(LocalGraph):
    """A whole dense graph whose nodes attend to rows of the epoch before along edges between workers."""

    def __init__(self, graph, owner, *, seed):
        super().__init__(graph, seed=seed)
        self.exchange = Instead(self.exchange, self.exchange.aggregate, self._attend)
        self.across = owner[:, None] != owner[None, :]
        self.rows, self.gradients = {}, {}

    def _attend(self, adjacency, z, a_source, a_target, *, slope, context):
        edge, far = dense_of(adjacency) > 0, z
        if context.training:
            now = z.detach().clone()
            far, self.rows[context.layer] = self.rows.get(context.layer, now), now
            far = _Far.apply(z, far.clone(), self, context.layer)
        source, far_source = (z * a_source).sum(-1), (far * a_source).sum(-1)
        across = self.across[:, :, None]
        logits = (z * a_target).sum(-1)[:, None] + torch.where(across, far_source, source)
        logits = functional.leaky_relu(logits, slope).masked_fill(~edge[:, :, None], -torch.inf)
        shares = torch.softmax(logits, 1)
        return torch.einsum("vuk,ukf->vkf", shares * ~across, z) + torch.einsum("vuk,ukf->vkf", shares * across, far)


class _Far(torch.autograd.Function):
    """Stale rows, whose gradients are added to ``z`` an epoch later."""

    @staticmethod
    def forward(ctx, z, far, graph, context):
        ctx.graph, ctx.context = graph, context
        return far

    @staticmethod
    def backward(ctx, gradient):
        home = ctx.graph.gradients.get(ctx.context, gradient)
        ctx.graph.gradients[ctx.context] = gradient.clone()
        return home, None, None, None


def test_pipelined_attention_uses_rows_of_the_previous_epoch():
    graph, shape = random_graph(), ModelSettings(name="gat", layers=3, hidden=16, dropout=0.3, heads=2)
    owner = Random(seed=1).assign(graph, 3)
    results = run_ranks(on_rank, 3, graph, owner, shape, Pipelined())
    network = build_model(shape, graph.num_features, graph.num_classes, seed=3)
    whole = StaleAttention(graph, owner, seed=3)
    truth = train(Trainer(whole, label_objective(graph), network, TrainSettings(seed=3)))
    assert_same_training(results, truth)
    network = build_model(shape, graph.num_features, graph.num_classes, seed=3)
    fresh = train(Trainer(LocalGraph(graph, seed=3), label_objective(graph), network, TrainSettings(seed=3)))
    assert (truth["losses"] - fresh["losses"]).abs().max() > WRONG  # the test distinguishes them
