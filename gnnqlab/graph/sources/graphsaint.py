"""Folders in GraphSAINT's layout (Zeng et al., ICLR 2020): Yelp, AmazonProducts, Flickr, Reddit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.sources.reddit import read_adjacency

__all__ = ["FILES", "read_graphsaint", "standardize"]

FILES = ("adj_full.npz", "feats.npy", "role.json", "class_map.json")
TRAINING_EDGES = "adj_train.npz"


def read_graphsaint(folder: Path, *, name: str | None = None, standardized: bool = False) -> EdgeList:
    """Read a folder with ``adj_full.npz``, ``feats.npy``, ``role.json`` and ``class_map.json``.

    A class map with one number per node is single-label, with a list per node multi-label. The edges of
    ``adj_train.npz``, if it is there, are compared with those between training nodes, on which the inductive protocol
    trains; a note of the graph has the result.

    Args:
        folder: folder with the four files.
        name: name of the graph; by default the folder's name.
        standardized: True to standardize features by the training nodes' mean and standard deviation.

    Raises:
        ValueError: if a file is missing or malformed, or a node has no class.
    """
    missing_files = [file for file in FILES if not (folder / file).is_file()]
    if missing_files:
        raise ValueError(f"a GraphSAINT folder must hold {', '.join(FILES)}, {folder} lacks {', '.join(missing_files)}")
    src, dst, num_nodes = read_adjacency(folder / "adj_full.npz")
    try:
        role = json.loads((folder / "role.json").read_text(encoding="utf-8"))
        train, val, test = (np.asarray(role[key], dtype=np.int64) for key in ("tr", "va", "te"))
        features = np.load(folder / "feats.npy", allow_pickle=False).astype(np.float32, copy=False)
        class_map = json.loads((folder / "class_map.json").read_text(encoding="utf-8"))
        node = np.fromiter((int(key) for key in class_map), dtype=np.int64, count=len(class_map))
        classes = np.asarray(list(class_map.values()))  # (n,), or (n, C) if multi-label
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise ValueError(f"GraphSAINT folder {folder} cannot be read: {type(error).__name__}: {error}") from error
    del class_map  # frees the parsed JSON, which is larger than the arrays
    if classes.dtype.kind not in "iuf" or classes.ndim not in (1, 2) or (node.size and node.max() >= num_nodes):
        raise ValueError(
            f"class_map.json in {folder} must map node ids below {num_nodes} to numbers or to lists of one length, got "
            f"{classes.dtype} of shape {classes.shape}"
        )
    is_multi_label = classes.ndim == 2
    shape = (num_nodes, classes.shape[1]) if is_multi_label else (num_nodes,)
    # Nodes that are not in the class map: -1, or a row of zeros.
    labels = np.full(shape, 0 if is_multi_label else -1, dtype=np.uint8 if is_multi_label else np.int64)
    labels[node] = classes
    if standardized:
        features = standardize(features, train)
    return EdgeList(
        name=name or folder.name,
        src=src,
        dst=dst,
        num_nodes=num_nodes,
        features=features,
        labels=labels,
        train_idx=train,
        val_idx=val,
        test_idx=test,
        notes=_compare_training_edges(folder / TRAINING_EDGES, src, dst, num_nodes, train),
    )


def _compare_training_edges(
    path: Path, src: np.ndarray, dst: np.ndarray, num_nodes: int, train: np.ndarray
) -> tuple[str, ...]:
    """Return a note that compares ``adj_train.npz`` with the edges between training nodes; empty without the file."""
    if not path.is_file():
        return ()
    is_train = np.zeros(num_nodes, dtype=bool)
    is_train[train] = True
    is_between = is_train[src] & is_train[dst]  # (E,)
    induced = src[is_between], dst[is_between]
    given_src, given_dst, given_nodes = read_adjacency(path)
    subject = "training edges: protocol='inductive' trains on all edges between training nodes"
    if given_nodes == num_nodes and _have_equal_edges(induced, (given_src, given_dst), num_nodes):
        return (f"{subject}, as in {path.name}",)
    return (
        f"{subject}, {len(induced[0]):,} in {FILES[0]}, which are not the {len(given_src):,} of {path.name}; the "
        "latter are left out",
    )


def _have_equal_edges(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray], num_nodes: int) -> bool:
    if len(one[0]) != len(other[0]):
        return False
    if all(map(np.array_equal, one, other)):  # the usual case, without a sort of 10⁸ edges
        return True
    ours, theirs = (np.sort(src.astype(np.int64) * num_nodes + dst) for src, dst in (one, other))
    return np.array_equal(ours, theirs)


def standardize(features: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Compute ``(x - mean) / deviation`` per column, both over the rows ``train``; constant columns are only shifted.

    Example:
        >>> standardize(np.array([[1.0], [3.0], [5.0]]), np.array([0, 1])).tolist()
        [[-1.0], [1.0], [3.0]]
    """
    train_features = features[train].astype(np.float64)  # float64 for the sums over nodes
    mean, deviation = train_features.mean(0), train_features.std(0)
    deviation[deviation == 0] = 1
    return ((features - mean.astype(np.float32)) / deviation.astype(np.float32)).astype(np.float32)
