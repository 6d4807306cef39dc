"""Dropout of rows that are stored over epochs: the receiver's mask, compared with a training by hand in float64.

The reference shares no formula with the exchange: rows of others are leaves of autograd, the gradient that a worker
sends back is that of such a leaf, and it enters the next epoch as ``<row, gradient>`` added to the loss.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from gnnqlab.exchange import AdaptivePipeline, Overlapped, Pipelined
from gnnqlab.exchange.aggregation_context import Drop
from gnnqlab.exchange.halo.boundary import Boundary, LayerPlan
from gnnqlab.kernels.noise import stream
from gnnqlab.kernels.reference.noise import uniform16
from gnnqlab.message import BoundarySampling, Unchanged
from gnnqlab.nn import ModelSettings, build_model
from gnnqlab.nn.row_passes import RowPasses
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import make_system, vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from tests.agreement import TOLERANCE
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

EPOCHS, WORKERS, SEED = 6, 3, 3


class ByHand:
    """A GCN or GraphSAGE on the whole graph, in float64, with rows of the epoch before for edges between workers."""

    def __init__(self, graph, owner, shape, *, smoothing=(0.0, 0.0), fresh=(), dropped_by="receiver"):
        network = build_model(shape, graph.num_features, graph.num_classes, seed=SEED)
        self.weights = {name: value.detach().double().requires_grad_() for name, value in network.named_parameters()}
        self.optimizer = torch.optim.Adam(self.weights.values(), lr=TrainSettings().lr)
        self.graph, self.shape, self.fresh, self.dropped_by = graph, shape, set(fresh), dropped_by
        self.smoothing = dict(zip(("rows", "gradients"), smoothing, strict=True))
        self.across = owner[:, None] != owner[None, :]
        destination = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.indptr.diff())
        edges = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
        edges.index_put_((destination, graph.indices.long()), torch.ones(1).double(), accumulate=True)
        d_in, d_out = edges.sum(1).clamp(min=1), edges.sum(0).clamp(min=1)
        self.alpha = edges / d_in[:, None] if shape.name == "graphsage" else edges / (d_in[:, None] * d_out).sqrt()
        self.stored, self.means, self.seen = {}, {}, {}

    def mask(self, p, epoch, width):
        """Return the mask of the next dropout in the model, times 1 / (1 - p)."""
        if p == 0.0:
            return torch.ones((), dtype=torch.float64)
        threshold = round(65536 * p)
        ids = torch.arange(self.graph.num_nodes)
        bits = uniform16(ids, width, seed=SEED, epoch=epoch, stream=stream("dropout", self.places))
        self.places += 1
        return (bits >= threshold).double() * 65536 / (65536 - threshold)

    def older(self, kind, layer):
        """Return the rows or gradients of the epoch before, or their running mean."""
        came, gamma = self.stored[kind, layer], self.smoothing[kind]
        mean = self.means.get((kind, layer))
        self.means[kind, layer] = came if mean is None else gamma * mean + (1 - gamma) * came
        return self.means[kind, layer]

    def sums(self, layer, rows, mask, epoch):
        """Return the sums of a layer over ``mask * rows``, where others' rows are those of the epoch before."""
        if ("rows", layer) not in self.stored or epoch in self.fresh:
            seen = rows.clone()
            if seen.requires_grad:
                seen.retain_grad()
        else:
            seen = self.older("rows", layer).clone().requires_grad_(rows.requires_grad)
            if rows.requires_grad:
                self.home = self.home + (rows * self.older("gradients", layer)).sum()
        self.stored["rows", layer], self.seen[layer] = rows.detach().clone(), seen
        return (self.alpha * ~self.across) @ (mask * rows) + (self.alpha * self.across) @ (mask * seen)

    def epoch(self, epoch):
        """Train an epoch; return its loss and its gradients."""
        self.places, self.home, shape = 0, torch.zeros((), dtype=torch.float64), self.shape
        h = self.graph.features.double()
        for layer in range(shape.layers):
            of = {name: self.weights.get(f"convolutions.{layer}.{name}") for name in
                  ("weight", "weight_neighbour", "weight_self", "bias")}  # fmt: skip
            weight = of["weight"] if of["weight"] is not None else of["weight_neighbour"]
            mask = self.mask(shape.dropout if layer else shape.input_dropout, epoch, h.shape[1])
            narrower = weight.shape[1] < h.shape[1]
            if narrower and (layer == 0 or self.dropped_by == "owner" or shape.dropout == 0.0):  # sends projected rows
                y = self.sums(layer, (mask * h) @ weight, 1.0, epoch)
            else:
                y = self.sums(layer, h, mask, epoch) @ weight
            y = y + of["bias"]
            if of["weight_self"] is not None:
                y = y + (mask * h) @ of["weight_self"]
            if layer + 1 < shape.layers:
                norm = (self.weights[f"norms.{layer}.{name}"] for name in ("weight", "bias"))
                h = functional.relu(functional.layer_norm(y, y.shape[1:], *norm))
        train = self.graph.train_mask
        loss = functional.cross_entropy(y[train], self.graph.labels[train])
        self.optimizer.zero_grad()
        (loss + self.home).backward()
        for layer, seen in self.seen.items():
            if seen.grad is not None:
                self.stored["gradients", layer] = seen.grad.clone()
        gradients = torch.cat([value.grad.flatten() for value in self.weights.values()])
        self.optimizer.step()
        return float(loss.detach()), gradients


def train(rank, workers, graph, owner, shape, axes, fresh=(), epochs=EPOCHS):
    trainer = worker_trainer(
        build_shard(graph, owner, rank, workers), replace(vanilla(), **axes), shape, TrainSettings(seed=SEED)
    )
    losses, gradients = [], []
    for epoch in range(epochs):
        if fresh:
            trainer.exchange.schedule.is_fresh = epoch in fresh
        losses.append(trainer.gradients(epoch))
        gradients.append(trainer.parameters.gradients.clone())
        trainer.optimizer.step()
        if epoch == 2:
            trainer.evaluate(epoch)  # does not change rows under way and held rows
    widths = {channel.place[:2]: channel.columns for channel in trainer.exchange.channels}
    trainer.close()
    return {"losses": torch.tensor(losses), "gradients": torch.stack(gradients), "columns": widths}


def agree(results, truth):
    losses, gradients = torch.tensor([loss for loss, _ in truth]), torch.stack([each for _, each in truth])
    for one in results:
        assert (one["losses"] - losses).abs().max() <= TOLERANCE * losses.abs().max()
        assert (one["gradients"] - gradients).abs().max() <= TOLERANCE * gradients.abs().max()


def check(shape, schedule, *, fresh=(), features=12, directed=False, **by_hand):
    graph = random_graph(features=features, directed=directed)
    owner = Random(seed=1).assign(graph, WORKERS)
    results = run_ranks(train, WORKERS, graph, owner, shape, {"schedule": schedule}, fresh)
    dense = ByHand(graph, owner, shape, fresh=fresh, **by_hand)
    agree(results, [dense.epoch(epoch) for epoch in range(EPOCHS)])
    return results


GCN = ModelSettings(layers=3, hidden=16, dropout=0.3)
SAGE = ModelSettings(name="graphsage", layers=2, hidden=16, dropout=0.5)


@each(("shape", "directed"), [(GCN, False), (GCN, True), (SAGE, False), (SAGE, True)])
def test_older_rows_have_this_epochs_mask(shape, directed):
    results = check(shape, Pipelined(), directed=directed)
    last = shape.layers - 1
    for one in results:  # rows of the mask's width are sent, although 4 classes are narrower than 16
        assert one["columns"][last, "forward"] == one["columns"][last, "backward"] == 16


def test_smoothing_is_of_rows_before_the_mask_and_of_gradients_behind_it():
    schedule = Pipelined(feature_smoothing=0.9, gradient_smoothing=0.5)
    check(GCN, schedule, smoothing=(0.9, 0.5))


def test_fresh_epochs_between():
    check(GCN, AdaptivePipeline(dropped_by="receiver"), fresh=(2, 4))


@each("schedule", [Pipelined(dropped_by="owner"), AdaptivePipeline()])
def test_rows_that_are_narrower_projected_may_be_dropped_by_their_owner(schedule):
    for shape in (GCN, SAGE):
        for one in check(shape, schedule, dropped_by="owner"):
            assert one["columns"][shape.layers - 1, "forward"] == 4


@each("features", [12, 20])
def test_raw_features_travel_whole_where_they_are_summed_first_and_projected_with_their_mask_else(features):
    check(replace(GCN, input_dropout=0.4), Pipelined(), features=features)
    check(replace(SAGE, input_dropout=0.4), Pipelined(), features=features)


def test_without_dropout_rows_are_sent_at_the_projected_width():
    for one in check(replace(GCN, dropout=0.0), Pipelined()):
        assert one["columns"][2, "forward"] == 4


def test_reference_losses_differ_between_receiver_and_owner_masks():
    graph = random_graph()
    owner = Random(seed=1).assign(graph, WORKERS)
    both = [ByHand(graph, owner, GCN, dropped_by=who) for who in ("receiver", "owner")]
    first, second = ([dense.epoch(epoch)[0] for epoch in range(EPOCHS)] for dense in both)
    assert first[0] == pytest.approx(second[0])
    assert max(abs(one - other) / one for one, other in zip(first[1:], second[1:], strict=True)) > 100 * TOLERANCE


def mutated(rank, workers, graph, owner, fault):
    """Train with a fault planted in the masks of halo rows."""
    rows, opened = LayerPlan.dropped, Boundary.__init__
    if fault == "no mask on halo rows":
        LayerPlan.dropped = lambda layer, halo, sampled_in: halo
    elif fault == "no mask on gradients":
        layers = []

        def dropped(layer, halo, sampled_in):
            layers.append(layer)
            return rows(layer, halo, sampled_in) if layers.count(layer) == 1 else halo

        LayerPlan.dropped = dropped
    elif fault == "the owner's mask on gradients":

        def open_boundary(boundary, *arguments, **settings):
            opened(boundary, *arguments, **settings)
            boundary.owners_drop = True

        Boundary.__init__ = open_boundary
    try:
        return train(rank, workers, graph, owner, GCN, {"schedule": Pipelined()})
    finally:
        LayerPlan.dropped, Boundary.__init__ = rows, opened


@each("fault", ["no mask on halo rows", "no mask on gradients", "the owner's mask on gradients"])
def test_injected_mask_fault_fails_the_comparison(fault):
    graph = random_graph()
    owner = Random(seed=1).assign(graph, WORKERS)
    results = run_ranks(mutated, WORKERS, graph, owner, fault)
    dense = ByHand(graph, owner, GCN)
    with pytest.raises(AssertionError):
        agree(results, [dense.epoch(epoch) for epoch in range(EPOCHS)])


# --- Combinations: exchanges with fresh rows, and workers without peers ---


def every_system(rank, workers, graph, owner, systems, shape):
    return [train(rank, workers, graph, owner, shape, axes, epochs=3) for axes in systems]


def test_cache_with_tolerance_0_trains_like_vanilla():
    """Tolerance 0 compares rows before the mask; the owner applies the mask to the sum of gradients."""
    graph = random_graph()
    owner = Random(seed=1).assign(graph, WORKERS)
    systems = [{}, {"cache": Unchanged()}, {"cache": Unchanged(), "schedule": Overlapped()}]
    for shape in (replace(GCN, input_dropout=0.4), SAGE):
        for plain, *cached in run_ranks(every_system, WORKERS, graph, owner, systems, shape):
            agree(cached, list(zip(plain["losses"], plain["gradients"], strict=True)))


def test_one_worker_with_stale_rows_or_a_cache_trains_like_vanilla():
    graph = random_graph()
    owner = torch.zeros(graph.num_nodes, dtype=torch.int64)
    stale = [{"schedule": Pipelined()}, {"cache": Unchanged()}]
    for plain, *others in run_ranks(every_system, 1, graph, owner, [{}, *stale], GCN):
        for other in others:
            assert torch.equal(other["losses"], plain["losses"]) and torch.equal(other["gradients"], plain["gradients"])


def sampled(rank, workers, graph, owner):
    """Return the first epochs of a sampled training, synchronous and in a pipeline that never waits for older rows."""
    axes = {"sampler": BoundarySampling(p=0.5)}
    plain = train(rank, workers, graph, owner, GCN, axes)
    always = train(
        rank, workers, graph, owner, GCN, {**axes, "schedule": AdaptivePipeline()}, fresh=tuple(range(EPOCHS))
    )
    return plain, always


def test_the_mask_of_a_sample_is_that_of_its_nodes():
    graph = random_graph()
    for plain, always in run_ranks(sampled, WORKERS, graph, Random(seed=1).assign(graph, WORKERS)):
        agree([always], list(zip(plain["losses"], plain["gradients"], strict=True)))


def test_raw_features_sent_once_train_the_same_under_input_dropout():
    """The worker that has them makes their masks, so no row of layer 0 has to be sent again."""
    graph = random_graph()
    owner = Random(seed=1).assign(graph, WORKERS)
    shape = replace(GCN, input_dropout=0.4)
    for resent, once in run_ranks(once_on_rank, WORKERS, graph, owner, shape):
        assert torch.equal(resent["losses"], once["losses"])


def once_on_rank(rank, workers, graph, owner, shape):
    found = []
    for input_features in ("resend", "cache"):
        settings = TrainSettings(seed=SEED, input_features=input_features)
        trainer = worker_trainer(build_shard(graph, owner, rank, workers), make_system("pipegcn"), shape, settings)
        losses = [trainer.epoch(epoch) for epoch in range(EPOCHS)]
        trainer.close()
        found.append({"losses": torch.tensor(losses)})
    return found


# --- The mask is applied in the pass that makes the rows ---


def losses_and_masks(rank, workers, graph, owner, shape, schedule, apart):
    """Return the losses of a worker, and the number of passes that only apply a mask to its own rows."""
    trainer = worker_trainer(
        build_shard(graph, owner, rank, workers), replace(vanilla(), schedule=schedule), shape, TrainSettings(seed=SEED)
    )
    passes = []
    with pytest.MonkeyPatch.context() as patch:
        own = Drop.own
        patch.setattr(Drop, "own", lambda drop, x: passes.append(drop.stream) or own(drop, x))
        if apart:
            patch.setattr(RowPasses, "_drop_ahead", lambda self, p: None)
        losses = []
        for epoch in range(4):
            losses.append(trainer.gradients(epoch))
            trainer.optimizer.step()
    trainer.close()
    return losses, len(passes)


@pytest.mark.parametrize(
    ("name", "dropped_by"), [("gcn", "receiver"), ("graphsage", "owner"), ("gcnii", "receiver"), ("jknet", "owner")]
)
def test_fused_dropout_of_stored_rows_is_bit_identical_to_separate_passes(name, dropped_by):
    shape, graph = ModelSettings(name=name, layers=3, hidden=16, dropout=0.5), random_graph(features=12)
    owner = Random(seed=1).assign(graph, 2)
    schedule = Pipelined(dropped_by=dropped_by)
    arguments = (2, graph, owner, shape, schedule)
    once, apart = (run_ranks(losses_and_masks, *arguments, way) for way in (False, True))
    assert [losses for losses, _ in once] == [losses for losses, _ in apart]
    assert all(passes == 0 for _, passes in once)
    assert all(passes > 0 for _, passes in apart)
