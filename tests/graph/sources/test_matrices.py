"""Sparse matrices in files: Matrix Market and MATLAB."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csr_array

from gnnqlab.graph import load
from tests.cases import each
from tests.graph.sources.files import links

HEAD = "%%MatrixMarket matrix coordinate"
PATH = csr_array(np.eye(4, k=1) + np.eye(4, k=-1))


def test_matrix_market_with_weights(tmp_path: Path) -> None:
    (tmp_path / "road.mtx.gz").write_bytes(
        gzip.compress(f"{HEAD} real symmetric\n% a\n3 3 2\n2 1 0.5\n3 2 4\n".encode())
    )
    g = load(tmp_path / "road.mtx.gz")
    assert (g.name, links(g)) == ("road", [(0, 1), (1, 2)])
    assert g.edge_weights is not None and sorted(set(g.edge_weights.tolist())) == [0.5, 1, 4]
    assert load(tmp_path / "road.mtx.gz", drop_edge_data=True).edge_weights is None


@each(
    ("text", "error"),
    [
        (f"{HEAD} pattern general\n2 3 1\n1 3\n", r"must be square, .* got shape \(2, 3\); for nodes of two kinds"),
        (f"{HEAD} complex general\n2 2 1\n1 2 1 2\n", "must hold real numbers, got complex128; pass its magnitudes"),
        ("no matrix\n", r"a.mtx must be a matrix in Matrix Market format: \w"),
    ],
)
def test_unusable_matrix_market_is_refused(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "a.mtx").write_text(text)
    with pytest.raises(ValueError, match=error):
        load(tmp_path / "a.mtx")


def test_facebook_layout(tmp_path: Path) -> None:
    info = np.array([[1, 0, 5, 5, 5, 5, 5], [1, 1, 5, 5, 5, 5, 5], [2, 2, 6, 5, 5, 5, 5], [2, 2, 7, 5, 5, 5, 5]])
    savemat(tmp_path / "Rice.mat", {"A": PATH.tocsc(), "local_info": info})
    g = load(tmp_path / "Rice.mat")
    assert (g.name, links(g), g.labels.tolist()) == ("Rice", [(0, 1), (1, 2), (2, 3)], [-1, 0, 1, 1])
    assert np.asarray(g.features)[:, :5].tolist() == [
        [1, 0, 1, 0, 0],
        [1, 0, 1, 0, 0],
        [0, 1, 0, 1, 0],
        [0, 1, 0, 0, 1],
    ]
    assert "gender" in g.notes[0]


@each(
    "arrays",
    [
        {"Network": PATH, "Attributes": csr_array(np.eye(4)), "Label": np.array([[1.0], [2], [1], [2]])},
        {"anything": PATH, "X": np.eye(4), "y": np.array([1, 2, 1, 2])},
        {"edge_index": np.array([[0, 1, 2], [1, 2, 3.0]]), "node_feat": np.eye(4), "label": np.array([[1, 2, 1, 2]])},
    ],
)
def test_named_arrays_in_a_mat_file(tmp_path: Path, arrays: dict[str, Any]) -> None:
    savemat(tmp_path / "a.mat", arrays)
    g = load(tmp_path / "a.mat")
    assert links(g) == [(0, 1), (1, 2), (2, 3)] and np.asarray(g.features).tolist() == np.eye(4).tolist()
    assert g.labels.tolist() == [0, 1, 0, 1] and g.class_names == (1, 2)


def test_suitesparse_structure(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"Problem": {"A": PATH, "title": "a path"}})
    assert links(load(tmp_path / "a.mat")) == [(0, 1), (1, 2), (2, 3)]


def test_unclear_mat_files_are_refused(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"one": PATH, "two": PATH})
    with pytest.raises(ValueError, match="must hold one square sparse matrix, got one, two; read it with"):
        load(tmp_path / "a.mat")
    savemat(tmp_path / "b.mat", {"A": PATH, "trainset_3": np.ones(4)})
    with pytest.raises(ValueError, match="must have a usual name, got trainset_3, which"):
        load(tmp_path / "b.mat")
    (tmp_path / "c.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    with pytest.raises(ValueError, match="must be a MATLAB file of version 7 or older, got version 7.3"):
        load(tmp_path / "c.mat")
    (tmp_path / "d.mat").write_bytes(b"none")
    with pytest.raises(ValueError, match="d.mat must be a MATLAB file"):
        load(tmp_path / "d.mat")
