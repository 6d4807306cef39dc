"""Folders in the layouts of GraphSAINT, Reddit and OGB, and files of DGL."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from gnnqlab.graph import load
from gnnqlab.graph.sources import ogb
from tests.cases import each
from tests.graph.sources import files


def undirected_edges() -> int:
    return int(files.adjacency().sum()) + files.NODES


def test_reddit(tmp_path: Path) -> None:
    g = load(files.write_reddit(tmp_path / "any"))
    assert g.num_edges == undirected_edges() and g.num_classes == 3
    assert g.train_idx.tolist() == list(range(0, 30, 3)) and g.test_idx.tolist() == list(range(2, 30, 3))
    assert np.allclose(g.features, files.features(), atol=1e-6)


@each("several", [False, True])
def test_graphsaint(tmp_path: Path, several: bool) -> None:
    g = load(files.write_graphsaint(tmp_path / "folder", several=several))
    assert (g.name, g.num_edges, g.multi_label, g.num_classes) == ("folder", undirected_edges(), several, 3)
    assert g.labels[1].tolist() == ([1, 1, 0] if several else 1)  # by id, not by the order of the file
    assert np.allclose(g.features, files.features() * 3 + 1, atol=1e-5)  # as they are stored
    assert [len(part) for part in (g.train_idx, g.val_idx, g.test_idx)] == [20, 5, 5]


def test_training_edges_of_graphsaint_are_compared_with_the_induced_ones(tmp_path: Path) -> None:
    folder = files.write_graphsaint(tmp_path / "g", several=False)
    assert not any("training edges" in note for note in load(folder).notes)
    matrix = files.adjacency().astype(np.float32)
    matrix[20:] = matrix[:, 20:] = 0  # nodes 0 to 19 are for training
    sparse.save_npz(folder / "adj_train.npz", sparse.csr_matrix(matrix))
    same = "training edges: protocol='inductive' trains on all edges between training nodes, as in adj_train.npz"
    assert same in load(folder).notes
    src, dst = matrix.nonzero()
    order = np.random.default_rng(0).permutation(len(src))
    sparse.save_npz(
        folder / "adj_train.npz", sparse.coo_matrix((matrix[src, dst][order], (src[order], dst[order])), matrix.shape)
    )
    assert same in load(folder).notes, "in any order"
    # As many edges, but others: one ends at a test node.
    dst[0] = 29
    sparse.save_npz(folder / "adj_train.npz", sparse.coo_matrix((np.ones(len(src)), (src, dst)), matrix.shape))
    (note,) = (note for note in load(folder).notes if "training edges" in note)
    count = int(matrix.sum())
    assert f"{count:,} in adj_full.npz, which are not the {count:,} of adj_train.npz; the latter are left out" in note


def test_yelp_is_standardized_by_its_training_nodes(tmp_path: Path) -> None:
    files.write_graphsaint(tmp_path / "data" / "yelp", several=True)
    g = load("yelp", root=tmp_path / "data")
    known = g.features[g.train_mask]
    assert torch.allclose(known.mean(0), torch.zeros(files.WIDTH), atol=1e-5)
    assert torch.allclose(known.std(0, correction=0), torch.ones(files.WIDTH), atol=1e-5)
    assert not torch.allclose(g.features.mean(0), torch.zeros(files.WIDTH), atol=1e-3)


def test_amazon_products_is_not_standardized(tmp_path: Path) -> None:
    files.write_graphsaint(tmp_path / "data" / "amazon-products", several=True)
    g = load("amazon-products", root=tmp_path / "data")
    assert g.name == "amazon-products" and np.allclose(g.features, files.features() * 3 + 1, atol=1e-5)


def test_graphsaint_errors(tmp_path: Path) -> None:
    folder = files.write_graphsaint(tmp_path / "g", several=False)
    (folder / "class_map.json").write_text(json.dumps({"99": 0}))
    with pytest.raises(ValueError, match=r"class_map.json .* must map node ids below 30 to numbers"):
        load(folder)
    (folder / "class_map.json").write_text("{")
    with pytest.raises(ValueError, match="GraphSAINT folder .* cannot be read: JSONDecodeError"):
        load(folder)
    (folder / "role.json").unlink()
    with pytest.raises(ValueError, match=r"a GraphSAINT folder must hold .*, .* lacks role.json"):
        load(folder)
    np.savez(folder / "adj_full.npz", a=np.zeros(1))
    (folder / "role.json").write_text("{}")
    with pytest.raises(ValueError, match=r"adj_full.npz must be a sparse matrix saved by scipy"):
        load(folder)


@each("binary", [False, True])
@each("place", ["ogbn_arxiv", "arxiv", "ogbn_arxiv/arxiv"])
def test_ogb_folder_by_name(tmp_path: Path, binary: bool, place: str) -> None:
    files.write_ogb(tmp_path / place, binary=binary)
    g = load("ogbn-arxiv", root=tmp_path)
    assert (g.name, g.num_edges, g.num_classes) == ("ogbn-arxiv", undirected_edges(), 3)
    assert int(g.labels[7]) == -1 and g.num_labelled == files.NODES - 1
    assert g.train_idx.tolist() == list(range(7)) and g.test_idx.tolist() == list(range(12, 20))
    assert np.allclose(g.features, files.features(), atol=2e-3 if binary else 1e-6)  # float16 has 11 bits


def test_ogb_folder_by_path(tmp_path: Path) -> None:
    g = load(files.write_ogb(tmp_path / "ogbn_mine"))
    assert g.name == "ogbn-mine"
    # The edge list is directed: without symmetrizing it stays directed.
    assert load(tmp_path / "ogbn_mine", symmetrize=False).num_edges == (undirected_edges() - 30) // 2 + 30


def test_ogb_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = files.write_ogb(tmp_path / "text")
    (folder / "raw" / "edge.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(ValueError, match=r"OGB file .*edge.csv.gz cannot be read"):
        load(folder)
    for file in (folder / "split" / "time").iterdir():
        file.unlink()
    files.write_ogb(tmp_path / "again", binary=True)
    monkeypatch.setattr(ogb, "_available_bytes", lambda: 1000)
    with pytest.raises(RuntimeError, match=r"needs about .*B of memory, .*B are available; build it once on a larger"):
        load(tmp_path / "again")
    monkeypatch.undo()
    (tmp_path / "again" / "split" / "time" / "train.csv.gz").unlink()
    with pytest.raises(ValueError, match=r"must hold one split/KIND/ with train, valid and test.csv.gz, .* has 0"):
        load(tmp_path / "again")


def test_dgl_file(tmp_path: Path) -> None:
    dgl = pytest.importorskip("dgl", reason="DGL is not installed")
    src, dst = np.nonzero(files.adjacency())
    g = dgl.graph((torch.from_numpy(src), torch.from_numpy(dst)), num_nodes=files.NODES)
    g.ndata["feat"] = torch.from_numpy(files.features()).float()
    g.ndata["label"] = torch.arange(files.NODES) % 3
    dgl.save_graphs(str(tmp_path / "one.bin"), [g])
    loaded = load(tmp_path / "one.bin")
    assert (loaded.name, loaded.num_edges, loaded.num_classes) == ("one", undirected_edges(), 3)
    g.edata["w"] = torch.rand(g.num_edges())
    dgl.save_graphs(str(tmp_path / "weighted.bin"), [g])
    with pytest.raises(ValueError, match=r"got w; use gnnqlab.load\(..., drop_edge_data=True\) to ignore these"):
        load(tmp_path / "weighted.bin")
    assert load(tmp_path / "weighted.bin", drop_edge_data=True).content_hash == loaded.content_hash
    dgl.save_graphs(str(tmp_path / "two.bin"), [g, g])
    with pytest.raises(ValueError, match=r"a DGL file must hold one graph, .*two.bin holds 2"):
        load(tmp_path / "two.bin")
    (tmp_path / "not.bin").write_bytes(b"not one")
    with pytest.raises(ValueError, match=r"not.bin must be a file written by dgl.save_graphs"):
        load(tmp_path / "not.bin")
