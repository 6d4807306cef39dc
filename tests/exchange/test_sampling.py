"""Boundary sampling: compared with a dense training with the sampled matrix, and the mean over samples."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

import gnnqlab as gq
from gnnqlab.bits import Fixed
from gnnqlab.exchange import AdaptivePipeline, Overlapped, Pipelined, Synchronous
from gnnqlab.exchange.vertex_cut.attention_parts import attend_halves
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message import BoundarySampling, Float32, Stochastic
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.agreement import assert_same_training, what_came_out
from tests.cases import each
from tests.exchange.dense import Instead, StaleProduct, dense_of
from tests.exchange.test_halo import worker_graph
from tests.graphs import random_graph
from tests.ranks import run_ranks

EPOCHS = 4
SHAPES = {
    "gcn": ModelSettings(layers=3, hidden=16, dropout=0.3),
    "graphsage": ModelSettings(name="graphsage", layers=2, hidden=16, dropout=0.3),
    "gat": ModelSettings(name="gat", layers=2, hidden=16, heads=2, dropout=0.3),
    "gcnii": ModelSettings(name="gcnii", layers=4, hidden=16),
}


class SampledGraph(LocalGraph):
    """A whole dense graph in which edges between workers count 1/p or nothing, drawn again each epoch."""

    def __init__(self, graph, owner, sampler, *, seed, stale=False, whole_input=False):
        super().__init__(graph, seed=seed)
        self.exchange = Instead(self.exchange, self._aggregate, self._attend, uses_stale_rows=stale)
        self.owner, self.sampler, self.stale, self.whole_input = owner, sampler, stale, whole_input
        self.rows, self.gradients = {}, {}

    def factors(self, epoch):
        """Factor of u in the sum of v, ``(N, N)``."""
        kept = torch.zeros(self.ids.numel(), self.ids.numel())
        for holder in self.owner.unique().tolist():
            mine = self.owner == holder
            row = torch.zeros(self.ids.numel())
            row[self.sampler.sampled_positions(self.ids, holder=holder, seed=self.seed, epoch=epoch)] = (
                self.sampler.rescale
            )
            kept[mine] = torch.where(mine, 1.0, row)
        return kept

    def _aggregate(self, adjacency, x, context):
        dense = dense_of(adjacency)
        if not context.training or (self.whole_input and context.layer == 0):
            return dense @ context.own(x)
        across = self.owner[:, None] != self.owner[None, :]
        if self.stale:  # rows of the epoch before are the sample of the epoch before, and so are their gradients
            drawn = self.factors(max(context.epoch - 1, 0))
            return StaleProduct.apply(x, dense * ~across, drawn * dense * across, self, context)
        return (dense * self.factors(context.epoch)) @ x

    def before(self, kind, context, now, epoch):
        store = self.rows if kind == "rows" else self.gradients
        seen = store.get(context, now)
        store[context] = now
        return seen

    def _attend(self, adjacency, z, a_source, a_target, *, slope, context):
        factors = self.factors(context.epoch) if context.training else torch.ones(self.ids.numel(), self.ids.numel())
        kept = (dense_of(adjacency) > 0) & (factors > 0)
        across = self.owner[:, None] != self.owner[None, :]
        if self.sampler.attention == "input":
            seen = z[None] * torch.where(across, factors, 1.0)[:, :, None, None]  # factor of u for v
        else:
            seen = z[None].expand(len(z), *z.shape)
        logits = functional.leaky_relu((z * a_target).sum(-1)[:, None] + (seen * a_source).sum(-1), slope)
        exponentials = torch.exp(logits) * kept[:, :, None]
        if self.sampler.attention == "weights":
            exponentials = exponentials * factors[:, :, None]
        total = exponentials.sum(1, keepdim=True)
        return (exponentials / torch.where(total > 0, total, 1.0)).unsqueeze(-1).mul(seen).sum(1)


def train(trainer):
    losses, gradients, sent = [], [], []
    for epoch in range(EPOCHS):
        before = sum(one.bytes_payload for one in trainer.exchange.channels) if trainer.exchange else 0
        losses.append(trainer.gradients(epoch))
        gradients.append(trainer.parameters.gradients.clone())
        trainer.optimizer.step()
        sent.append(sum(one.bytes_payload for one in trainer.exchange.channels) - before if trainer.exchange else 0)
        if epoch % 2:
            trainer.evaluate(epoch)
    return what_came_out(trainer, EPOCHS, losses, gradients) | {"sent": sent}


def on_rank(rank, workers, graph, owner, shape, settings, axes):
    shard = build_shard(graph, owner, rank, workers)
    return train(worker_trainer(shard, replace(vanilla(), **axes), shape, settings))


def check(shape, sampler, *, schedule=None, graph=None, input_features="resend", **stale):
    graph = graph or random_graph()
    settings = TrainSettings(seed=3, input_features=input_features)
    owner = Random(seed=1).assign(graph, 3)
    axes = {"sampler": sampler, "schedule": schedule or Synchronous()}
    results = run_ranks(on_rank, 3, graph, owner, shape, settings, axes)
    dense = SampledGraph(graph, owner, sampler, seed=3, whole_input=input_features == "cache", **stale)
    network = build_model(shape, graph.num_features, graph.num_classes, seed=3)
    truth = train(Trainer(dense, label_objective(graph), network, settings))
    assert_same_training(results, truth)
    return results


@each("p", [0.3, 0.0])
@each("name", SHAPES)
def test_training_is_that_with_the_sampled_matrix(name, p):
    results = check(SHAPES[name], BoundarySampling(p=p), schedule=Overlapped() if name == "gcn" else None)
    assert p or all(result["sent"] == [0] * EPOCHS for result in results)


@each("attention", ["none", "input"])
def test_other_attention(attention):
    check(SHAPES["gat"], BoundarySampling(p=0.4, attention=attention), schedule=Overlapped())


@each("attention", ["weights", "none", "input"])
def test_attention_of_nodes_that_lost_all_neighbours(attention):
    graph = random_graph(self_loops="remove", isolated=5)
    check(SHAPES["gat"], BoundarySampling(p=0.2, attention=attention), graph=graph)


def test_cached_input_features_are_not_sampled():
    check(SHAPES["gcn"], BoundarySampling(p=0.3), input_features="cache")


def test_pipelined_rows_are_the_sample_of_the_epoch_before():
    check(SHAPES["gcn"], BoundarySampling(p=0.3), schedule=Pipelined(), stale=True)


@each("name", ["gcn", "gat"])
def test_p_1_is_vanilla_bit_for_bit(name):
    graph, settings = random_graph(), TrainSettings(seed=3)
    owner = Random(seed=1).assign(graph, 2)
    sampled = run_ranks(on_rank, 2, graph, owner, SHAPES[name], settings, {"sampler": BoundarySampling(p=1.0)})
    for one, other in zip(sampled, run_ranks(on_rank, 2, graph, owner, SHAPES[name], settings, {}), strict=True):
        assert torch.equal(one["gradients"], other["gradients"]) and torch.equal(one["logits"], other["logits"])


def on_rank_in_turn(rank, workers, graph, owner, shape, settings, several):
    return [on_rank(rank, workers, graph, owner, shape, settings, axes) for axes in several]


@each("name", ["gcn", "gat"])
def test_bits_and_schedules_go_with_it(name):
    graph = random_graph()
    owner = Random(seed=1).assign(graph, 3)
    several = [
        {"sampler": BoundarySampling(p=0.5), "schedule": schedule, "codec": Stochastic(), "bits": bits}
        for schedule in (Synchronous(), Overlapped(), Pipelined(), AdaptivePipeline())
        for bits in (Fixed(bits=4), gq.bits.UniformRandom(), gq.bits.Growing(bit_widths=(2, 32), period=2))
    ]
    shape = replace(SHAPES[name], dropout=0.0)
    for found in run_ranks(on_rank_in_turn, 3, graph, owner, shape, TrainSettings(seed=2), several):
        for axes, result in zip(several, found, strict=True):
            assert result["losses"].isfinite().all() and result["losses"][-1] < result["losses"][0], axes


def rows_by_place(rank, workers, graph, owner, sampler):
    """Return the number of rows sent and received in one epoch, by layer, direction and peer."""
    shard = build_shard(graph, owner, rank, workers)
    trainer = worker_trainer(shard, replace(vanilla(), sampler=sampler), SHAPES["gcn"], TrainSettings(seed=3))
    trainer.epoch(5)
    sent = {}
    for channel in trainer.exchange.channels:
        plan = trainer.exchange.boundary.sampling.plan(channel.direction, 5)
        for route in plan.send:
            sent[channel.layer, channel.direction, rank, route.peer] = sorted(route.ids.tolist())
    arrived = {
        (one.layer, one.direction, one.sender, one.receiver): one.layout.num_rows
        for channel in trainer.exchange.channels
        for one in channel.arrivals
    }
    return sent, arrived


def test_rows_sent_are_rows_used_in_all_layers_and_both_directions():
    graph, sampler = random_graph(200, 900), BoundarySampling(p=0.3)
    results = run_ranks(rows_by_place, 3, graph, Random(seed=1).assign(graph, 3), sampler)
    sent = {place: ids for one, _ in results for place, ids in one.items()}
    arrived = {place: rows for _, one in results for place, rows in one.items()}
    assert arrived == {place: len(ids) for place, ids in sent.items()}
    for (_, direction, sender, receiver), ids in sent.items():
        pair = (sender, receiver) if direction == "forward" else (receiver, sender)
        assert ids == sent[0, "forward", *pair]


def sums_on_rank(rank, workers, graph, owner, sampler, epochs):
    shard, _, worker = worker_graph(rank, workers, graph, owner, sampler=sampler, codec=Float32())
    x = graph.features[shard.owned]
    found = {}
    for alpha in ("sum", "mean", "symmetric"):
        sampled = torch.stack(
            [worker.open_pass(epoch, training=True).aggregate(x, alpha=alpha) for epoch in range(epochs)]
        )
        exact = worker.open_pass(0, training=False).aggregate(x, alpha=alpha)
        adjacency = worker.adjacency(alpha)
        rows = torch.repeat_interleave(torch.arange(shard.num_owned), adjacency.indptr.diff())
        weights = torch.ones(adjacency.num_edges) if adjacency.weights is None else adjacency.weights
        far = adjacency.indices >= shard.num_owned
        norms = graph.features[shard.halo].square().sum(1)
        terms = weights[far].square() * norms[adjacency.indices[far].long() - shard.num_owned]
        found[alpha] = sampled, exact, torch.zeros(shard.num_owned).index_add(0, rows[far], terms)
    return found


def test_sums_keep_their_mean_and_have_the_variance_of_the_formula():
    graph, epochs = random_graph(features=4), 600
    p = 1 / 4
    results = run_ranks(sums_on_rank, 2, graph, Random(seed=1).assign(graph, 2), BoundarySampling(p=p), epochs)
    for found in results:
        for sampled, exact, squares in found.values():
            off = sampled - exact
            # 5.5 standard errors: beyond them by chance in one of 10^4 runs of these 60 x 4 x 3 x 2 means
            error = off.std(0) / epochs**0.5
            assert (off.mean(0).abs() <= 5.5 * error + 1e-5).all()
            scatter = off.square().sum((1, 2))  # of one epoch, all rows: epochs are drawn independently
            assert abs(scatter.mean() - (1 - p) / p * squares.sum()) <= 5 * scatter.std() / epochs**0.5


def test_numerator_and_denominator_of_attention_are_unbiased():
    # Every sample of four halo neighbours, weighted by its probability: the mean has no random part.
    generator = torch.Generator().manual_seed(0)
    z, halo = torch.randn(2, 1, 3, generator=generator), torch.randn(4, 1, 3, generator=generator)
    source, halo_source = torch.randn(2, 1, generator=generator), torch.randn(4, 1, generator=generator)
    target, p = torch.randn(1, 1, generator=generator), 0.3
    halves = tuple(Adjacency(torch.tensor([0, n]), torch.arange(n, dtype=torch.int32), num_columns=n) for n in (2, 4))
    numerator, denominator = torch.zeros(3), torch.zeros(1)
    for kept in itertools.product([True, False], repeat=4):
        mask = torch.tensor(kept)
        out, stats = attend_halves(
            halves,
            (z, halo * mask[:, None, None]),
            (source, halo_source.masked_fill(~mask[:, None], -1e30)),
            target,
            weight=1 / p,
            slope=0.2,
        )
        probability = p ** sum(kept) * (1 - p) ** (4 - sum(kept))
        total = stats[0, 0].exp() / stats[0, 1]
        denominator += probability * total
        numerator += probability * (total * out[0]).flatten()
    exponentials = functional.leaky_relu(torch.cat([source, halo_source]) + target, 0.2).exp()
    torch.testing.assert_close(denominator, exponentials.sum(0))
    torch.testing.assert_close(numerator, (exponentials[:, :, None] * torch.cat([z, halo])).sum((0, 1)))


def test_extended_rows_are_unbiased_too():
    graph, p = random_graph(), 0.5
    for halo, factor, truth in run_ranks(extended, 2, graph, Random(seed=1).assign(graph, 2), BoundarySampling(p=p)):
        assert torch.equal(halo, truth * factor[:, None])
        assert set(factor.tolist()) == {0.0, 2.0}


def extended(rank, workers, graph, owner, sampler):
    shard, exchange, worker = worker_graph(rank, workers, graph, owner, sampler=sampler)
    x = graph.features[shard.owned].clone().requires_grad_()
    y = worker.open_pass(3, training=True).extend(x)
    y.sum().backward()
    counts = torch.ones(shard.num_owned)
    for route in exchange.boundary.sampling.plan("backward", 3).receive:
        counts.index_add_(0, route.rows, torch.full((route.num_rows,), sampler.rescale))
    assert torch.equal(x.grad[:, 0], counts)
    factor = torch.zeros(shard.num_halo).index_fill(0, exchange.boundary.sampling.rows(3), sampler.rescale)
    return y[shard.num_owned :].detach(), factor, graph.features[shard.halo]


def test_components_that_need_every_row_reject_boundary_sampling():
    sampler = BoundarySampling(p=0.5)
    with pytest.raises(ValueError, match="Assigned needs every boundary row in every epoch .it uses the statistics"):
        replace(gq.systems.adaqp(), sampler=sampler)
    with pytest.raises(ValueError, match="Pipelined needs every boundary row in every epoch .smoothing"):
        replace(gq.systems.pipegcn(feature_smoothing=0.9), sampler=sampler)
    replace(gq.systems.adaqp(), sampler=BoundarySampling(p=1.0))
    replace(gq.systems.sylvie(), sampler=sampler)
