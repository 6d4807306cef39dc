"""Graphs in .npz files: the real ones, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from gnnqlab.graph import SparseRows, load
from tests.cases import each
from tests.steps import steps

EDGES = {"num_nodes": 3, "edge_src": np.array([0, 1]), "edge_dst": np.array([1, 2])}


def write(path: Path, **arrays: object) -> Path:
    np.savez(path, **{**EDGES, **arrays})
    return path


# Counts of undirected edges and facts are those of MANIFEST.md in the same folder.
@each(
    ("name", "nodes", "undirected", "width", "classes", "split", "max_degree"),
    [
        ("pcg", 3_233, 37_351, 32, 15, (1_939, 647, 647), 479),
        ("tolokers", 11_758, 519_000, 10, 2, (5_879, 2_939, 2_940), 2_138),
        ("coauthor_physics", 34_493, 247_962, 8_415, 5, None, 382),
        ("amazon_computers", 13_752, 245_861, 767, 10, None, 2_992),
        ("cora", 2_708, 5_278, 1_433, 7, (140, 500, 1_000), 168),
        ("citeseer", 3_327, 4_552, 3_703, 6, (120, 500, 1_000), 99),
        ("pubmed_nofeat", 19_717, 44_324, 0, 3, (60, 500, 1_000), 171),
        ("ego_twitter", 81_306, 1_342_296, 0, 0, (0, 0, 0), 3_383),
    ],
)
def test_real_graphs_have_their_sizes(
    shared: Path,
    name: str,
    nodes: int,
    undirected: int,
    width: int,
    classes: int,
    split: tuple[int, int, int] | None,
    max_degree: int,
) -> None:
    g = load(shared / f"{name}.npz")
    assert (g.name, g.num_nodes, g.num_features, g.num_classes) == (name, nodes, width, classes)
    assert g.num_edges == 2 * undirected + nodes  # both directions, and a self loop each
    assert int(g.in_degrees.max()) == max_degree + 1
    if split is None:
        split = (round(0.6 * nodes), round(0.2 * nodes), nodes - round(0.6 * nodes) - round(0.2 * nodes))
    assert tuple(int(m.sum()) for m in (g.train_mask, g.val_mask, g.test_mask)) == split


def test_load_runs_no_python_loop_over_edges(shared: Path) -> None:
    # 25 000 to 65 000 instructions were counted for files of 4 552 to 1 342 296 edges.
    assert 0 < steps(lambda: load(shared / "ego_twitter.npz")) < 200_000


def test_real_multi_label(shared: Path) -> None:
    g = load(shared / "pcg.npz")
    assert g.multi_label and g.labels.dtype == torch.uint8
    assert float(g.labels.float().sum(1).mean()) == pytest.approx(1.93, abs=0.01)


def test_real_sparse_features(shared: Path) -> None:
    g = load(shared / "coauthor_physics.npz")
    assert isinstance(g.features, SparseRows) and g.features.num_values == 1_137_311
    assert float(g.features.values.max()) == 98


def test_public_layout_of_tolokers_is_the_same_graph(shared: Path) -> None:
    raw = load(shared / "raw" / "heterophilous" / "tolokers.npz")
    assert raw.content_hash == load(shared / "tolokers.npz").content_hash


def test_layout_of_pitfalls(tmp_path: Path) -> None:
    from scipy.sparse import csr_array

    adjacency = csr_array(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]]))
    attributes = csr_array(np.array([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]]))
    np.savez(
        tmp_path / "g.npz",
        adj_data=adjacency.data,
        adj_indices=adjacency.indices,
        adj_indptr=adjacency.indptr,
        attr_data=attributes.data,
        attr_indices=attributes.indices,
        attr_indptr=attributes.indptr,
        attr_shape=attributes.shape,
        labels=np.array([0, 1, 1]),
        node_names=np.array(["a", "b", "c"], dtype=object),  # pickled, as in the public files; never read
    )
    g = load(tmp_path / "g.npz")
    assert g.num_edges == 7 and g.features.to_dense().tolist() == [[0, 2], [1, 0], [0, 0]]


def test_own_layout_unsorted_sparse_rows(tmp_path: Path) -> None:
    path = write(
        tmp_path / "g.npz",
        feat_indptr=np.array([0, 2, 2, 3]),
        feat_indices=np.array([1, 0, 1], dtype=np.int32),
        feat_values=np.array([5.0, 4.0, 6.0], dtype=np.float32),
        feat_dim=2,
    )
    assert load(path).features.to_dense().tolist() == [[4, 5], [0, 0], [0, 6]]


def test_edge_rules_and_seed(tmp_path: Path) -> None:
    path = write(tmp_path / "g.npz", label=np.array([0, 1, -1]))
    assert load(path).num_edges == 7
    assert load(path, symmetrize=False).num_edges == 5
    assert load(path, symmetrize=False, self_loops="remove").num_edges == 2
    # Only labelled nodes are split.
    assert sorted([*load(path, seed=3).train_idx.tolist(), *load(path, seed=3).val_idx.tolist()]) in ([0], [0, 1], [1])
    assert not bool(load(path).test_mask[2])


def test_one_unlabelled_split_node_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "g.npz", label=np.array([0, 1, -1]), train_idx=np.array([0, 2]))
    with pytest.raises(ValueError, match="every node of a split must have a label, got 1 unlabelled nodes in train"):
        load(path)


def test_malformed_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", a=np.zeros(2))
    with pytest.raises(ValueError, match=r"other must hold its edges once: edge_index, .*, got a"):
        load(tmp_path / "other.npz")
    (tmp_path / "text.npz").write_text("no zip")
    with pytest.raises(ValueError, match=r"text.npz must be a .npz of plain arrays: "):
        load(tmp_path / "text.npz")
    path = write(tmp_path / "half.npz", feat_indptr=np.array([0, 0, 0, 0]))
    with pytest.raises(ValueError, match=r"half.npz must be a .npz of plain arrays: .*feat_"):
        load(path)
    path = write(tmp_path / "pickled.npz", label=np.array([print, print, print], dtype=object))
    with pytest.raises(ValueError, match=r"pickled.npz must be a .npz of plain arrays: .*allow_pickle"):
        load(path)
    path = write(tmp_path / "range.npz", edge_src=np.array([0, 9]))
    with pytest.raises(ValueError, match=r"src must hold node ids in \[0, 3\), got 9 at position 1"):
        load(path)
