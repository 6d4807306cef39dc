"""Reader of Reddit posts (GraphSAGE's split) from DGL's archive, and of scipy adjacency matrices without pickle."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from gnnqlab.graph.edge_list import EdgeList

__all__ = ["FILES", "read_adjacency", "read_reddit"]

FILES = ("reddit_graph.npz", "reddit_data.npz")


def read_reddit(folder: Path) -> EdgeList:
    """Read ``reddit_graph.npz`` (adjacency) and ``reddit_data.npz`` (features, labels, split).

    Raises:
        ValueError: if a file is malformed.
    """
    src, dst, num_nodes = read_adjacency(folder / FILES[0])
    with np.load(folder / FILES[1], allow_pickle=False) as archive:
        features, labels, role = archive["feature"], archive["label"], archive["node_types"]
    return EdgeList(
        name="reddit",
        src=src,
        dst=dst,
        num_nodes=num_nodes,
        features=features,
        labels=labels.astype(np.int64),
        train_idx=role == 1,
        val_idx=role == 2,
        test_idx=role == 3,
    )


def read_adjacency(path: Path) -> tuple[np.ndarray, np.ndarray, int]:
    """Read the edges of a square sparse matrix: entry ``(u, v)`` is the edge ``u -> v``.

    Returns:
        ``src``, ``dst`` and the number of nodes. Explicit zeros are not edges.

    Raises:
        ValueError: if the file is not such a matrix.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        kind = arrays["format"].item()
        kind = kind.decode() if isinstance(kind, bytes) else str(kind)
        rows, columns = (int(length) for length in arrays["shape"])
        if kind == "coo":
            src, dst = arrays["row"], arrays["col"]
        else:
            # CSR or CSC: expand the compressed axis.
            row = np.repeat(np.arange(len(arrays["indptr"]) - 1, dtype=np.int32), np.diff(arrays["indptr"]))
            src, dst = (arrays["indices"], row) if kind == "csc" else (row, arrays["indices"])  # CSC: indices are rows
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"adjacency file {path} must be a sparse matrix saved by scipy: {error}") from error
    if rows != columns or kind not in ("coo", "csr", "csc"):
        raise ValueError(
            f"adjacency file {path} must hold a square coo, csr or csc matrix, got {kind} {rows} x {columns}"
        )
    is_nonzero = arrays["data"] != 0
    return (src, dst, rows) if is_nonzero.all() else (src[is_nonzero], dst[is_nonzero], rows)
