"""The single process against DGL's own layers on the same weights."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.nn import LocalGraph
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


def check(graph, ours, theirs, pairs):
    x = graph.features.clone().requires_grad_()
    y = graph.features.clone().requires_grad_()
    mine = ours(LocalGraph(graph).at(0, training=False), x)
    other = theirs(as_dgl(graph), y)
    torch.testing.assert_close(mine, other, **TOLERANCE)
    direction = torch.randn(mine.shape, generator=torch.Generator().manual_seed(1))
    mine.backward(direction)
    other.backward(direction)
    torch.testing.assert_close(x.grad, y.grad, **TOLERANCE)
    for own_name, other_name in pairs:
        gradient = theirs.get_parameter(other_name).grad
        own = ours.get_parameter(own_name).grad
        torch.testing.assert_close(
            own, gradient if gradient.shape == own.shape and "fc" not in other_name else gradient.T
        )
