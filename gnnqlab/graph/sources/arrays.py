"""One ``.npz`` file per graph: edges, features, labels and splits as plain arrays.

Our layout has the keys ``num_nodes``; ``edge_src``, ``edge_dst``, ``edge_weight`` and
``edge_feat`` ``(M, F)``; ``feat``, or ``feat_indptr``, ``feat_indices``, ``feat_values`` and ``feat_dim``; ``label``;
``train_idx``, ``val_idx``, ``test_idx``. Only ``num_nodes``, ``edge_src`` and ``edge_dst`` are required. Two public
layouts are read as well: that of "A critical look at GNNs under heterophily" (Platonov et al., ICLR 2023) and that of
"Pitfalls of GNN evaluation" (Shchur et al., 2018).
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from gnnqlab.graph.convert.scipy_matrices import edges_of_scipy
from gnnqlab.graph.convert.splits import SPLIT_NAMES
from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.features import SparseRows
from gnnqlab.graph.sources.named_arrays import edges_of_arrays

__all__ = ["read_npz"]


def read_npz(path: Path, *, split: int = 0) -> EdgeList:
    """Read a graph from one ``.npz`` file without unpickling.

    Args:
        path: the file.
        split: number of the split, if the file has several.

    Raises:
        ValueError: if the file is not readable, has no known layout, or an array that is not used.
    """
    try:
        # Opened here: of a broken archive NumPy leaves its own file open.
        with open(path, "rb") as file:
            if (start := file.read(4)) not in (b"PK\3\4", b"PK\5\6", b"\x93NUM"):  # with files, empty, one array
                raise ValueError(
                    f"it begins with {start!r}, not with b'PK'; write it again with numpy.savez"
                )  # NumPy would call it pickled
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                if not isinstance(archive, np.lib.npyio.NpzFile):
                    raise ValueError("it holds one array")
                keys = set(archive.files)
                # A layout is recognized by its keys.
                for required_names, reader in _LAYOUTS:
                    if required_names <= keys and (reader is not _own or keys <= _OWN):
                        return reader(archive, path.stem, split)
                return _by_names(archive, path.stem, split)
    except (OSError, KeyError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(f"graph file {path} must be a .npz of plain arrays: {error}") from error


def _by_names(archive: Mapping[str, np.ndarray], name: str, split: int) -> EdgeList:
    """Read arrays by their usual names; our own split takes precedence over others in the same file."""
    own = [key for key in archive if key in _OWN and key in SPLIT_NAMES]
    others = [key for key in archive if key in SPLIT_NAMES and own and key not in own]
    edges = edges_of_arrays(name, {key: archive[key] for key in archive if key not in others}, split=split)
    if others:
        edges.notes = (*edges.notes, f"left out: {', '.join(others)}, since there is a split in {', '.join(own)}")
    return edges


def _own(archive: Mapping[str, np.ndarray], name: str, split: int) -> EdgeList:
    _refuse_split(split)
    features: object = archive.get("feat")
    if features is None and "feat_indptr" in archive:
        features = _sparse_rows(archive, "feat_indptr", "feat_indices", "feat_values", int(archive["feat_dim"]))
    return EdgeList(
        name=name,
        src=archive["edge_src"],
        dst=archive["edge_dst"],
        num_nodes=int(archive["num_nodes"]),
        edge_weights=archive.get("edge_weight"),
        edge_features=archive.get("edge_feat"),
        features=features,
        labels=archive.get("label"),
        train_idx=archive.get("train_idx"),
        val_idx=archive.get("val_idx"),
        test_idx=archive.get("test_idx"),
    )


def _heterophilous(archive: Mapping[str, np.ndarray], name: str, split: int) -> EdgeList:
    """Read edges ``(M, 2)`` and one of ten splits, stored as rows of masks."""
    count = len(np.atleast_2d(archive["train_masks"]))
    if not 0 <= split < count:
        raise ValueError(f"split must be in [0, {count}), the number of splits, got {split}")
    edges, features = archive["edges"], archive["node_features"]
    return EdgeList(
        name=name,
        src=edges[:, 0],
        dst=edges[:, 1],
        num_nodes=len(features),
        features=features,
        labels=archive["node_labels"].astype(np.int64),
        train_idx=np.atleast_2d(archive["train_masks"])[split].astype(bool),  # (splits, N) -> (N,)
        val_idx=np.atleast_2d(archive["val_masks"])[split].astype(bool),
        test_idx=np.atleast_2d(archive["test_masks"])[split].astype(bool),
        notes=(f"split: number {split} of {count}, split=K of gnnqlab.load chooses another",),
    )


def _pitfalls(archive: Mapping[str, np.ndarray], name: str, split: int) -> EdgeList:
    """Read adjacency and attributes from CSR arrays; the other arrays are pickled names, which are not read."""
    _refuse_split(split)
    indptr = archive["adj_indptr"]
    return EdgeList(
        name=name,
        src=np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)),  # (M,)
        dst=archive["adj_indices"],
        num_nodes=len(indptr) - 1,
        features=_sparse_rows(archive, "attr_indptr", "attr_indices", "attr_data", int(archive["attr_shape"][1])),
        labels=archive["labels"].astype(np.int64),
    )


_OWN = frozenset({
    "num_nodes", "edge_src", "edge_dst", "edge_weight", "edge_feat", "feat", "feat_indptr", "feat_indices",
    "feat_values", "feat_dim", "label", "train_idx", "val_idx", "test_idx",
})  # fmt: skip


def _sparse_matrix(archive: Mapping[str, np.ndarray], name: str, split: int) -> EdgeList:
    """Read an adjacency in CSR or CSC: of ``scipy.sparse.save_npz``, or as ``indptr`` and ``indices`` alone."""
    from scipy.sparse import csc_array, csr_array

    _refuse_split(split)
    others = sorted(set(archive) - {"indptr", "indices", "data", "format", "shape", "_is_array"})
    if others:
        raise ValueError(
            f"a sparse matrix must have the arrays indptr, indices and data alone, got {', '.join(others)}"
        )
    indptr, indices = archive["indptr"], archive["indices"]
    data = archive["data"] if "data" in archive else np.ones(len(indices))
    kind = archive["format"].item() if "format" in archive else b"csr"
    layout = csc_array if kind in (b"csc", "csc") else csr_array
    size = len(indptr) - 1
    shape = tuple(int(length) for length in archive["shape"]) if "shape" in archive else (size, size)
    return edges_of_scipy(layout((data, indices, indptr), shape=shape), name=name)


_LAYOUTS = (
    ({"indptr", "indices"}, _sparse_matrix),
    ({"num_nodes", "edge_src", "edge_dst"}, _own),
    ({"edges", "node_features", "node_labels", "train_masks", "val_masks", "test_masks"}, _heterophilous),
    ({"adj_indptr", "adj_indices", "attr_indptr", "attr_indices", "attr_data", "attr_shape", "labels"}, _pitfalls),
)


def _refuse_split(split: int) -> None:
    if split:
        raise ValueError(f"split must be 0 for a file with one split, got {split}")


def _sparse_rows(
    archive: Mapping[str, np.ndarray], indptr: str, indices: str, values: str, num_columns: int
) -> SparseRows:
    start, column = archive[indptr], archive[indices].astype(np.int32, copy=False)
    # One integer per value, with the row in front: strictly ascending if every row is sorted and without duplicates.
    is_ascending = (
        np.diff(column.astype(np.int64) + num_columns * np.repeat(np.arange(len(start) - 1), np.diff(start))) > 0
    )
    if not is_ascending.all():
        # scipy sorts rows and sums duplicates.
        from scipy.sparse import csr_array

        return SparseRows.from_scipy(csr_array((archive[values], column, start), shape=(len(start) - 1, num_columns)))
    return SparseRows(
        indptr=torch.from_numpy(start.astype(np.int64, copy=False)),
        indices=torch.from_numpy(column),
        values=torch.from_numpy(archive[values].astype(np.float32, copy=False)),
        num_columns=num_columns,
    )
