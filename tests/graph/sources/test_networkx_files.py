"""GraphML, GML and GEXF, read by networkx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gnnqlab.graph import Graph, load
from tests.cases import each
from tests.graph.sources.files import links

nx = pytest.importorskip("networkx", reason="networkx is not installed")
WRITERS = {
    "a.graphml": nx.write_graphml,
    "a.graphml.gz": nx.write_graphml,
    "a.gml": nx.write_gml,
    "a.gexf": nx.write_gexf,
}
NAMES = ["ännchen", "ben", "cleo", "dora"]


def ring(**attributes: list[Any]) -> Any:
    graph = nx.relabel_nodes(nx.cycle_graph(4), dict(enumerate(NAMES)))
    for key, values in attributes.items():
        nx.set_node_attributes(graph, dict(zip(NAMES, values)), key)
    return graph


def named_links(graph: Graph) -> set[frozenset]:
    return {frozenset((graph.id_of(u), graph.id_of(v))) for u, v in links(graph)}


@each("name", WRITERS)
def test_ids_and_notes(tmp_path: Path, name: str) -> None:
    WRITERS[name](ring(value=[0, 1, 0, 1]), tmp_path / name)
    g = load(tmp_path / name)
    assert g.name == "a" and g.ids is not None and sorted(g.ids.tolist()) == sorted(NAMES)
    assert named_links(g) == {frozenset(edge) for edge in ring().edges}
    assert any("left out" in note and "value" in note for note in g.notes)


@each("name", ["a.graphml", "a.gml"])
def test_words_become_classes_and_weights_are_used(tmp_path: Path, name: str) -> None:
    graph = ring(y=["red", "blue", "red", "blue"])
    nx.set_edge_attributes(graph, 2.5, "weight")
    WRITERS[name](graph, tmp_path / name)
    g = load(tmp_path / name)
    assert g.class_names == ("blue", "red") and g.labels.tolist() == [1, 0, 1, 0]
    assert g.edge_weights is not None and set(g.edge_weights.tolist()) == {1, 2.5}


def test_number_of_an_edge_is_no_value_of_it(tmp_path: Path) -> None:
    nx.write_graphml(nx.Graph([(0, 1, {"id": "e7"}), (1, 2, {"id": "e8"})]), tmp_path / "a.graphml")
    g = load(tmp_path / "a.graphml")
    assert links(g) == [(0, 1), (1, 2)]


@each(
    ("text", "ids"),
    [
        ("node [ id 1 ] node [ id 2 ] edge [ source 1 target 2 ] edge [ source 1 target 2 ]", [1, 2]),
        ('node [ id 5 label "a" ] node [ id 6 label "a" ] edge [ source 5 target 6 ]', [5, 6]),
        ('node [ id 5 label "ä" ] node [ id 6 label "b" ] edge [ source 5 target 6 ]', ["ä", "b"]),
    ],
)
@each("encoding", ["utf-8", "latin-1"])
def test_gml_of_other_programs(tmp_path: Path, text: str, ids: list, encoding: str) -> None:
    (tmp_path / "a.gml").write_bytes(f'Creator "x"\ngraph\n[ {text} ]'.replace(" node", "\nnode").encode(encoding))
    g = load(tmp_path / "a.gml")
    assert g.ids is not None and (g.ids.tolist(), links(g)) == (ids, [(0, 1)])


@each("name", ["a.graphml", "a.gml", "a.gexf"])
def test_damaged_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("none")
    with pytest.raises(ValueError, match=r"must be a file in the format G\w+, got \w+: .*; write it again"):
        load(tmp_path / name)
