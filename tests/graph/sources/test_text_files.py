"""Text files of METIS, DIMACS and Pajek."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gnnqlab.graph import load
from tests.cases import each
from tests.graph.sources.files import links

RING = [(0, 1), (0, 3), (1, 2), (2, 3)]


@each(
    ("text", "weights"),
    [
        ("% a comment\n5 4\n2 4\n1 3\n2 4\n3 1\n\n", False),
        ("5 4 1\n2 7 4 1\n1 7 3 1\n2 1 4 1\n3 1 1 1\n\n", True),
        ("5 4 10\n9 2 4\n9 1 3\n9 2 4\n9 3 1\n9\n", False),
        ("5 4 011 2\n8 9 2 7 4 1\n8 9 1 7 3 1\n8 9 2 1 4 1\n8 9 3 1 1 1\n8 9\n", True),
        ("5 4 100\r\n6 2 4\r\n6 1 3\r\n6 2 4\r\n% between\r\n6 3 1\r\n6\r\n\r\n", False),
    ],
)
def test_metis_formats(tmp_path: Path, text: str, weights: bool) -> None:
    (tmp_path / "ring.graph.gz").write_bytes(gzip.compress(text.encode()))
    g = load(tmp_path / "ring.graph.gz")
    assert (g.name, g.num_nodes, links(g), g.edge_weights is not None) == ("ring", 5, RING, weights)
    assert load(tmp_path / "ring.graph.gz", deduplicate=False).num_edges == 2 * 4 + 5
    assert (len(g.notes) == 2) == ("8 9" in text or "\n9" in text or "\n6" in text)


@each(
    ("text", "error"),
    [
        ("a b\n", r"must start with the numbers of nodes and edges, as METIS's format, got 'a b'; save"),
        ("2 1\n2\n", r"must have a line for each of 2 nodes, got 1; correct"),
        ("2 1\n1\n0\n", r"must be numbers from 1 to 2, got 0 for node 2; count nodes from 1"),
        ("2 1 1\n2 5\n1\n", r"line 3 of .* must list neighbours and weights in turn, got '1'; correct"),
        ("2 2\n2\n1\n", r"must list each of 2 edges for both of its nodes, got 2 neighbours; correct"),
        ("2 1 7\n2\n1\n", r"must be three digits of 0 and 1, got 007; correct"),
    ],
)
def test_malformed_metis_file_is_refused(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "a.graph").write_text(text)
    with pytest.raises(ValueError, match=error):
        load(tmp_path / "a.graph")


def test_metis_weights_of_two_directions_must_agree(tmp_path: Path) -> None:
    (tmp_path / "a.graph").write_text("2 1 1\n2 5\n1 6\n")
    with pytest.raises(ValueError, match="must have one weight, got 5 and 6"):
        load(tmp_path / "a.graph")


def test_dimacs(tmp_path: Path) -> None:
    (tmp_path / "ring.col").write_text("c a comment\np edge 5 4\ne 1 2\ne 2 3\ne 3 4\ne 4 1\nn 1 2\n")
    g = load(tmp_path / "ring.col")
    assert (g.num_nodes, links(g), g.edge_weights) == (5, RING, None) and g.notes[1] == "left out: lines of n"
    (tmp_path / "road.gr").write_text("p sp 2 2\na 1 2 803\na 2 1 803\n")
    weights = load(tmp_path / "road.gr").edge_weights
    assert weights is not None and weights.tolist() == [1, 803, 803, 1]


@each("text", ["p edge 2 1\ne 1 3\n", "p edge 2 1\ne 1 b\n", "e 1 2\n"])
def test_malformed_dimacs_line_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.col").write_text(text)
    with pytest.raises(
        ValueError, match=rf"line {1 + text.count('p')} of .* must be 'p KIND NODES EDGES'.*; save other"
    ):
        load(tmp_path / "a.col")


def test_pajek(tmp_path: Path) -> None:
    text = '*Network x\n*Vertices 4\n1 "ann lee" 0.1 0.2 ellipse\n2 ben\n\n% no\n*Edges\n1 2 2.5\n*arcslist\n2 3 4\n'
    (tmp_path / "a.net").write_text(text.replace("\n", "\r\n"))
    g = load(tmp_path / "a.net")
    assert g.ids is not None and g.ids.tolist() == ["ann lee", "ben", "3", "4"]
    assert links(g) == [(0, 1), (1, 2), (1, 3)] and (g.num_features, g.num_classes) == (0, 0)
    assert g.edge_weights is not None and g.edge_weights.max() == 2.5
    assert load(tmp_path / "a.net", symmetrize=False, self_loops="remove").num_edges == 4


def test_pajek_names_used_twice_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.net").write_text('*Vertices 2\n1 "a"\n2 "a"\n*Edges\n1 2\n')
    g = load(tmp_path / "a.net")
    assert (g.num_nodes, g.ids) == (2, None) and "several nodes" in g.notes[1]


@each(
    "text", ["*Vertices 2\n*Edges\n1 3\n", "*Vertices 2\n*Matrix\n0 1\n", "*Vertices 2\n*Arcs\n1 b\n", "*Edges\n1 2\n"]
)
def test_pajek_line_that_is_wrong_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.net").write_text(text)
    with pytest.raises(ValueError, match=r"line [23] of .* must be part of Pajek's .*; correct it"):
        load(tmp_path / "a.net")
