"""Features of edges: from lists and other libraries to a ``Graph``, under edge rules, to disk and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gnnqlab as gq
from gnnqlab.graph import Graph
from tests.cases import each
from tests.graph.test_edges import brute_force
from tests.graph.test_weighted_edges import DST, SRC, pyg
from tests.graph.test_weighted_edges import dgl as dgl_like

ROWS = [[0.5, 1.0], [2.0, -3.0], [0.25, 7.0]]
ONE = [row[0] for row in ROWS]


def expected(**rules: Any) -> Graph:
    return Graph.from_edges(SRC, DST, num_nodes=3, edge_features=ROWS, **rules)


def by_ends(graph: Graph) -> list[tuple[int, int, tuple[float, ...]]]:
    """Return ``(destination, source, features)`` of the stored edges, in their order."""
    assert graph.edge_features is not None
    src, dst = graph.edge_list()
    return [(v, u, tuple(row)) for v, u, row in zip(dst.tolist(), src.tolist(), graph.edge_features.tolist())]


@st.composite
def lists(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], dict[tuple[int, int], float], bool]:
    """Return nodes, edges with repetitions, a weight for each unordered pair, and True if weights are given."""
    num_nodes = draw(st.integers(1, 6))
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=14))
    weights = {pair: draw(st.sampled_from([0.0, 0.5, 1.0, 3.0])) for pair in {tuple(sorted(edge)) for edge in edges}}
    return num_nodes, edges, weights, draw(st.booleans())


@given(lists(), st.booleans(), st.booleans(), st.sampled_from(["add", "keep", "remove"]))
def test_features_go_where_their_edges_go(drawn: Any, symmetrize: bool, deduplicate: bool, self_loops: str) -> None:
    num_nodes, edges, weights, weighted = drawn
    features = {pair: (1.0 + number, -2.0 * number) for number, pair in enumerate(sorted(weights))}
    graph = Graph.from_edges(
        [u for u, _ in edges], [v for _, v in edges], num_nodes=num_nodes,
        edge_weights=[weights[tuple(sorted(edge))] for edge in edges] if weighted else None,
        edge_features=np.array([features[tuple(sorted(edge))] for edge in edges]).reshape(-1, 2),
        symmetrize=symmetrize, deduplicate=deduplicate, self_loops=self_loops,  # type: ignore[arg-type]
    )  # fmt: skip
    there = [edge for edge in edges if not weighted or weights[tuple(sorted(edge))]]
    found = by_ends(graph)
    assert [(v, u) for v, u, _ in found] == brute_force(num_nodes, there, symmetrize, deduplicate, self_loops)
    for v, u, row in found:
        assert row == ((0.0, 0.0) if u == v and self_loops == "add" else features[tuple(sorted((u, v)))])
    if graph.edge_weights is not None:
        for (v, u, _), weight in zip(found, graph.edge_weights.tolist()):
            assert weight == (1.0 if u == v and self_loops == "add" else weights[tuple(sorted((u, v)))])


def test_lost_features_of_self_loops_are_in_the_notes() -> None:
    edges: Any = {"src": [0, 1, 0], "dst": [0, 1, 1], "num_nodes": 2, "edge_features": [[7.0, 0], [0, 0], [1, 1]]}
    added, removed, kept = (Graph.from_edges(**edges, self_loops=rule) for rule in ("add", "remove", "keep"))
    assert added.notes == ("features of 1 self loops were replaced by zeros; self_loops='keep' keeps them",)
    assert "features of 1 self loops were removed" in removed.notes[0]
    assert kept.notes == ()


def test_directions_and_parallel_edges_keep_their_own() -> None:
    apart = Graph.from_edges([0, 1], [1, 0], num_nodes=2, edge_features=[5, 6], symmetrize=False, self_loops="remove")
    assert by_ends(apart) == [(0, 1, (6.0,)), (1, 0, (5.0,))] and apart.is_symmetric
    several = Graph.from_edges(
        [0, 0, 0], [1, 1, 1], num_nodes=2, edge_features=[7, 5, 6], edge_weights=[2.0, 1.0, 2.0],
        symmetrize=False, deduplicate=False, self_loops="remove",
    )  # fmt: skip
    assert by_ends(several) == [(1, 0, (5.0,)), (1, 0, (7.0,)), (1, 0, (6.0,))]  # by weight, then by the given order
    assert several.edge_weights is not None and several.edge_weights.tolist() == [1.0, 2.0, 2.0]


@each(
    ("given", "error", "text"),
    [
        ([1.0, np.nan, 0.0], ValueError, "edge features must be finite, got nan in column 0 of the edge 1 -> 2; "),
        ([1.0, 1e39, 0.0], ValueError, "within the range of float32, .* got 1e.39 in column 0 of the edge 1 -> 2; "),
        ([1.0, np.inf, 0.0], ValueError, "edge features must be finite, got inf in column 0 of the edge 1 -> 2"),
        ([1.0, 2.0], ValueError, r"a row of at least one number for each of 3 edges, got shape \(2,\); give them in"),
        (np.ones((3, 0)), ValueError, r"at least one number for each of 3 edges, got shape \(3, 0\)"),
        (["a", "b", "c"], TypeError, "edge features must be numbers, got list that holds <U1"),
    ],
)
def test_invalid_edge_features_raise_an_error(given: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Graph.from_edges(SRC, DST, num_nodes=3, edge_features=given)


def test_merged_duplicate_edge_must_have_identical_features() -> None:
    text = r"kept once must have one row of features, got \[1, 2\] and \[1, 3\] for 1 -> 0; symmetrize=False keeps"
    with pytest.raises(ValueError, match=text):
        Graph.from_edges([0, 1], [1, 0], num_nodes=2, edge_features=[[1, 2], [1, 3]])
    assert Graph.from_edges([0, 1], [1, 0], num_nodes=2, edge_features=[[1, 2], [1, 2]]).num_edges == 4


def test_the_constructor_checks_them() -> None:
    fields = expected()._fields()
    for wrong, error, text in [
        (torch.ones(8, 2), ValueError, r"a row of at least one number for each of 9 edges, got shape \(8, 2\); Graph"),
        (torch.ones(9, 2, dtype=torch.float64), TypeError, "edge_features"),
        (torch.ones(9, 2).index_fill_(0, torch.tensor(4), float("inf")), ValueError, "got inf in .* edge 1 -> 1; repl"),
    ]:
        with pytest.raises(error, match=text):
            Graph(**{**fields, "edge_features": wrong})


def test_they_enter_hash_size_and_words() -> None:
    plain, featured = Graph.from_edges(SRC, DST, num_nodes=3), expected()
    other = Graph.from_edges(SRC, DST, num_nodes=3, edge_features=[*ROWS[:2], [0.25, 8.0]])
    assert len({plain.content_hash, featured.content_hash, other.content_hash}) == 3
    assert featured.without_edge_features().content_hash == plain.content_hash
    assert featured.nbytes == plain.nbytes + 4 * 9 * 2
    assert repr(featured).startswith("Graph('graph', nodes=3, edges=9 with 2 features, ")
    assert (featured.describe()["edge_features"], plain.describe()["edge_features"]) == (2, 0)
    assert (featured.num_edge_features, plain.num_edge_features) == (2, 0)


@each("mmap", [False, True])
def test_they_survive_the_disk_and_other_rules(tmp_path: Any, mmap: bool) -> None:
    featured = expected(labels=[0, 1, 1], edge_weights=[1.0, 2.0, 3.0])
    again = Graph.load(featured.save(tmp_path / "graph"), mmap=mmap)
    assert by_ends(again) == by_ends(featured) and again.content_hash == featured.content_hash
    bare = again.with_edge_rules(self_loops="remove")
    assert by_ends(bare) == [edge for edge in by_ends(featured) if edge[0] != edge[1]]
    assert by_ends(bare.with_edge_rules(self_loops="add", symmetrize=True, deduplicate=True)) == by_ends(featured)
    assert by_ends(again.with_split([0])) == by_ends(featured) == by_ends(gq.load(tmp_path / "graph"))
    assert again.without_edge_weights().edge_features is not None
    assert again.without_edge_features().edge_weights is not None


def networkx(kind: Any = nx.Graph) -> Any:
    graph = kind()
    graph.add_nodes_from(range(3))
    for u, v, row in zip(SRC, DST, ROWS):
        graph.add_edge(u, v, attr=row, length=row[0])
    return graph


def test_other_libraries_by_name() -> None:
    whole, rows = expected().content_hash, torch.tensor(ROWS)
    assert gq.from_dgl(dgl_like(feat=rows), edge_features="feat").content_hash == whole
    assert gq.from_dgl(dgl_like(), edge_features=rows).content_hash == whole
    columns = {"length": rows[:, 0], "height": rows[:, 1]}
    assert gq.from_dgl(dgl_like(**columns), edge_features=["length", "height"]).content_hash == whole
    assert gq.load(pyg(edge_attr=rows), edge_features="edge_attr").content_hash == whole
    for kind in (nx.Graph, nx.DiGraph):
        made = gq.from_networkx(networkx(kind), edge_features="attr", drop_edge_data=True)
        assert made.content_hash == whole
    both = gq.load(networkx(), edge_features=["attr", "length"])
    assert both.num_edge_features == 3 and both.edge_features[:, 2].tolist() == both.edge_features[:, 0].tolist()
    weighted = gq.from_pyg(pyg(edge_attr=rows, edge_weight=torch.tensor(ONE)), edge_features="edge_attr")
    assert by_ends(weighted) == by_ends(expected()) and weighted.edge_weights is not None


def test_weights_by_their_usual_name_can_be_features() -> None:
    graph = gq.from_pyg(pyg(edge_weight=torch.tensor(ONE)), edge_features="edge_weight")
    assert graph.edge_weights is None and graph.num_edge_features == 1


def test_there_and_back_through_dgl() -> None:
    pytest.importorskip("dgl", reason="DGL is not installed")
    featured = expected(symmetrize=False)
    rules: dict[str, Any] = {"symmetrize": False, "self_loops": "keep"}
    assert gq.from_dgl(featured.to_dgl(), edge_features="feat", **rules).content_hash == featured.content_hash


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_and_arrays(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = pd.DataFrame({"src": SRC, "dst": DST, "length": ONE, "height": [row[1] for row in ROWS]})
    path, named = tmp_path / f"edges{suffix}", ["length", "height"]
    table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
    whole = expected().content_hash
    assert gq.from_tables(path, edge_features=named).content_hash == whole
    assert gq.load(path, edge_features=named).content_hash == gq.load(tmp_path, edge_features=named).content_hash
    with pytest.raises(ValueError, match=r"got length, height; .*edge_features=\['length', 'height'\] to use them"):
        gq.load(path)
    with pytest.raises(ValueError, match="got height; "):
        gq.load(path, edge_features="length")
    empty = table.assign(length=[0.5, None, 0.25])
    with pytest.raises(ValueError, match="column length .* is an edge feature, which must not be empty"):
        gq.from_tables(empty, edge_features=named)
    np.savez(tmp_path / "graph.npz", num_nodes=3, edge_src=SRC, edge_dst=DST, edge_feat=ROWS)
    assert gq.load(tmp_path / "graph.npz").content_hash == whole


def test_unknown_or_incomplete_edge_feature_names_raise_value_error() -> None:
    with pytest.raises(ValueError, match="must name values that edges have, each once, got 'length'; there are edge"):
        gq.load(pyg(edge_attr=torch.ones(3, 1)), edge_features="length")
    with pytest.raises(ValueError, match="each once, got 'edge_attr'"):
        gq.load(pyg(edge_attr=torch.ones(3, 1)), edge_features=["edge_attr", "edge_attr"])
    holey = networkx()
    del holey.edges[1, 2]["attr"]
    with pytest.raises(ValueError, match=r"'attr' must be on every edge, got 1 of 3 edges without it, .* \(1, 2\)"):
        gq.load(holey, edge_features="attr", drop_edge_data=True)
    holey.edges[1, 2]["attr"] = [1.0]
    with pytest.raises(ValueError, match=r"as many numbers on every edge, got shapes \(1,\) and \(2,\)"):
        gq.load(holey, edge_features="attr", drop_edge_data=True)


def test_sources_without_names_refuse_them(tmp_path: Path) -> None:
    from scipy.sparse import coo_array

    np.savez(tmp_path / "graph.npz", num_nodes=3, edge_src=SRC, edge_dst=DST, edge_feat=ROWS)
    matrix = coo_array(([1, 1], ([0, 1], [1, 2])), shape=(3, 3))
    for source, text in [
        ("digits", "another library's graph, got 'feat' for digits; pass"),
        (expected(), "got 'feat' for graph 'graph'; pass features to gnnqlab.Graph.from_edges"),
        (matrix, "got 'feat' for a square scipy.sparse adjacency, which has one number per edge; pass"),
        (tmp_path / "graph.npz", "in a table or a DGL file, got 'feat' for .*graph.npz; leave it out"),
        (expected().save(tmp_path / "saved"), "got 'feat' for .*saved; leave it out"),
    ]:
        with pytest.raises(ValueError, match=text):
            gq.load(source, edge_features="feat")
