"""Graphs of networkx: order of nodes, directions, parallel edges, attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gnnqlab.graph import Graph, from_networkx, load
from tests.cases import each

nx = pytest.importorskip("networkx", reason="networkx is not installed")


def entries(graph: Graph) -> np.ndarray:
    """Return the number of stored edges ``u -> v`` at row u and column v."""
    counts = np.zeros((graph.num_nodes, graph.num_nodes), dtype=np.int64)
    src, dst = graph.edge_list()
    np.add.at(counts, (src.numpy(), dst.numpy()), 1)
    return counts


def made(kind: Any) -> Any:
    """Return five nodes in an unusual order, one isolated, with a self loop and, if allowed, parallel edges."""
    graph = kind()
    graph.add_nodes_from(["c", "a", "e", "b", "d"])
    graph.add_edges_from([("a", "b"), ("b", "c"), ("c", "a"), ("d", "d"), ("a", "b")])
    return graph


@each("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_edges_as_they_are_and_as_the_papers_have_them(kind: Any) -> None:
    graph = made(kind)
    given = nx.to_numpy_array(graph, nodelist=list(graph.nodes), weight=None).astype(np.int64)
    assert given.max() == (2 if graph.is_multigraph() else 1)
    raw = from_networkx(graph, symmetrize=False, deduplicate=False, self_loops="keep")
    assert (entries(raw) == given).all()
    assert raw.is_symmetric is not graph.is_directed()
    usual = ((given + given.T) > 0).astype(np.int64)
    np.fill_diagonal(usual, 1)
    assert (entries(from_networkx(graph)) == usual).all()
    # An undirected graph has its edges in both directions already: they do not count twice.
    if not graph.is_directed():
        again = from_networkx(graph, symmetrize=True, deduplicate=False, self_loops="keep")
        assert again.content_hash == raw.content_hash


def attributed(**changes: Any) -> Any:
    graph = nx.path_graph(["c", "a", "b"])
    columns = {
        "x": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        "y": [1, 0, 1],
        "train_mask": [True, False, False],
        "test_mask": [False, True, True],
    }
    for key, values in {**columns, **changes}.items():
        nx.set_node_attributes(graph, dict(zip(graph.nodes, values)), key)
    return graph


def test_attributes_follow_the_order_of_nodes() -> None:
    g = from_networkx(attributed())
    assert g.features.tolist() == [[1, 2], [3, 4], [5, 6]] and g.labels.tolist() == [1, 0, 1]
    assert (g.train_idx.tolist(), g.val_idx.tolist(), g.test_idx.tolist()) == ([0], [], [1, 2])
    assert load(attributed()).content_hash == g.content_hash


def test_attributes_by_key_and_by_value() -> None:
    graph = attributed(age=[30, 40, 50], club=[0, 2, 1])
    g = from_networkx(graph, features="age", labels="club", num_classes=4)
    assert g.features.tolist() == [[30], [40], [50]] and g.labels.tolist() == [0, 2, 1] and g.num_classes == 4
    given = from_networkx(graph, features=torch.eye(3), labels=np.array([0, 1, 0]))
    assert given.features.tolist() == torch.eye(3).tolist() and given.labels.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="features must be a key of the nodes' attributes, got 'size'; there are x, y"):
        from_networkx(graph, features="size")


def test_words_are_classes_unless_each_node_has_its_own() -> None:
    graph = attributed(y=["red", "blue", "red"])
    found = from_networkx(graph)
    assert (found.class_names, found.labels.tolist()) == (("blue", "red"), [1, 0, 1])
    named = nx.path_graph(3)
    nx.set_node_attributes(named, dict(enumerate(["ann", "bob", "cem"])), "label")
    named = from_networkx(named)
    assert named.num_classes == 0
    assert any("attribute label, a different word on every node" in note for note in named.notes)


def test_coordinates_are_neither_features_nor_classes() -> None:
    graph = nx.path_graph(3)
    for node in graph:
        graph.nodes[node].update(x=0.5 + node, y=10.25 + node)
    found = from_networkx(graph)
    assert (found.num_features, found.num_classes) == (0, 0)
    assert any("looks like a coordinate" in note for note in found.notes)
    assert from_networkx(graph, features="x").num_features == 1


@each(
    ("changes", "error", "text"),
    [
        ({"x": [[1.0], [2.0]]}, ValueError, "'x' must be on every node, got 1 of 3 nodes without it, the first is 'b'"),
        ({"x": [[1.0], [2.0, 3.0], [4.0]]}, ValueError, "'x' must have as many numbers on every node, got 1 to 2"),
        ({"y": ["red", 1, "red"]}, TypeError, "'y' must hold numbers, got 'red' on node 'c'; .* counted from 0"),
    ],
)
def test_attributes_that_are_refused(changes: dict[str, Any], error: type[Exception], text: str) -> None:
    graph = nx.path_graph(["c", "a", "b"])
    for key, values in changes.items():
        nx.set_node_attributes(graph, dict(zip(graph.nodes, values)), key)
    with pytest.raises(error, match=text):
        from_networkx(graph)


def test_names() -> None:
    assert from_networkx(nx.path_graph(2), name="mine").name == "mine"
    assert from_networkx(nx.Graph([(0, 1)])).name == "networkx"
    assert from_networkx(nx.Graph([(0, 1)], name="club")).name == "club"


def test_values_of_edges_are_not_dropped_in_silence() -> None:
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=1)
    graph.add_edge(1, 2, weight=1)
    plain = from_networkx(graph)  # a weight of 1 has no effect
    graph[1][2]["weight"] = 3
    graph[0][1]["since"] = "May"
    with pytest.raises(ValueError, match="from_networkx takes one weight .*, got since; .*drop_edge"):
        from_networkx(graph)
    with pytest.raises(ValueError, match="got since"):
        load(graph)
    assert from_networkx(graph, drop_edge_data=True).content_hash == plain.content_hash
    assert load(graph, drop_edge_data=True).content_hash == plain.content_hash


def test_a_weight_on_some_edges_only_is_refused() -> None:
    graph = nx.Graph([(0, 1), (1, 2)])
    graph[0][1]["weight"] = 1
    with pytest.raises(
        ValueError, match="attribute 'weight' must be a number on every edge, .* got none on the edge 1 - 2"
    ):
        from_networkx(graph)


def test_other_things_are_refused() -> None:
    with pytest.raises(TypeError, match="from_networkx takes a networkx graph, got list"):
        from_networkx([])
