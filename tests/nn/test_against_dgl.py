"""The single process compared with DGL's own layers on the same weights: results, and the gradients of all inputs."""

from __future__ import annotations

import copy

import pytest
import torch

from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.nn.attention import AttentionConvolution
from gnnqlab.nn.layers import GraphConvolution, SageConvolution
from tests.cases import each
from tests.graphs import random_graph

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
dglnn = pytest.importorskip("dgl.nn.pytorch", reason="DGL is not installed")

# Both sum the same few tens of float32 products in another order.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def as_dgl(graph):
    import dgl

    destination = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)
    return dgl.graph((graph.indices.long(), destination), num_nodes=graph.num_nodes)


@each("directed", [False, True])
@each(("before", "after"), [(12, 7), (7, 12), (9, 9)])
def test_gcn_layer(directed, before, after):
    graph = random_graph(directed=directed, features=before)
    ours = GraphConvolution(before, after, generator=torch.Generator().manual_seed(0))
    theirs = dglnn.GraphConv(before, after, norm="both", weight=True, bias=True)
    theirs.weight.data.copy_(ours.weight.data)
    torch.nn.init.normal_(ours.bias)
    theirs.bias.data.copy_(ours.bias.data)
    same(graph, ours, theirs)
    close(ours.weight.grad, theirs.weight.grad)
    close(ours.bias.grad, theirs.bias.grad)


@each("directed", [False, True])
@each(("before", "after"), [(12, 7), (7, 12), (9, 9)])
def test_graphsage_layer(directed, before, after):
    graph = random_graph(directed=directed, features=before)
    ours = SageConvolution(before, after, generator=torch.Generator().manual_seed(0))
    theirs = dglnn.SAGEConv(before, after, "mean", bias=True)
    theirs.fc_self.weight.data.copy_(ours.weight_self.data.T)
    theirs.fc_neigh.weight.data.copy_(ours.weight_neighbour.data.T)
    bias = theirs.bias if getattr(theirs, "bias", None) is not None else theirs.fc_self.bias
    torch.nn.init.normal_(ours.bias)
    bias.data.copy_(ours.bias.data)
    same(graph, ours, theirs)
    close(ours.weight_self.grad, theirs.fc_self.weight.grad.T)
    close(ours.weight_neighbour.grad, theirs.fc_neigh.weight.grad.T)
    close(ours.bias.grad, bias.grad)


@each("heads", [1, 3])
@each("mean", [False, True])
def test_gat_layer(heads, mean):
    graph = random_graph(features=12)
    ours = AttentionConvolution(12, 6, heads=heads, mean=mean, generator=torch.Generator().manual_seed(0))
    theirs = dglnn.GATConv(12, ours.a_source.shape[1], heads, allow_zero_in_degree=True)
    theirs.fc.weight.data.copy_(ours.weight.data.T)
    theirs.attn_l.data.copy_(ours.a_source.data[None])
    theirs.attn_r.data.copy_(ours.a_target.data[None])
    same(graph, lambda g, x: ours(g, x), lambda g, x: theirs(g, x).mean(1) if mean else theirs(g, x).flatten(1))
    close(ours.a_source.grad, theirs.attn_l.grad[0])
    close(ours.a_target.grad, theirs.attn_r.grad[0])
    close(ours.weight.grad, theirs.fc.weight.grad.T)
    bias = theirs.bias.grad.view(heads, -1)  # one per head; ours is one for their mean
    close(ours.bias.grad, bias.sum(0) if mean else bias.flatten())


def test_gcnii_layers():
    graph = random_graph(features=12)
    shape = ModelSettings(name="gcnii", layers=3, hidden=8, initial_share=0.2, identity_decay=0.7)
    ours = build_model(shape, 12, 4, seed=1)
    ends = copy.deepcopy(ours)
    theirs = [dglnn.GCN2Conv(8, layer=layer, alpha=0.2, lambda_=0.7, bias=False) for layer in (1, 2, 3)]
    for layer, weight in zip(theirs, ours.weights, strict=True):
        layer.weight1.data.copy_(weight.data)

    def whole(g, x):
        h0 = h = torch.relu(x @ ends.first.weight + ends.first.bias)
        for layer in theirs:
            h = torch.relu(layer(g, h, h0))
        return h @ ends.last.weight + ends.last.bias

    same(graph, ours, whole)
    same_gradients(ours, ends, ("first", "last"))
    for layer, weight in zip(theirs, ours.weights, strict=True):
        close(weight.grad, layer.weight1.grad)


def test_sgc():
    graph = random_graph(features=12)
    ours = build_model(ModelSettings(name="sgc", layers=4, hidden=8), 12, 4, seed=1)
    theirs = dglnn.SGConv(12, 4, k=4, bias=True)
    theirs.fc.weight.data.copy_((ours.weight @ ours.last.weight).T)
    theirs.fc.bias.data.copy_(ours.last.bias)
    same(graph, ours, theirs)
    product = theirs.fc.weight.grad.T  # of Θ = W_1 W_2
    close(ours.weight.grad, product @ ours.last.weight.T)
    close(ours.last.weight.grad, ours.weight.T @ product)
    close(ours.last.bias.grad, theirs.fc.bias.grad)


def test_dagnn():
    """DGL has no class for it: hop by hop with its GraphConv, gates by hand."""
    graph = random_graph(features=12)
    ours = build_model(ModelSettings(name="dagnn", layers=5, hidden=8), 12, 4, seed=1)
    theirs = copy.deepcopy(ours)
    hop = dglnn.GraphConv(4, 4, norm="both", weight=False, bias=False)

    def whole(g, x):
        hops = [torch.relu(x @ theirs.first.weight + theirs.first.bias) @ theirs.second.weight + theirs.second.bias]
        for _ in range(5):
            hops.append(hop(g, hops[-1]))
        stacked = torch.stack(hops, 1)
        return (torch.sigmoid(stacked @ theirs.gate.weight + theirs.gate.bias) * stacked).sum(1)

    same(graph, ours, whole)
    same_gradients(ours, theirs, ("first", "second", "gate"))


@each("jump", ["cat", "max", "lstm"])
def test_jknet(jump):
    graph = random_graph(features=12)
    ours = build_model(ModelSettings(name="jknet", layers=3, hidden=8, jump=jump, norm="none"), 12, 4, seed=1)
    end = copy.deepcopy(ours)
    theirs = [dglnn.GraphConv(before, 8, norm="both") for before in (12, 8, 8)]
    for layer, convolution in zip(theirs, ours.convolutions, strict=True):
        layer.weight.data.copy_(convolution.weight.data)
    join = dglnn.JumpingKnowledge(jump, in_feats=8, num_layers=3) if jump == "lstm" else dglnn.JumpingKnowledge(jump)
    if jump == "lstm":
        join.lstm.load_state_dict(ours.lstm.state_dict())
        join.att.weight.data.copy_(ours.score.weight.data.T)
        join.att.bias.data.copy_(ours.score.bias.data)

    def whole(g, x):
        seen = []
        for layer in theirs:
            x = torch.relu(layer(g, x))
            seen.append(x)
        return join(seen) @ end.last.weight + end.last.bias

    same(graph, ours, whole)
    same_gradients(ours, end, ("last",))
    for layer, convolution in zip(theirs, ours.convolutions, strict=True):
        close(convolution.weight.grad, layer.weight.grad)
        close(convolution.bias.grad, layer.bias.grad)
    if jump == "lstm":
        close(ours.score.weight.grad, join.att.weight.grad.T)
        for one, other in zip(ours.lstm.parameters(), join.lstm.parameters(), strict=True):
            close(one.grad, other.grad)


def close(one, other):
    """Compare gradients; both sum the same products of some tens of rows, so errors follow the largest element."""
    assert one is not None and other is not None and one.abs().max() > 0
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5 * max(1.0, float(one.abs().max())))


def same_gradients(ours, theirs, names):
    for name in names:
        close(getattr(ours, name).weight.grad, getattr(theirs, name).weight.grad)
        close(getattr(ours, name).bias.grad, getattr(theirs, name).bias.grad)


def same(graph, ours, theirs):
    """Compare results and the gradients of the features, and compute those of parameters."""
    x, y = (graph.features.clone().requires_grad_() for _ in range(2))
    mine, other = ours(LocalGraph(graph).open_pass(0, training=False), x), theirs(as_dgl(graph), y)
    torch.testing.assert_close(mine, other, **TOLERANCE)
    direction = torch.randn(mine.shape, generator=torch.Generator().manual_seed(1))
    mine.backward(direction)
    other.backward(direction)
    torch.testing.assert_close(x.grad, y.grad, **TOLERANCE)
