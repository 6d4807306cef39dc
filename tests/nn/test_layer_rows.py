"""Input rows of layers: of every model, of one with bare weights, and of one of torch's modules."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from scipy import sparse
from torch import Tensor, nn

from gnnqlab.graph import Graph
from gnnqlab.graph.arguments import as_features
from gnnqlab.nn import GraphPass, LocalGraph, ModelSettings, build_model
from gnnqlab.nn.layer_rows import layer_rows
from tests.graphs import random_graph

GRAPH = LocalGraph(random_graph(nodes=41, edges=90, features=7, classes=3, directed=True))
# Columns of the rows that each layer takes: 7 features, 5 hidden, 3 classes, over 3 layers or hops.
WIDTHS = {
    "gcn": [7, 5, 5],
    "graphsage": [7, 5, 5],
    "gat": [7, 5, 5],
    "gcnii": [7, 5, 5, 5, 5],
    "jknet": [7, 5, 5, 15],
    "sgc": [7, 5],
    "dagnn": [7, 5, 3, 3, 3, 3],
}


@torch.no_grad()
@pytest.mark.parametrize("name", WIDTHS)
def test_the_layers_of_every_model(name: str) -> None:
    model = build_model(ModelSettings(name=name, layers=3, hidden=5), 7, 3, seed=1).eval()
    widths = WIDTHS[name]
    hooks = [list(module._forward_pre_hooks) for module in model.modules()]
    rows = [layer_rows(model, GRAPH, layer) for layer in range(len(widths))]
    assert [each.shape[1] for each in rows] == widths
    assert all(not torch.equal(one, other) for one, other in pairwise(rows))
    assert torch.equal(rows[0], GRAPH.features) and rows[0].data_ptr() != GRAPH.features.data_ptr()
    for layer, each in enumerate(rows):
        assert torch.equal(layer_rows(model, GRAPH, layer - len(widths)), each)
    with pytest.raises(ValueError, match=rf"one of -{len(widths)} to {len(widths) - 1}, got {len(widths)}"):
        layer_rows(model, GRAPH, len(widths))
    assert [list(module._forward_pre_hooks) for module in model.modules()] == hooks  # no hook is left


@torch.no_grad()
@pytest.mark.parametrize("name", ["gcnii", "jknet", "sgc"])
def test_the_last_rows_make_the_logits(name: str) -> None:
    model = build_model(ModelSettings(name=name, layers=3, hidden=5), 7, 3, seed=1).eval()
    logits = model(GRAPH.open_pass(0, training=False), GRAPH.features)
    found = layer_rows(model, GRAPH, -1) @ model.last.weight + model.last.bias
    torch.testing.assert_close(found, logits, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_sparse_features_are_made_dense() -> None:
    graph = random_graph(features=20)
    dense = torch.where(graph.features > 1, graph.features, 0.0)
    rows = as_features(sparse.csr_matrix(dense.numpy()), len(dense))
    model = build_model(ModelSettings(name="gcn", layers=2, hidden=5), 20, 4, seed=1).eval()
    assert torch.equal(layer_rows(model, LocalGraph(Graph(**{**graph._fields(), "features": rows})), 0), dense)


class Bare(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(7, 4, generator=torch.Generator().manual_seed(1)))
        self.v = nn.Parameter(torch.randn(4, 3, generator=torch.Generator().manual_seed(2)))

    def forward(self, g: GraphPass, x: Tensor) -> Tensor:
        return g.aggregate(g.linear(torch.relu_(g.aggregate(g.linear(x, self.w))), self.v))


class Torchs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(7, 4), nn.LayerNorm(4), nn.Linear(4, 3)

    def forward(self, g: GraphPass, x: Tensor) -> Tensor:
        h = self.norm(g.aggregate(self.first(x)))
        logits: Tensor = self.last(h)
        h.zero_()  # rows that were recorded before do not change
        return logits


@torch.no_grad()
def test_models_of_bare_weights_and_of_torchs_modules() -> None:
    bare, torchs = Bare().eval(), Torchs().eval()
    assert [layer_rows(bare, GRAPH, layer).shape[1] for layer in (0, 1)] == [7, 4]
    rows = layer_rows(torchs, GRAPH, -1)
    logits = torchs(GRAPH.open_pass(0, training=False), GRAPH.features)
    assert rows.shape == (41, 4) and torch.equal(torchs.last(rows), logits)
    with pytest.raises(ValueError, match=r"one of -2 to 1, got -3"):
        layer_rows(torchs, GRAPH, -3)


class Sums(nn.Module):
    def forward(self, g: GraphPass, x: Tensor) -> Tensor:
        return g.aggregate(x)


def test_a_model_without_products_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must multiply rows with g\.linear, .*, got none that does"):
        layer_rows(Sums(), GRAPH, -1)
