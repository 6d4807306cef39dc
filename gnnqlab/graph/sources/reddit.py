"""Reddit posts (GraphSAGE's split) in the files of DGL's archive."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.sources.scipy_file import read_adjacency

__all__ = ["FILES", "read_reddit"]

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
