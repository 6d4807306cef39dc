"""Adjacency matrices of scipy in every format."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gnnqlab.graph import Graph, from_scipy, load
from tests.cases import each

sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
DENSE = np.array([[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 1, 0], [0, 0, 0, 0]])  # directed, a loop, an isolated node


@each("kind", ["coo", "csr", "csc", "lil", "dok", "dia", "bsr"])
@each("of", ["array", "matrix"])
@each("dtype", [np.int64, np.float32, bool])
def test_every_format(kind: str, of: str, dtype: Any) -> None:
    adjacency = getattr(sparse, f"{kind}_{of}")(DENSE.astype(dtype))
    src, dst = DENSE.nonzero()
    assert from_scipy(adjacency).content_hash == Graph.from_edges(src, dst, num_nodes=4).content_hash
    raw = from_scipy(adjacency, symmetrize=False, self_loops="keep")
    assert set(zip(*(end.tolist() for end in raw.edge_list()))) == set(zip(src.tolist(), dst.tolist()))
    assert load(adjacency).name == "scipy" and load(adjacency, name="mine").name == "mine"


def test_features_labels_and_split_are_those_of_from_edges() -> None:
    values = {"features": np.arange(8.0).reshape(4, 2), "labels": [0, 1, 2, -1]}
    split = {"train_idx": [0], "val_idx": [1], "test_idx": [2]}
    src, dst = DENSE.nonzero()
    expected = Graph.from_edges(src, dst, num_nodes=4, num_classes=5, **values, **split)
    found = from_scipy(sparse.csr_array(DENSE), num_classes=5, **values, **split)
    assert found.content_hash == expected.content_hash
    random = from_scipy(sparse.csr_array(DENSE), **values, seed=3)
    assert [len(part) for part in (random.train_idx, random.val_idx, random.test_idx)] == [2, 1, 0]
    assert not (random.train_mask | random.val_mask | random.test_mask)[3]  # node 3 has no label


def test_scipy_entries_become_edge_weights_unless_drop_edge_data() -> None:
    weighted = sparse.csr_array(DENSE * 0.5)
    assert set(from_scipy(weighted, self_loops="remove").edge_weights.tolist()) == {0.5}
    bare = from_scipy(sparse.csr_array(DENSE)).content_hash
    assert from_scipy(weighted, drop_edge_data=True).content_hash == bare
    assert load(weighted, drop_edge_data=True).content_hash == bare


def test_stored_zeros_are_no_edges_and_entries_stored_twice_are_parallel() -> None:
    stored = sparse.coo_array(([0, 1, 1], ([0, 0, 0], [1, 2, 2])), shape=(3, 3))
    g = from_scipy(stored, symmetrize=False, deduplicate=False, self_loops="keep")
    assert [end.tolist() for end in g.edge_list()] == [[0, 0], [2, 2]]
    stored = sparse.coo_array(([0.0, 0.5, 2.0], ([0, 0, 0], [1, 2, 2])), shape=(3, 3))
    g = from_scipy(stored, symmetrize=False, self_loops="keep")
    assert (g.indices.tolist(), g.edge_weights.tolist()) == ([0], [2.5])  # as scipy adds them
    assert stored.nnz == 3  # the argument is unchanged


@each(
    ("given", "error", "text"),
    [
        (sparse.csr_array((2, 3)), ValueError, r"adjacency matrix must be square, .* got shape \(2, 3\)"),
        ([[0, 1]], TypeError, "from_scipy takes a scipy.sparse matrix or array, got list"),
    ],
)
def test_other_things_are_refused(given: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        from_scipy(given)
