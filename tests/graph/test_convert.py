"""Conversion of DGL and PyTorch Geometric objects to graphs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gnnqlab.graph import Graph, SparseRows, from_dgl, from_pyg, to_dgl
from tests.cases import each

EDGES = torch.tensor([[0, 1, 2, 2], [1, 2, 3, 2]])
X = torch.arange(8.0).reshape(4, 2)
Y = torch.tensor([0, 1, 0, 1])
TRAIN = torch.tensor([True, True, False, False])
VAL = torch.tensor([False, False, True, False])
TEST = torch.tensor([False, False, False, True])


def expected() -> Graph:
    return Graph.from_edges(
        EDGES[0], EDGES[1], num_nodes=4, features=X, labels=Y, train_idx=TRAIN, val_idx=VAL, test_idx=TEST
    )


def pyg(**changes: Any) -> SimpleNamespace:
    given = {"edge_index": EDGES, "num_nodes": 4, "x": X, "y": Y}
    masks = {"train_mask": TRAIN, "val_mask": VAL, "test_mask": TEST}
    return SimpleNamespace(**{**given, **masks, **changes})


def dgl_graph(names: tuple[str, str] = ("feat", "label")) -> Any:
    dgl = pytest.importorskip("dgl", reason="DGL is not installed")
    g = dgl.graph((EDGES[0], EDGES[1]), num_nodes=4)
    g.ndata[names[0]], g.ndata[names[1]] = X, Y
    g.ndata["train_mask"], g.ndata["val_mask"], g.ndata["test_mask"] = TRAIN, VAL, TEST
    return g


@each("names", [("feat", "label"), ("features", "labels"), ("x", "y")])
def test_dgl(names: tuple[str, str]) -> None:
    assert from_dgl(dgl_graph(names)).content_hash == expected().content_hash


def test_dgl_by_key_and_by_tensor() -> None:
    g = dgl_graph(("mine", "label"))
    assert from_dgl(g).num_features == 0
    assert from_dgl(g, features="mine").content_hash == expected().content_hash
    assert from_dgl(g, features=X, labels=Y).content_hash == expected().content_hash
    with pytest.raises(ValueError, match="features must be a key of ndata, got 'other'; there are mine, label"):
        from_dgl(g, features="other")


def test_dgl_edges_as_they_are() -> None:
    g = from_dgl(dgl_graph(), symmetrize=False, deduplicate=False, self_loops="keep")
    src, dst = g.edge_list()
    assert sorted(zip(src.tolist(), dst.tolist())) == sorted(zip(*EDGES.tolist()))


@each("sparse", [False, True])
def test_to_dgl_and_back(sparse: bool) -> None:
    pytest.importorskip("dgl", reason="DGL is not installed")
    one = expected()
    if sparse:
        one = replace(one, features=SparseRows.from_dense(X))
    back = from_dgl(to_dgl(one), symmetrize=False, deduplicate=False, self_loops="keep", name=one.name)
    assert back.content_hash == expected().content_hash
    directed = Graph.from_edges([0, 1], [1, 2], num_nodes=3, symmetrize=False, self_loops="keep")
    bare = to_dgl(directed)
    assert sorted(bare.ndata) == ["test_mask", "train_mask", "val_mask"]
    assert [end.tolist() for end in bare.edges()] == [[0, 1], [1, 2]]


def test_dgl_refuses_other_things() -> None:
    with pytest.raises(TypeError, match="from_dgl takes a dgl.DGLGraph, got list"):
        from_dgl([])
    several = SimpleNamespace(edges=None, num_nodes=None, ndata=None, is_homogeneous=False)
    with pytest.raises(TypeError, match="one node and one edge type, got several; use dgl.to_homogeneous"):
        from_dgl(several)


def test_pyg() -> None:
    assert from_pyg(pyg()).content_hash == expected().content_hash
    # Class numbers in one column, as OGB stores them, whole floats included.
    assert from_pyg(pyg(y=Y[:, None])).content_hash == expected().content_hash
    assert from_pyg(pyg(y=Y[:, None].double())).content_hash == expected().content_hash


def test_pyg_several_splits() -> None:
    masks = {key: torch.stack([~mask, mask], 1) for key, mask in (("train_mask", TRAIN), ("val_mask", VAL))}
    data = pyg(**masks, test_mask=torch.stack([TEST, TEST], 1))
    assert from_pyg(data, split=1).content_hash == expected().content_hash
    with pytest.raises(ValueError, match=r"split must be in \[0, 2\), the number of splits in the masks, got 2"):
        from_pyg(data, split=2)


def test_pyg_without_anything_but_edges() -> None:
    g = from_pyg(SimpleNamespace(edge_index=EDGES))
    assert (g.num_nodes, g.num_features, g.num_classes, g.has_split) == (4, 0, 0, False)


def test_pyg_without_split_gets_a_random_one() -> None:
    g = from_pyg(pyg(train_mask=None, val_mask=None, test_mask=None), seed=1)
    assert [len(part) for part in (g.train_idx, g.val_idx, g.test_idx)] == [2, 1, 1]


def test_pyg_refuses_other_things() -> None:
    with pytest.raises(TypeError, match=r"homogeneous graph with edge_index of shape \(2, M\), got SimpleNamespace"):
        from_pyg(SimpleNamespace(edge_index_dict={}))


@each("drop", [False, True])
def test_dgl_edge_values_are_not_dropped_in_silence(drop: bool) -> None:
    g = dgl_graph()
    g.edata["_ID"], g.edata["w"] = torch.arange(4), torch.ones(4, 1)
    assert from_dgl(g).content_hash == expected().content_hash  # weights of 1 and DGL's own data have no effect
    g.edata["w"] = torch.tensor([1.0, 1.0, 1.0, 0.5])
    if drop:
        assert from_dgl(g, drop_edge_data=True).content_hash == expected().content_hash
    else:
        with pytest.raises(ValueError, match="from_dgl takes one weight per edge .*, got w; .*drop_edge_da"):
            from_dgl(g)


@each("key", ["edge_attr", "edge_type"])
def test_pyg_edge_values_are_not_dropped_in_silence(key: str) -> None:
    data = pyg(**{key: torch.tensor([0.5, 1.0, 1.0, 1.0])})
    with pytest.raises(ValueError, match=f"from_pyg takes one weight per edge .*, got {key}; "):
        from_pyg(data)
    assert from_pyg(data, drop_edge_data=True).content_hash == expected().content_hash
    assert from_pyg(pyg(**{key: None})).content_hash == expected().content_hash
    assert from_pyg(pyg(**{key: torch.ones(4)})).content_hash == expected().content_hash


@each("keys", [["edge_index", "edge_attr"], lambda: ["edge_index", "edge_attr"]])
def test_pyg_keys_are_read_as_a_property_or_a_method(keys: Any) -> None:
    """``Data.keys`` is a method, and was a property."""
    with pytest.raises(ValueError, match="got edge_attr"):
        from_pyg(pyg(keys=keys, edge_attr=torch.rand(4)))
