"""A saved graph is loaded unchanged; a damaged one is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from gnnqlab.graph import Graph, SparseRows, load, sbm
from gnnqlab.graph.storage import load_graph
from tests.cases import each


def graphs() -> list[Graph]:
    plain = sbm(50, 3, 4, features=5, seed=0)
    sparse = plain._replace(features=SparseRows.from_dense(plain.features * (plain.features > 1)), name="sparse")
    several = plain._replace(labels=torch.ones(50, 3, dtype=torch.uint8), name="several")
    bare = Graph.from_edges([0], [1], num_nodes=3, name="bare", symmetrize=False, self_loops="remove")
    named = plain._replace(ids=np.array([f"n{k}" for k in range(50)]), class_names=("a", 2, 0.5), notes=("read so",))
    numbered = plain._replace(ids=np.arange(50, dtype=np.uint64) + 2**63, name="numbered")
    return [plain, sparse, several, bare, named, numbered]


@each("mmap", [False, True, None])
@each("graph", graphs())
def test_round_trip(graph: Graph, mmap: bool | None, tmp_path: Path) -> None:
    path = graph.save(tmp_path / "deep" / "folder")
    again = Graph.load(path, mmap=mmap)
    assert again.content_hash == graph.content_hash
    assert (again.name, again.num_classes, again.is_symmetric) == (graph.name, graph.num_classes, graph.is_symmetric)
    for field, array in graph._arrays().items():
        assert torch.equal(again._arrays()[field], array)
    assert (again.class_names, again.notes) == (graph.class_names, graph.notes)
    assert again.index_of(graph.ids if graph.ids is not None else []).tolist() == [
        *range(50 if graph.ids is not None else 0)
    ]
    assert load(str(path)).content_hash == graph.content_hash
    assert load(path / "graph.json").content_hash == graph.content_hash
    assert sorted(file.name for file in path.parent.iterdir()) == ["folder"]  # no other file is left


def test_writes_to_a_mapped_graph_never_reach_the_file(tmp_path: Path) -> None:
    graph = graphs()[0]
    mapped = Graph.load(graph.save(tmp_path / "g"), mmap=True)
    assert isinstance(mapped.features, torch.Tensor)
    mapped.features.zero_()
    assert Graph.load(tmp_path / "g").content_hash == graph.content_hash


def test_saving_again_replaces(tmp_path: Path) -> None:
    first, second = graphs()[:2]
    first.save(tmp_path / "g")
    second.save(tmp_path / "g")
    assert Graph.load(tmp_path / "g").name == "sparse"


def test_saving_over_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(ValueError, match=r"a new folder or over a saved graph, got .*mine; choose another path"):
        graphs()[0].save(tmp_path / "mine")


def test_load_applies_the_requested_edge_rules(tmp_path: Path) -> None:
    path = graphs()[3].save(tmp_path / "g")  # one directed edge, no self loops
    assert load(path).num_edges == 1
    assert load(path, symmetrize=True).num_edges == 2
    assert load(path, self_loops="add").num_edges == 4


def test_damage_is_named(tmp_path: Path) -> None:
    path = graphs()[0].save(tmp_path / "g")
    labels = np.load(path / "labels.npy")
    np.save(path / "labels.npy", np.roll(labels, 1))
    with pytest.raises(ValueError, match="is damaged: its content hash is"):
        Graph.load(path)
    np.save(path / "labels.npy", labels[:-1])
    with pytest.raises(ValueError, match=r"labels.npy must hold int64 of shape \(50,\), got int64 of shape \(49,\)"):
        Graph.load(path)
    (path / "labels.npy").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"labels.npy cannot be read"):
        Graph.load(path, mmap=True)
    (path / "labels.npy").unlink()
    with pytest.raises(ValueError, match=r"is damaged: labels.npy is missing; save it again"):
        Graph.load(path)


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    path = graphs()[0].save(tmp_path / "g")
    np.save(path / "labels.npy", np.array([object] * 50, dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"labels.npy cannot be read: .*pickle"):
        Graph.load(path)


def test_not_a_saved_graph(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a saved graph is a folder with a graph.json, .* has none"):
        load_graph(Graph, tmp_path)
    path = graphs()[0].save(tmp_path / "g")
    header = json.loads((path / "graph.json").read_text())
    (path / "graph.json").write_text(json.dumps({**header, "version": 99}))
    with pytest.raises(ValueError, match="must be of format 'gnnqlab graph' version 1, .* version 99"):
        Graph.load(path)
