"""One ``.npz`` file per graph: edges, features, labels and splits as plain arrays.

Keys: ``num_nodes``; ``edge_src``, ``edge_dst``; ``feat``, or ``feat_indptr``, ``feat_indices``,
``feat_values`` and ``feat_dim``; ``label``; ``train_idx``, ``val_idx``, ``test_idx``. Only the
first three are required.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import torch

from gnnqlab.graph.features import SparseRows
from gnnqlab.graph.sources.edge_list import EdgeList

__all__ = ["read_npz"]

_SPARSE = ("feat_indptr", "feat_indices", "feat_values", "feat_dim")


def read_npz(path: Path) -> EdgeList:
    """Read a graph from one ``.npz`` file; nothing in it is unpickled.

    Raises:
        ValueError: if the file is not readable or lacks a required key.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"graph file {path} must be a .npz of plain arrays: {error}") from error
    missing = [key for key in ("num_nodes", "edge_src", "edge_dst") if key not in arrays]
    if missing:
        raise ValueError(
            f"graph file {path} must hold num_nodes, edge_src and edge_dst, it lacks {', '.join(missing)} and holds "
            f"{', '.join(sorted(arrays)) or 'nothing'}"
        )
    features: object = arrays.get("feat")
    if features is None and "feat_indptr" in arrays:
        lacking = [key for key in _SPARSE if key not in arrays]
        if lacking:
            raise ValueError(f"sparse features in {path} must have {', '.join(_SPARSE)}, got no {', '.join(lacking)}")
        features = SparseRows(
            indptr=torch.from_numpy(arrays["feat_indptr"].astype(np.int64, copy=False)),
            indices=torch.from_numpy(arrays["feat_indices"].astype(np.int32, copy=False)),
            values=torch.from_numpy(arrays["feat_values"].astype(np.float32, copy=False)),
            num_columns=int(arrays["feat_dim"]),
        )
    return EdgeList(
        name=path.stem,
        src=arrays["edge_src"],
        dst=arrays["edge_dst"],
        num_nodes=int(arrays["num_nodes"]),
        features=features,
        labels=arrays.get("label"),
        train_idx=arrays.get("train_idx"),
        val_idx=arrays.get("val_idx"),
        test_idx=arrays.get("test_idx"),
    )
