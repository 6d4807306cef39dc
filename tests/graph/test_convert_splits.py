"""Splits of graphs of other libraries: usual names are used, unclear values are refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from gnnqlab.graph import Graph, from_networkx, from_pyg
from tests.cases import each

MASKS = [np.arange(4) < 2, np.arange(4) == 2, np.arange(4) == 3]
IDS = [[0, 1], [2], [3]]


def data(**attributes: Any) -> SimpleNamespace:
    return SimpleNamespace(
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), x=torch.ones(4, 2), y=torch.tensor([0, 1, 0, 1]), **attributes
    )


@each(
    "attributes",
    [
        dict(zip(("train_mask", "val_mask", "test_mask"), map(torch.from_numpy, MASKS))),
        dict(zip(("train_mask", "valid_mask", "test_mask"), (mask.astype(float) for mask in MASKS))),
        dict(zip(("train_idx", "valid_idx", "test_idx"), map(torch.tensor, IDS))),
        dict(zip(("idx_train", "idx_val", "idx_test"), IDS)),
        dict(zip(("trainMask", "validationMask", "testMask"), (mask.astype(int) for mask in MASKS))),
        {"split_idx": dict(zip(("train", "valid", "test"), map(torch.tensor, IDS)))},
        {"split": torch.tensor([0, 0, 1, 2])},
        {"splits": ["train", "train", "valid", "test"]},
    ],
)
def test_split_is_found_by_usual_names(attributes: dict[str, Any]) -> None:
    g = from_pyg(data(**attributes))
    assert [g.train_idx.tolist(), g.val_idx.tolist(), g.test_idx.tolist()] == IDS
    assert not any("random" in note or "left out" in note for note in g.notes)


@each(
    ("attributes", "text"),
    [
        ({"split": torch.tensor([1, 1, 2, 3])}, r"split must be 0 for training, .*, got only \[1, 2, 3\]; remove it"),
        ({"split": torch.tensor([0, 0, 1, 1])}, r"split must be 0 for training, .*, got only \[0, 1\]; remove it"),
        ({"split": ["train", "train", "hold", "test"]}, r"split must be train, val, .*, got 'hold'; remove it"),
        ({"split_idx": {"fold0": [0]}}, r"split_idx must have the keys train, valid and test, got fold0"),
        ({"train_mask": torch.tensor([0, 1, 2, 1])}, r"train_mask must be 0 or 1 for each of 4 nodes, got 2; remove"),
        ({"train_mask": torch.tensor([1, 1])}, r"train_mask must be 0 or 1 for each of 4 nodes, got 2 values; remove"),
        ({"train_idx": [0.5]}, r"train_idx must hold node numbers, got 0.5; remove it"),
        ({"train_idx": ["a"]}, r"train_idx must be a mask or hold node numbers, got <U1; remove it"),
        ({"train_mask": MASKS[0], "train_idx": [0]}, r"must have one split, got train_mask, train_idx; remove all but"),
    ],
)
def test_unclear_split_is_refused_by_name(attributes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        from_pyg(data(**attributes))


def test_split_of_words_on_the_nodes_of_networkx() -> None:
    nx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = nx.path_graph(4)
    for node, word in enumerate(("train", "train", "valid")):
        graph.nodes[node].update(split=word)
    g = from_networkx(graph, labels=[0, 1, 0, 1])
    assert [g.train_idx.tolist(), g.val_idx.tolist(), g.test_idx.tolist()] == [[0, 1], [2], []]
    assert "split: from split" in g.notes


def test_numbers_called_x_and_y_in_networkx_are_noted() -> None:
    nx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = nx.path_graph(4)
    for node in graph:
        graph.nodes[node].update(x=float(node), y=node % 2)
    assert any("x, one number, is the feature of nodes and y the class" in note for note in from_networkx(graph).notes)


def test_edge_types_are_refused_unless_there_is_one() -> None:
    assert from_pyg(data(edge_type=torch.zeros(3))).num_edges == 10
    with pytest.raises(ValueError, match="got edge_type; use"):
        from_pyg(data(edge_type=torch.tensor([0, 1, 0])))


@each("field", ["features", "labels", "edge_weights", "edge_features", "train_idx", "src", "dst"])
def test_masked_values_are_refused(field: str) -> None:
    values: dict[str, Any] = {"src": [0, 1], "dst": [1, 2], "train_idx": [0, 1], "labels": [0, 1, 1]}
    values |= {"features": np.ones((3, 2)), "edge_weights": [1.0, 2.0], "edge_features": [1.0, 2.0]}
    assert Graph.from_edges(**{**values, field: np.ma.array(values[field])}, num_nodes=3)  # a mask that hides nothing
    hidden = np.ma.array(values[field])
    hidden[-1] = np.ma.masked
    with pytest.raises(TypeError, match=rf"{field.replace('_', '.')} must have a value everywhere, got a masked array"):
        Graph.from_edges(**{**values, field: hidden}, num_nodes=3)


def test_masked_words_are_refused() -> None:
    words = np.ma.array(["a", "b", "c"], mask=[False, False, True])
    with pytest.raises(TypeError, match="labels must have a value everywhere, got a masked array with 1 hidden values"):
        Graph.from_edges([0, 1], [1, 2], num_nodes=3, labels=words)
