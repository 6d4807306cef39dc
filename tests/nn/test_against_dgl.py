"""The single process against DGL's own layers on the same weights."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.nn.attention import AttentionConvolution
from gnnqlab.nn.layers import GraphConvolution, SageConvolution
from tests.graphs import random_graph

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
dglnn = pytest.importorskip("dgl.nn.pytorch", reason="DGL is not installed")

# Both sum the same few tens of float32 products in another order.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def as_dgl(graph):
    import dgl

    destination = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)
    return dgl.graph((graph.indices.long(), destination), num_nodes=graph.num_nodes)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("before", "after"), [(12, 7), (7, 12), (9, 9)])
def test_gcn_layer(directed, before, after):
    graph = random_graph(directed=directed, features=before)
    ours = GraphConvolution(before, after, generator=torch.Generator().manual_seed(0))
    theirs = dglnn.GraphConv(before, after, norm="both", weight=True, bias=True)
    theirs.weight.data.copy_(ours.weight.data)
    torch.nn.init.normal_(ours.bias)
    theirs.bias.data.copy_(ours.bias.data)
    check(graph, ours, theirs, [("weight", "weight"), ("bias", "bias")])


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("before", "after"), [(12, 7), (7, 12), (9, 9)])
def test_graphsage_layer(directed, before, after):
    graph = random_graph(directed=directed, features=before)
    ours = SageConvolution(before, after, generator=torch.Generator().manual_seed(0))
    theirs = dglnn.SAGEConv(before, after, "mean", bias=True)
    theirs.fc_self.weight.data.copy_(ours.weight_self.data.T)
    theirs.fc_neigh.weight.data.copy_(ours.weight_neighbour.data.T)
    bias = theirs.bias if getattr(theirs, "bias", None) is not None else theirs.fc_self.bias
    torch.nn.init.normal_(ours.bias)
    bias.data.copy_(ours.bias.data)
    check(graph, ours, theirs, [("weight_self", "fc_self.weight"), ("weight_neighbour", "fc_neigh.weight")])


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("mean", [False, True])
def test_gat_layer(heads, mean):
    graph = random_graph(features=12)
    ours = AttentionConvolution(12, 6, heads=heads, mean=mean, generator=torch.Generator().manual_seed(0))
    per_head = ours.a_source.shape[1]
    theirs = dglnn.GATConv(12, per_head, heads, allow_zero_in_degree=True)
    theirs.fc.weight.data.copy_(ours.weight.data.T)
    theirs.attn_l.data.copy_(ours.a_source.data[None])
    theirs.attn_r.data.copy_(ours.a_target.data[None])
    x = graph.features.clone().requires_grad_()
    y = graph.features.clone().requires_grad_()
    mine = ours(LocalGraph(graph).at(0, training=False), x)
    other = theirs(as_dgl(graph), y)
    other = other.mean(1) if mean else other.flatten(1)
    same(mine, other, x, y)
    torch.testing.assert_close(ours.a_source.grad, theirs.attn_l.grad[0], **TOLERANCE)
    torch.testing.assert_close(ours.a_target.grad, theirs.attn_r.grad[0], **TOLERANCE)
    torch.testing.assert_close(ours.weight.grad, theirs.fc.weight.grad.T, **TOLERANCE)


def test_gcnii_layers():
    graph = random_graph(features=12)
    shape = ModelSettings(name="gcnii", layers=3, hidden=8, initial_share=0.2, identity_decay=0.7)
    ours = build_model(shape, 12, 4, seed=1)
    x = graph.features.clone().requires_grad_()
    y = graph.features.clone().requires_grad_()
    h0 = h = torch.relu(y @ ours.first.weight + ours.first.bias)
    for layer, weight in enumerate(ours.weights, start=1):
        theirs = dglnn.GCN2Conv(8, layer=layer, alpha=0.2, lambda_=0.7, bias=False)
        theirs.weight1.data.copy_(weight.data)
        h = torch.relu(theirs(as_dgl(graph), h, h0))
    same(ours(LocalGraph(graph).at(0, training=False), x), h @ ours.last.weight + ours.last.bias, x, y)


def test_sgc():
    graph = random_graph(features=12)
    ours = build_model(ModelSettings(name="sgc", layers=4, hidden=8), 12, 4, seed=1)
    theirs = dglnn.SGConv(12, 4, k=4, bias=True)
    theirs.fc.weight.data.copy_((ours.weight @ ours.last.weight).T)
    theirs.fc.bias.data.copy_(ours.last.bias)
    x = graph.features.clone().requires_grad_()
    y = graph.features.clone().requires_grad_()
    same(ours(LocalGraph(graph).at(0, training=False), x), theirs(as_dgl(graph), y), x, y)


def test_dagnn():
    """DGL has no class for it: hop by hop with its GraphConv, gates by hand."""
    graph = random_graph(features=12)
    ours = build_model(ModelSettings(name="dagnn", layers=5, hidden=8), 12, 4, seed=1)
    hop = dglnn.GraphConv(4, 4, norm="both", weight=False, bias=False)
    x = graph.features.clone().requires_grad_()
    y = graph.features.clone().requires_grad_()
    h = torch.relu(y @ ours.first.weight + ours.first.bias) @ ours.second.weight + ours.second.bias
    hops = [h]
    for _ in range(5):
        hops.append(hop(as_dgl(graph), hops[-1]))
    stacked = torch.stack(hops, 1)
    gates = torch.sigmoid(stacked @ ours.gate.weight + ours.gate.bias)
    same(ours(LocalGraph(graph).at(0, training=False), x), (gates * stacked).sum(1), x, y)


@pytest.mark.parametrize("jump", ["cat", "max", "lstm"])
def test_jknet(jump):
    graph = random_graph(features=12)
    ours = build_model(ModelSettings(name="jknet", layers=3, hidden=8, jump=jump, norm="none"), 12, 4, seed=1)
    x = graph.features.clone().requires_grad_()
    y = graph.features.clone().requires_grad_()
    h, seen = y, []
    for convolution in ours.convolutions:
        theirs = dglnn.GraphConv(h.shape[1], 8, norm="both")
        theirs.weight.data.copy_(convolution.weight.data)
        h = torch.relu(theirs(as_dgl(graph), h))
        seen.append(h)
    join = dglnn.JumpingKnowledge(jump, in_feats=8, num_layers=3) if jump == "lstm" else dglnn.JumpingKnowledge(jump)
    if jump == "lstm":
        join.lstm.load_state_dict(ours.lstm.state_dict())
        join.att.weight.data.copy_(ours.score.weight.data.T)
        join.att.bias.data.copy_(ours.score.bias.data)
    same(ours(LocalGraph(graph).at(0, training=False), x), join(seen) @ ours.last.weight + ours.last.bias, x, y)


def same(mine, other, x, y):
    torch.testing.assert_close(mine, other, **TOLERANCE)
    direction = torch.randn(mine.shape, generator=torch.Generator().manual_seed(1))
    mine.backward(direction)
    other.backward(direction)
    torch.testing.assert_close(x.grad, y.grad, **TOLERANCE)


def check(graph, ours, theirs, pairs):
    x = graph.features.clone().requires_grad_()
    y = graph.features.clone().requires_grad_()
    same(ours(LocalGraph(graph).at(0, training=False), x), theirs(as_dgl(graph), y), x, y)
    for own_name, other_name in pairs:
        gradient = theirs.get_parameter(other_name).grad
        own = ours.get_parameter(own_name).grad
        torch.testing.assert_close(
            own, gradient if gradient.shape == own.shape and "fc" not in other_name else gradient.T
        )
