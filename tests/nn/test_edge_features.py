"""Features of edges: layers compared with dense float64 and DGL, workers with one process, and bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import gnnqlab as gq
from gnnqlab.compute import BFloat16Rows, ExactActivations, Int8Products
from gnnqlab.course.experiments.kept_bytes import saved_bytes_of_loss
from gnnqlab.exchange import Overlapped, Sequential
from gnnqlab.graph import Graph
from gnnqlab.message.caches.cache import Unchanged
from gnnqlab.message.caches.difference import Difference
from gnnqlab.nn import LocalGraph
from gnnqlab.nn.attention import AttentionConvolution
from gnnqlab.nn.edge_rows import edge_means
from gnnqlab.nn.layers import SageConvolution
from gnnqlab.nn.messages import MessageConvolution
from gnnqlab.partition import Random, Shard, build_shard
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems import adaqp, bns_gcn, pipegcn
from gnnqlab.train.checkpoints.model_file import ModelFile, read_model
from gnnqlab.train.inference import embeddings
from gnnqlab.train.inference import logits as logits_of
from gnnqlab.train.loop.node_labels import label_objective
from tests.agreement import TOLERANCE, assert_same_training
from tests.cases import each
from tests.graphs import random_graph
from tests.nn.featured import WIDTH, featured, messages, network
from tests.nn.test_edge_weights import HALO, SETTINGS, one_process, several, shape
from tests.nn.test_law import assert_all_same

__all__ = ["messages"]

CASES = [("graphsage", {}), ("gat", {}), ("gat", {"heads": 4}), ("messages", {})]


def dense(graph: Graph) -> tuple[Tensor, Tensor]:
    """Return ``(N, N)`` weights and ``(N, N, F)`` features; row v, column u: the edge u -> v, which is stored once."""
    src, dst = (end.long() for end in graph.edge_list())
    there = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    there[dst, src] = 1.0 if graph.edge_weights is None else graph.edge_weights.double()
    features = torch.zeros(graph.num_nodes, graph.num_nodes, WIDTH, dtype=torch.float64)
    features[dst, src] = graph.edge_features.double()
    return there, features


def dense_sage(layer: SageConvolution, x: Tensor, there: Tensor, features: Tensor) -> Tensor:
    """Add messages ``x_u W_n + e_uv W_e`` one by one, then take their mean."""
    messages = (x @ layer.weight_neighbour).unsqueeze(0) + features @ layer.weight_edge
    sums = (there.unsqueeze(-1) * messages).sum(1)
    total = there.sum(1, keepdim=True)
    return x @ layer.weight_self + sums / torch.where(total == 0, 1.0, total) + layer.bias


def dense_messages(layer: MessageConvolution, x: Tensor, there: Tensor, features: Tensor) -> Tensor:
    """Compute a message for every pair; those of pairs without an edge are multiplied by 0."""
    ends = (x @ layer.weight_source).unsqueeze(0) + (x @ layer.weight_target + layer.bias_message).unsqueeze(1)
    sums = (there.unsqueeze(-1) * functional.relu(ends + features @ layer.weight_edge)).sum(1)
    total = there.sum(1, keepdim=True)
    return x @ layer.weight_self + sums / torch.where(total == 0, 1.0, total) @ layer.weight_message + layer.bias


def dense_gat(layer: AttentionConvolution, x: Tensor, there: Tensor, features: Tensor) -> Tensor:
    """Project the features of every pair to all heads, as in the equation."""
    z = (x @ layer.weight).unflatten(1, layer.a_source.shape)
    projected = (features @ layer.weight_edge).unflatten(2, layer.a_edge.shape)
    logits = (
        (z * layer.a_target).sum(-1).unsqueeze(1) + (z * layer.a_source).sum(-1) + (projected * layer.a_edge).sum(-1)
    )
    logits = functional.leaky_relu(logits, layer.slope).masked_fill((there == 0).unsqueeze(-1), -torch.inf)
    attention = torch.softmax(logits, 1).nan_to_num(0.0)  # a node without edges
    y = torch.einsum("vuk,ukf->vkf", attention, z)
    return (y.mean(1) if layer.mean else y.flatten(1)) + layer.bias


LAYERS = {SageConvolution: dense_sage, AttentionConvolution: dense_gat, MessageConvolution: dense_messages}


def dense_logits(model: Any, graph: Graph) -> Tensor:
    x, edges = graph.features.double(), dense(graph)
    for number, layer in enumerate(model.convolutions):
        x = LAYERS[type(layer)](layer, x if number == 0 else functional.relu(x), *edges)
    return x


@each("directed", [False, True])
@each(("name", "more"), CASES)
def test_models_agree_with_dense_float64(name, more, directed):
    for weighted in (False, True)[: 1 + (name != "gat")]:
        choices = {"directed": directed, "self_loops": "remove" if directed else "add", "isolated": 4}
        graph = featured(features=20, weighted=weighted, **choices)  # 20 -> 16 projects first, 16 -> 16 does not
        model = network(graph, shape(name, dropout=0.0, norm="none", **more))
        local, objective = LocalGraph(graph), label_objective(graph)
        logits = model(local.open_pass(0, training=True), local.features)
        objective.loss(logits).backward()
        truth = network(graph, shape(name, dropout=0.0, norm="none", **more)).double()
        right = dense_logits(truth, graph)
        objective.loss(right).backward()
        assert (logits - right).abs().max() <= TOLERANCE * right.abs().max()
        largest = max(each.grad.abs().max() for each in truth.parameters())
        for (what, mine), theirs in zip(model.named_parameters(), truth.parameters(), strict=True):
            assert theirs.grad.abs().max() > 0, what
            assert (mine.grad - theirs.grad).abs().max() <= TOLERANCE * largest, what


@each(("name", "more"), CASES)
def test_gradients_of_a_tiny_graph(name, more):
    graph = featured(nodes=7, edges=9, features=3, isolated=1, directed=True, self_loops="remove")
    make = {"edge_features": WIDTH, "generator": torch.Generator().manual_seed(1)}
    layer: nn.Module = SageConvolution(3, 4, **make)
    if name == "gat":
        layer = AttentionConvolution(3, 4, heads=more.get("heads", 1), mean=False, **make)
    elif name == "messages":
        layer = MessageConvolution(3, 4, hidden=5, sums="sum", **make)
    layer, local = layer.double(), LocalGraph(graph)
    local.edge_features = graph.edge_features.double()
    names, values = zip(*layer.named_parameters())

    def run(x: Tensor, *parameters: Tensor) -> Tensor:
        g = local.open_pass(0, training=False)
        return torch.func.functional_call(layer, dict(zip(names, parameters)), (g, x))

    x = torch.randn(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    inputs = [each.detach().clone().requires_grad_() for each in (x, *values)]
    assert torch.autograd.gradcheck(run, inputs)


@each("directed", [False, True])
@each("heads", [1, 4])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_attention_is_that_of_dgl(heads, directed):
    """DGL sums ``W x_u + W_e e_uv`` with its attention; minus the second term it is our sum."""
    dglnn = pytest.importorskip("dgl.nn.pytorch", reason="DGL is not installed")
    graph = featured(directed=directed, isolated=0)
    make = {"edge_features": WIDTH, "generator": torch.Generator().manual_seed(1)}
    ours = AttentionConvolution(12, 8, heads=heads, mean=False, **make)
    theirs = dglnn.EdgeGATConv(12, WIDTH, 8 // heads, heads, residual=False, allow_zero_in_degree=True)
    torch.nn.init.normal_(ours.bias)
    pairs = [
        (ours.weight, theirs.fc.weight, lambda value: value.T),
        (ours.weight_edge, theirs.fc_edge.weight, lambda value: value.T),
        (ours.a_source, theirs.attn_l, lambda value: value.unsqueeze(0)),
        (ours.a_target, theirs.attn_r, lambda value: value.unsqueeze(0)),
        (ours.a_edge, theirs.attn_edge, lambda value: value.unsqueeze(0)),
        (ours.bias, theirs.bias, lambda value: value),
    ]
    for mine, other, turned in pairs:
        other.data.copy_(turned(mine.data))
    local, x, e = LocalGraph(graph), graph.features.double(), graph.edge_features.double()
    local.edge_features = e
    y = ours.double()(local.open_pass(0, training=False), x)
    z, attention = theirs.double()(graph.to_dgl(), x, e, get_attention=True)
    of_edges = attention * theirs.fc_edge(e).unflatten(1, z.shape[1:])
    z = (z - torch.zeros_like(z).index_add(0, graph.edge_list()[1].long(), of_edges)).flatten(1)
    torch.testing.assert_close(y, z, rtol=1e-10, atol=1e-10)
    weights = torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    (y * weights).sum().backward()
    (z * weights).sum().backward()
    for mine, other, turned in pairs:
        torch.testing.assert_close(turned(mine.grad), other.grad, rtol=1e-10, atol=1e-10)


def test_zeros_are_as_no_features():
    graph = random_graph()
    zeros = replace(graph, edge_features=torch.zeros(graph.num_edges, WIDTH))
    for name, more in CASES[:3]:
        with_zeros, without = (network(each, shape(name, dropout=0.0, **more)) for each in (zeros, graph))
        with_zeros.load_state_dict(without.state_dict(), strict=False)
        found, right = (
            model(LocalGraph(each).open_pass(0, training=False), each.features)
            for model, each in ((with_zeros, zeros), (without, graph))
        )
        torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-6)


def test_saved_memory_of_edge_layers_matches_the_formula():
    """Messages: one row per edge; attention: two numbers per edge and head; GraphSAGE: nothing."""
    graph = featured(nodes=100, edges=900)
    make = {"edge_features": WIDTH, "generator": torch.Generator().manual_seed(1)}
    layers = [
        (MessageConvolution(12, 4, hidden=8, **make), 4 * graph.num_edges * 8),
        (AttentionConvolution(12, 8, heads=4, mean=False, **make), 2 * 4 * graph.num_edges * 4),
        (SageConvolution(12, 8, **make), 0),
    ]
    for layer, of_edges in layers:
        local = LocalGraph(graph)
        y = layer(local.open_pass(0, training=True), local.features)
        alphas = [local.adjacency(alpha) for alpha in ("mean", "sum")]
        there = [graph.indptr, graph.indices, *(alpha.weights for alpha in alphas)]
        means = [] if local.edge_means is None else [local.edge_means]
        kept = saved_bytes_of_loss(y.sum(), [*layer.parameters(), local.features, local.edge_features, *there, *means])
        rows = 4 * graph.num_nodes * 12
        assert of_edges <= sum(kept.values()) <= of_edges + rows < of_edges + 4 * graph.num_edges * 2, layer


# ---- several workers -------------------------------------------------------------------------------


@each(("name", "more"), CASES)
def test_the_law(name, more):
    report = gq.testing.check_law(name, edge_features=WIDTH, **more)
    assert report.max_difference < 1e-5 and [row["workers"] for row in report.rows] == [1, 2, 3, 4, 4]


@each(
    ("workers", "system", "names"),
    [
        (3, replace(HALO, schedule=Overlapped()), ["graphsage", "gat", "messages"]),
        (3, replace(HALO, schedule=Sequential(depth=0)), ["graphsage"]),
    ],
)
def test_schedules_equal_one_process(workers, system, names):
    graph = featured(nodes=61, directed=True, seed=workers)
    for name in names:
        settings = shape(name, dropout=0.3, input_dropout=0.1)
        assert_same_training(several(graph, workers, system, settings), one_process(graph, settings))


def test_workers_in_processes_equal_one():
    graph = featured(directed=True, isolated=5)
    owner = Random(seed=4).assign(graph, 2)
    assert_all_same(2, {name: (graph, owner, shape(name), SETTINGS) for name in ("gat", "graphsage")})


def test_edge_features_are_not_sent():
    """Bytes of an epoch are those of the graph without features, in number and in kind."""
    graph = featured(directed=True)
    for name in ("gat", "graphsage", "messages"):
        sent = []
        narrow = replace(graph, edge_features=graph.edge_features[:, :1].contiguous())
        for each_graph in (graph, narrow if name == "messages" else graph.without_edge_features()):
            threads = ThreadedWorkers(each_graph, HALO.partition.cut(graph, 3), HALO, shape(name), SETTINGS)
            threads.gradients(0)
            sent.append(
                sorted(
                    (tuple(channel.place), trainer.exchange.boundary.num_halo, channel.columns, channel.bytes_payload)
                    for trainer in threads.trainers
                    for channel in trainer.exchange.channels
                )
            )
        assert sent[0] == sent[1] and sum(row[-1] for row in sent[0]) > 0


def test_a_worker_has_the_features_of_edges_into_its_nodes(tmp_path):
    graph = featured(directed=True)
    owner = Random(seed=1).assign(graph, 3)
    there, features = dense(graph)
    for rank in range(3):
        shard = build_shard(graph, owner, rank, 3)
        shard.save(tmp_path / "shard.npz")
        shard = Shard.load(tmp_path / "shard.npz")
        ids = torch.cat([shard.owned, shard.halo])
        target = torch.repeat_interleave(shard.owned, shard.indptr.diff())
        assert torch.equal(shard.edge_features.double(), features[target, ids[shard.indices.long()]])
        assert shard.num_edges == int(there[shard.owned].sum())
    build_shard(graph.without_edge_features(), owner, 0, 3).save(tmp_path / "bare.npz")
    assert Shard.load(tmp_path / "bare.npz").edge_features is None


def test_means_of_edges_are_made_once():
    graph = featured(weighted=True)
    local = LocalGraph(graph)
    first = edge_means(local.open_pass(0, training=True))
    assert edge_means(local.open_pass(7, training=False)) is first
    weights, features = dense(graph)
    right = (weights.unsqueeze(-1) * features).sum(1) / weights.sum(1, keepdim=True)
    torch.testing.assert_close(first.double(), right, rtol=1e-5, atol=1e-6)


@each(
    "system",
    [
        replace(adaqp(), partition=Random()),
        replace(pipegcn(), partition=Random()),
        bns_gcn(),
        Int8Products(),
        BFloat16Rows(),
        ExactActivations(),
    ],
)
def test_graphsage_trains_with_them_in_every_system_of_halo_rows(system):
    """Its sums of edges are exact for any treatment of rows."""
    system = system if hasattr(system, "partition") else replace(HALO, compute=system)
    graph = featured(nodes=80, edges=400)
    threads = ThreadedWorkers(
        graph, Random().cut(graph, 2), system, shape("graphsage", dropout=0.0), SETTINGS, as_launched=True
    )
    losses = [threads.step(epoch) for epoch in range(15)]
    assert losses[-1] < 0.8 * losses[0]
    of_edges = threads.trainers[0].model.convolutions[0].weight_edge
    assert of_edges.grad is not None and of_edges.grad.abs().max() > 0


@each("cache", [Unchanged(tolerance=0.0), Difference()])
def test_attention_keeps_rows_as_a_cache_has_them(cache):
    """Rows that were received in an epoch before, or as differences, are complete when terms of edges are added."""
    graph = featured(nodes=80, edges=400)
    losses = []
    for system in (HALO, replace(HALO, cache=cache)):
        threads = ThreadedWorkers(graph, Random().cut(graph, 2), system, shape("gat"), SETTINGS, as_launched=True)
        losses.append([threads.step(epoch) for epoch in range(4)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_saved_model_restores_edge_feature_settings_and_logits(tmp_path):
    graph = featured()
    settings = shape("gat")
    model = network(graph, settings)
    sizes = {"num_nodes": graph.num_nodes, "num_features": 12, "num_classes": 4, "num_edge_features": WIDTH}
    assert ModelFile(tmp_path, settings, model, **sizes).write(0) is None
    again = read_model(tmp_path).build(settings, seed=8)
    one, other = (logits_of(each, graph) for each in (model, again))
    assert torch.equal(one, other)
    plain = {name: size for name, size in sizes.items() if name != "num_edge_features"}
    bare = graph.without_edge_features()
    assert ModelFile(tmp_path, settings, network(bare, settings), **plain).write(0) is None
    assert read_model(tmp_path).num_edge_features == 0


def test_rows_of_layers_are_those_of_nodes():
    """Embeddings are rows of nodes: a layer of messages takes rows of nodes, and its sums are no layer."""
    graph = featured()
    for name, more in CASES:
        model = network(graph, shape(name, dropout=0.0, **more))
        rows = embeddings(model, graph)
        assert rows.shape == (graph.num_nodes, 16) and torch.equal(embeddings(model, graph, 0), graph.features), name
