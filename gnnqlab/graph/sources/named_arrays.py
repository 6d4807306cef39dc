"""Graphs as arrays with names: ``.npz`` files, folders of ``.npy`` files, dictionaries in ``.pt`` files.

Arrays are recognized by their usual names. Every array is used, or the graph is refused with its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gnnqlab.graph.convert.splits import SPLIT_NAMES, read_split
from gnnqlab.graph.convert.values import as_targets
from gnnqlab.graph.edge_attributes import as_array
from gnnqlab.graph.edge_list import EdgeList

__all__ = [
    "FEATURE_NAMES",
    "LABEL_NAMES",
    "edges_of_arrays",
    "has_edges",
    "is_array_folder",
    "read_array_folder",
    "read_arrays",
]

_ENDS = (("edge_src", "edge_dst"), ("src", "dst"), ("source", "target"), ("row", "col"), ("senders", "receivers"))
_PAIRS = ("edge_index", "edges", "edge_list", "edge", "edgelist")
_ADJACENCY = ("adj", "adjacency", "adj_matrix", "A", "Adj", "W")
FEATURE_NAMES = ("x", "X", "feat", "feats", "features", "node_feat", "node_feats", "node_features", "feature", "attr")
LABEL_NAMES = ("y", "Y", "label", "labels", "node_label", "node_labels", "targets", "target", "gnd")
_WEIGHTS = ("edge_weight", "edge_weights", "weight", "weights")
_EDGE_FEATURES = ("edge_feat", "edge_features", "edge_attr")
_SIZES = ("num_nodes", "num_classes", "num_edges", "num_node_features", "num_features", "name")


def edges_of_arrays(name: str, arrays: Mapping[str, Any], *, split: int = 0) -> EdgeList:
    """Build an edge list from arrays with usual names.

    Args:
        name: of the graph.
        arrays: by name: ``edge_index`` ``(2, M)`` or ``(M, 2)``, two arrays of ends, or a square ``adj``; features
            ``x`` ``(N, D)``; labels ``y``; masks or node numbers of splits; ``edge_weight``; ``edge_feat``;
            ``num_nodes``.
        split: number of the split if there are several.

    Raises:
        ValueError: if there are no edges, two arrays have the same role, or an array has no known name.

    Example:
        >>> edges_of_arrays("pair", {"edge_index": [[0], [1]], "x": [[1.0], [2.0]], "train_idx": [0]}).num_nodes
        2
    """
    used: set[str] = set()

    def one(names: tuple[str, ...]) -> Any:
        found = [key for key in arrays if key in names or (names is LABEL_NAMES and key.startswith("node_label_"))]
        if len(found) > 1:
            raise ValueError(f"{name} must hold one of {', '.join(found)}, got all of them; remove all but one")
        used.update(found)
        return arrays[found[0]] if found else None

    source, target, weights = _ends(arrays, one, used, name)
    features, labels = one(FEATURE_NAMES), as_array_or_none(one(LABEL_NAMES))
    sizes = {key: arrays[key] for key in _SIZES if key in arrays}
    used.update(sizes)
    largest = int(max(source.max(initial=-1), target.max(initial=-1)))
    num_nodes = int(as_array(sizes["num_nodes"]).reshape(-1)[0]) if "num_nodes" in sizes else 0
    num_nodes = num_nodes or (int(np.shape(features)[0]) if features is not None else 0)
    num_nodes = (
        num_nodes or (0 if labels is None else labels.size if labels.shape[0] == 1 else labels.shape[0]) or largest + 1
    )
    given = one(_WEIGHTS)
    edge_features = one(_EDGE_FEATURES)
    parts = read_split(list(arrays), arrays.__getitem__, num_nodes, split=split)
    used.update(key for key in arrays if key in SPLIT_NAMES)
    unknown = [key for key in arrays if key not in used and arrays[key] is not None]
    if unknown:
        raise ValueError(
            f"every array of {name} must have a usual name, got {', '.join(unknown)}, which are neither edges, "
            f"features ({', '.join(FEATURE_NAMES[:5])} ...), labels ({', '.join(LABEL_NAMES[:4])} ...) nor a split "
            "(train_mask, train_idx ...); rename or remove them, or pass arrays to gnnqlab.Graph.from_edges"
        )
    notes = [f"arrays: {', '.join(sorted(used))}"] + ([parts.note] if parts.note else [])
    return EdgeList(
        name=name,
        src=source,
        dst=target,
        num_nodes=num_nodes,
        edge_weights=given if given is not None else weights,
        edge_features=edge_features,
        features=features,
        labels=None if labels is None else _targets(labels),
        train_idx=parts.train,
        val_idx=parts.val,
        test_idx=parts.test,
        num_classes=int(as_array(sizes["num_classes"])) if "num_classes" in sizes else None,
        notes=tuple(notes),
    )


def is_array_folder(folder: Path) -> bool:
    """True if the folder holds ``.npy`` files with edges."""
    return has_edges(path.stem for path in folder.glob("*.npy"))


def has_edges(names: Iterable[str]) -> bool:
    """Return True if names of arrays include edges, as pairs, as two ends or as a matrix.

    Example:
        >>> has_edges(["edge_index", "x"]), has_edges(["src", "dst"]), has_edges(["x", "y"])
        (True, True, False)
    """
    known = set(names)
    return any(name in known for name in (*_PAIRS, *_ADJACENCY)) or any(set(pair) <= known for pair in _ENDS)


def read_array_folder(folder: Path, *, split: int = 0) -> EdgeList:
    """Read a folder of ``.npy`` files with usual names; see :func:`edges_of_arrays`.

    Raises:
        ValueError: if a file is no array of numbers or text, or has no known name.
    """
    return edges_of_arrays(folder.absolute().name, read_arrays(sorted(folder.glob("*.npy"))), split=split)


def read_arrays(paths: Iterable[Path]) -> dict[str, np.ndarray]:
    """Return the arrays of ``.npy`` files by the names of the files.

    Raises:
        ValueError: if a file is no array of numbers or text.
    """
    arrays = {}
    for path in paths:
        try:
            arrays[path.stem] = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} must be an array that can be read without unpickling: {error}") from error
    return arrays


def as_array_or_none(values: Any) -> np.ndarray | None:
    """Return values as an array, if there are any."""
    return None if values is None else as_array(values)


def _ends(arrays: Mapping[str, Any], one: Any, used: set[str], name: str) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return both ends of all edges, and the weights of an adjacency matrix."""
    pair = one(_PAIRS)
    separate = [ends for ends in _ENDS if set(ends) <= set(arrays)]
    matrix = one(_ADJACENCY)
    if (pair is not None) + len(separate) + (matrix is not None) != 1:
        raise ValueError(
            f"{name} must hold its edges once: edge_index, edge_src and edge_dst, or a square adj, got "
            f"{', '.join(arrays) or 'nothing'}"
        )
    if separate:
        used.update(separate[0])
        source, target = (as_array(arrays[key]).reshape(-1) for key in separate[0])
        return source, target, None
    if matrix is not None:
        from scipy.sparse import coo_array

        from gnnqlab.graph.convert.scipy_matrices import edges_of_scipy

        edges = edges_of_scipy(matrix if hasattr(matrix, "tocoo") else coo_array(as_array(matrix)))
        return as_array(edges.src), as_array(edges.dst), edges.edge_weights
    ends = as_array(pair)
    if ends.ndim != 2 or 2 not in ends.shape:
        raise ValueError(f"edges must have the shape (2, M) or (M, 2), got {ends.shape} in {name}")
    source, target = ends if ends.shape[0] == 2 else ends.T  # (2, M); a square one counts as (2, M)
    return source, target, None


def _targets(labels: np.ndarray) -> Any:
    import torch

    flat = labels.reshape(-1) if 1 in labels.shape else labels  # (N, 1) or (1, N) -> (N,)
    return as_targets(torch.from_numpy(np.ascontiguousarray(flat))) if flat.dtype.kind == "f" else flat
