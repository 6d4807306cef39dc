"""Weights of edges: from lists and other libraries to a ``Graph``, under edge rules, to disk and back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gnnqlab as gq
from gnnqlab.graph import Graph
from tests.cases import each
from tests.graph.test_edges import brute_force

SRC, DST, WEIGHTS = [0, 1, 2], [1, 2, 0], [0.5, 2.0, 0.25]
DENSE = np.array([[0, 0.5, 0], [0, 0, 2.0], [0.25, 0, 0]])


def dense(graph: Graph) -> np.ndarray:
    """Return the matrix whose entry (u, v) is the weight of u -> v; parallel edges are added."""
    matrix = np.zeros((graph.num_nodes, graph.num_nodes))
    src, dst = graph.edge_list()
    weights = torch.ones(graph.num_edges) if graph.edge_weights is None else graph.edge_weights
    np.add.at(matrix, (src.numpy(), dst.numpy()), weights.double().numpy())
    return matrix


def expected(**rules: Any) -> Graph:
    return Graph.from_edges(SRC, DST, num_nodes=3, edge_weights=WEIGHTS, **rules)


@st.composite
def weighted_lists(draw: st.DrawFn) -> tuple[int, dict[tuple[int, int], float], list[int]]:
    """Return nodes, a weight for each unordered pair, and the number of its edges in either direction."""
    num_nodes = draw(st.integers(1, 7))
    node = st.integers(0, num_nodes - 1)
    weight = st.sampled_from([0.0, 0.25, 1.0, 3.0])
    pairs = draw(st.dictionaries(st.tuples(node, node).map(lambda ends: tuple(sorted(ends))), weight, max_size=12))
    return num_nodes, pairs, draw(st.lists(st.integers(-2, 2), min_size=len(pairs), max_size=len(pairs)))


def test_lost_weights_are_in_the_notes() -> None:
    kept = Graph.from_edges([0, 0, 1], [0, 1, 2], num_nodes=3, edge_weights=[3, 0.5, 0], self_loops="keep")
    assert kept.notes == ("1 edges of weight 0 were left out",)
    assert "1 self loops with other weights than 1 were replaced" in kept.with_edge_rules(self_loops="add").notes[1]


@given(weighted_lists(), st.booleans(), st.booleans(), st.sampled_from(["add", "keep", "remove"]))
def test_matches_brute_force(drawn: Any, symmetrize: bool, deduplicate: bool, self_loops: str) -> None:
    num_nodes, pairs, times = drawn
    edges = [(u, v) if often > 0 else (v, u) for (u, v), often in zip(pairs, times) for _ in range(abs(often))]
    weights = [pairs[u, v] if (u, v) in pairs else pairs[v, u] for u, v in edges]
    graph = Graph.from_edges(
        [u for u, _ in edges], [v for _, v in edges], num_nodes=num_nodes, edge_weights=weights,
        symmetrize=symmetrize, deduplicate=deduplicate, self_loops=self_loops,  # type: ignore[arg-type]
    )  # fmt: skip
    there = [edge for edge, weight in zip(edges, weights) if weight]
    src, dst = graph.edge_list()
    stored = list(zip(dst.tolist(), src.tolist()))
    assert stored == brute_force(num_nodes, there, symmetrize, deduplicate, self_loops)
    found = [1.0] * len(stored) if graph.edge_weights is None else graph.edge_weights.tolist()
    for (v, u), weight in zip(stored, found):
        added = u == v and self_loops == "add"
        assert weight == (1.0 if added else pairs[min(u, v), max(u, v)])
    assert not symmetrize or Graph(**graph._fields()).is_symmetric  # checked again


def test_weighted_degrees_are_sums() -> None:
    graph = expected(symmetrize=False)
    matrix = DENSE + np.eye(3)
    assert np.allclose(dense(graph), matrix)
    assert graph.weighted_in_degrees.tolist() == matrix.sum(0).tolist()
    assert graph.weighted_out_degrees.tolist() == matrix.sum(1).tolist()
    plain = graph.without_edge_weights()
    assert plain.weighted_in_degrees is plain.in_degrees and plain.weighted_out_degrees is plain.out_degrees


def test_symmetry_is_about_weights_too() -> None:
    both = {"num_nodes": 2, "symmetrize": False, "self_loops": "remove"}
    assert Graph.from_edges([0, 1], [1, 0], edge_weights=[0.5, 0.5], **both).is_symmetric
    uneven = Graph.from_edges([0, 1], [1, 0], edge_weights=[0.5, 2.0], **both)
    assert not uneven.is_symmetric and uneven.without_edge_weights().is_symmetric
    parallel = {**both, "deduplicate": False}
    graph = Graph.from_edges([0, 0, 1, 1], [1, 1, 0, 0], edge_weights=[0.5, 2.0, 2.0, 0.5], **parallel)
    assert graph.is_symmetric
    swapped = Graph(**{**graph._fields(), "edge_weights": graph.edge_weights[[1, 0, 2, 3]].contiguous()})
    assert swapped.is_symmetric  # symmetry does not depend on the order of parallel edges


def test_weights_of_one_are_none_and_weights_enter_the_hash() -> None:
    plain = Graph.from_edges(SRC, DST, num_nodes=3)
    ones = Graph.from_edges(SRC, DST, num_nodes=3, edge_weights=np.ones(3))
    assert ones.edge_weights is None and ones.content_hash == plain.content_hash
    weighted = expected()
    other = Graph.from_edges(SRC, DST, num_nodes=3, edge_weights=[0.5, 2.0, 0.26])
    assert len({plain.content_hash, weighted.content_hash, other.content_hash}) == 3
    assert weighted.without_edge_weights().content_hash == plain.content_hash
    assert repr(weighted).startswith("Graph('graph', nodes=3, edges=9 with weights, ")
    assert weighted.describe()["edge_weights"] and not plain.describe()["edge_weights"]
    assert weighted.nbytes == plain.nbytes + 4 * 9


@each("mmap", [False, True])
def test_weights_survive_the_disk_and_other_rules(tmp_path: Any, mmap: bool) -> None:
    weighted = expected(labels=[0, 1, 1])
    again = Graph.load(weighted.save(tmp_path / "graph"), mmap=mmap)
    assert torch.equal(again.edge_weights, weighted.edge_weights) and again.content_hash == weighted.content_hash
    assert again.with_edge_rules(self_loops="remove").edge_weights.tolist() == [0.5, 0.25, 0.5, 2.0, 0.25, 2.0]
    assert torch.equal(again.with_split([0]).edge_weights, weighted.edge_weights)
    assert gq.load(tmp_path / "graph").content_hash == weighted.content_hash
    bare = Graph.load(weighted.without_edge_weights().save(tmp_path / "bare"), mmap=mmap)
    assert bare.edge_weights is None


def dgl(**edata: Any) -> Any:
    ends = torch.tensor(SRC), torch.tensor(DST)
    return SimpleNamespace(edges=lambda: ends, num_nodes=lambda: 3, ndata={}, edata=edata)


def pyg(**values: Any) -> Any:
    return SimpleNamespace(edge_index=torch.tensor([SRC, DST]), num_nodes=3, **values)


@each("dtype", [torch.float64, torch.float32, torch.float16])
def test_of_dgl_and_pyg(dtype: torch.dtype) -> None:
    weights, truth = torch.tensor(WEIGHTS, dtype=dtype), expected().content_hash
    assert gq.load(dgl(weight=weights)).content_hash == truth
    assert gq.from_dgl(dgl(w=weights[:, None]), edge_weights="w").content_hash == truth
    assert gq.from_dgl(dgl(), edge_weights=weights).content_hash == truth
    assert gq.load(pyg(edge_weight=weights)).content_hash == truth
    assert gq.from_pyg(pyg(edge_attr=weights), edge_weights="edge_attr").content_hash == truth
    kept = gq.from_pyg(pyg(edge_attr=weights, edge_type=[3, 4, 5]), edge_weights="edge_attr", drop_edge_data=True)
    assert kept.content_hash == truth
    assert gq.load(dgl(weight=weights), drop_edge_data=True).edge_weights is None
    with pytest.raises(ValueError, match="edge_weights must name values that edges have, got 'w'; there are weight"):
        gq.from_dgl(dgl(weight=weights), edge_weights="w")


def test_of_networkx() -> None:
    nx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(zip(SRC, DST, WEIGHTS))
    assert gq.load(graph).content_hash == expected().content_hash
    assert gq.load(graph.to_undirected()).content_hash == expected().content_hash
    assert np.allclose(dense(gq.from_networkx(graph, symmetrize=False, self_loops="keep")), DENSE)
    named = nx.relabel_nodes(graph, {0: "a"})
    for _, _, values in named.edges(data=True):
        values["length"], values["weight"] = values.pop("weight"), "May"
    found = gq.from_networkx(named, edge_weights="length", drop_edge_data=True)
    assert found._replace(ids=None).content_hash == expected().content_hash
    assert "a" in found.ids.tolist()


def test_of_scipy() -> None:
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    for kind in ("coo_array", "csr_matrix", "lil_array"):
        found = gq.load(getattr(sparse, kind)(DENSE), symmetrize=False, self_loops="keep")
        assert np.allclose(dense(found), DENSE)
    assert gq.load(sparse.csr_array(DENSE)).content_hash == expected().content_hash


def test_of_files(tmp_path: Any) -> None:
    rows = "\n".join(f"{u},{v},{w}" for u, v, w in zip(SRC, DST, WEIGHTS))
    (tmp_path / "roads.csv").write_text("src,dst,weight\n" + rows)
    np.savez(tmp_path / "roads.npz", num_nodes=3, edge_src=SRC, edge_dst=DST, edge_weight=WEIGHTS)
    for suffix in ("csv", "npz"):
        assert gq.load(tmp_path / f"roads.{suffix}").content_hash == expected().content_hash
    (tmp_path / "nodes.csv").write_text("label\n0\n1\n0\n")
    assert gq.from_tables(tmp_path / "roads.csv", tmp_path / "nodes.csv").edge_weights is not None


def test_to_dgl_takes_them_along() -> None:
    pytest.importorskip("dgl", reason="DGL is not installed")
    graph = expected()
    made = graph.to_dgl()
    assert torch.equal(made.edata["weight"], graph.edge_weights)
    assert gq.load(made).content_hash == graph.content_hash


@each(
    ("weights", "error", "text"),
    [
        ([1, -0.5, 1], ValueError, r"finite and not negative \(0: no edge\), got -0.5 on the edge 1 -> 2: conv"),
        ([1, 1, float("nan")], ValueError, "finite and not negative .*, got nan on the edge 2 -> 0"),
        ([1, float("inf"), 1], ValueError, "got inf on the edge 1 -> 2"),
        ([1, 1e39, 1], ValueError, r"got 1e\+39 on the edge 1 -> 2"),  # infinite in float32
        ([1, 1], ValueError, r"must be one for each of 3 edges, got shape \(2,\)"),
        (np.ones((3, 2)), ValueError, r"must be one for each of 3 edges, got shape \(3, 2\)"),
        (["a", "b", "c"], TypeError, "edge weights must be numbers, got list that holds <U1"),
        ([1, 2, 2j], TypeError, "edge weights must be numbers, got list that holds complex"),
    ],
)
def test_weights_that_are_refused(weights: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Graph.from_edges(SRC, DST, num_nodes=3, edge_weights=weights)


def test_an_edge_with_several_weights_is_refused_with_the_ways_out() -> None:
    ends = {"src": [0, 0, 1], "dst": [1, 1, 0], "num_nodes": 2, "self_loops": "remove"}
    with pytest.raises(ValueError, match="must have one weight, got 1 and 2 for 0 -> 1; symmetrize=False keeps"):
        Graph.from_edges(**ends, edge_weights=[1, 2, 3], symmetrize=False)
    with pytest.raises(ValueError, match="must have one weight, got 1 and 3 for 1 -> 0; symmetrize=False keeps"):
        Graph.from_edges(**ends, edge_weights=[1, 1, 3])
    apart = Graph.from_edges(**ends, edge_weights=[1, 1, 3], symmetrize=False)
    assert dense(apart).tolist() == [[0, 1], [3, 0]]
    every = Graph.from_edges(**ends, edge_weights=[1, 2, 3], deduplicate=False)
    assert dense(every).tolist() == [[0, 6], [6, 0]]


@each(
    ("wrong", "text"),
    [
        (lambda w: w.double(), "edge_weights must be a one-dimensional float32 tensor, got float64"),
        (lambda w: w[:2], "edge_weights must be one for each of 9 edges, got 2"),
        (lambda w: w.index_fill(0, torch.tensor([1]), 0.0), "finite and above 0, got 0.0 on the edge 1 -> 0; Graph.fr"),
        (lambda w: w.index_fill(0, torch.tensor([8]), float("nan")), "above 0, got nan on the edge 2 -> 2"),
        (lambda w: w.index_fill(0, torch.tensor([4]), -1.0), "above 0, got -1.0 on the edge 1 -> 1"),
    ],
)
def test_a_graph_is_checked_when_it_is_made(wrong: Any, text: str) -> None:
    graph = expected()
    with pytest.raises((TypeError, ValueError), match=text):
        Graph(**{**graph._fields(), "edge_weights": wrong(graph.edge_weights)})
