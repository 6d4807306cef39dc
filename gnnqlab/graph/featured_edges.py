"""From an edge list with a row of features an edge to CSR by destination.

Shape legend: N nodes, M edges as given, E edges stored, F features of an edge.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gnnqlab.graph.edges import SelfLoops, checked_ends, compressed
from gnnqlab.graph.weighted_edges import as_edge_weights, expect_one_weight

__all__ = ["as_edge_features", "build_featured_csr"]


def build_featured_csr(
    src: object,
    dst: object,
    features: object,
    weights: object = None,
    *,
    num_nodes: int,
    symmetrize: bool = True,
    deduplicate: bool = True,
    self_loops: SelfLoops = "add",
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Sort edges with features by destination, source, weight and place in the list, under the rules of ``build_csr``.

    The features go wherever their edge goes. The reverse of an edge has its features; a self loop that is added has
    zeros, and those of self loops that are removed for it go with them. With ``deduplicate`` an edge that stands
    several times, or both ways under ``symmetrize``, must have the same features each time: which of several would be
    meant, their sum or their mean, nobody says.

    Args:
        src, dst, num_nodes, symmetrize, deduplicate, self_loops: as for ``build_csr``.
        features: finite numbers, shape ``(M, F)``, or ``(M,)`` for one an edge; any array-like. They become float32.
        weights: ``None``, or as for ``build_weighted_csr``.

    Returns:
        ``indptr`` int64 ``(N + 1,)``, ``indices`` int32 ``(E,)``, the weights, float32 ``(E,)`` or ``None``, and the
        features, float32 ``(E, F)``.

    Raises:
        TypeError, ValueError: as ``build_weighted_csr``; and if a feature is NaN or infinite, there is not a row an
            edge, or an edge that is kept once has several rows.

    Example:
        >>> indptr, indices, weights, features = build_featured_csr([0, 2], [1, 1], [[5.0], [7.0]], num_nodes=3)
        >>> indptr.tolist(), indices.tolist(), features.flatten().tolist()
        ([0, 2, 5, 7], [0, 1, 0, 1, 2, 1, 2], [0.0, 5.0, 5.0, 0.0, 7.0, 7.0, 0.0])
    """
    source, target = checked_ends(src, dst, num_nodes, self_loops)
    num_nodes = int(num_nodes)
    rows = as_edge_features(features, source, target)
    weight = None if weights is None else as_edge_weights(weights, source, target)
    is_loop = source == target
    kept = np.ones(source.size, dtype=bool) if weight is None else weight > 0
    if self_loops != "keep":
        kept &= ~is_loop
    place = kept.nonzero()[0]
    shift = max(1, (num_nodes - 1).bit_length())
    source, target = source[place].astype(np.int64), target[place].astype(np.int64)
    keys, places = [(target << shift) | source], [place]
    if symmetrize:
        turned = ~is_loop[place]
        keys.append(((source << shift) | target)[turned])
        places.append(place[turned])
    if self_loops == "add":
        node = np.arange(num_nodes, dtype=np.int64)
        keys.append((node << shift) | node)
        places.append(np.full(num_nodes, len(rows)))  # a row of zeros behind those given
        rows = np.concatenate([rows, np.zeros((1, rows.shape[1]), dtype=np.float32)])
        weight = None if weight is None else np.append(weight, np.float32(1.0))
    key, place = np.concatenate(keys), np.concatenate(places)
    of_edge = np.ones(place.size, dtype=np.float32) if weight is None else weight[place]
    order = np.lexsort((place, of_edge, key))
    key, place, of_edge = key[order], place[order], of_edge[order]
    if deduplicate and key.size:
        again = np.zeros(key.size, dtype=bool)
        np.equal(key[1:], key[:-1], out=again[1:])
        expect_one_weight(key, of_edge, again, shift)
        _expect_one_row(key, place, rows, again, shift)
        key, place, of_edge = key[~again], place[~again], of_edge[~again]
    indptr, indices = compressed(key, num_nodes, shift)
    kept_weights = None if weight is None else torch.from_numpy(of_edge)
    return indptr, indices, kept_weights, torch.from_numpy(rows[place])


def as_edge_features(features: object, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return features of edges as float32 ``(M, F)``.

    Raises:
        TypeError: if they are not numbers.
        ValueError: if there is not a row an edge, rows are empty, or a value is NaN or, as float32, infinite.
    """
    if isinstance(features, Tensor):
        features = features.detach().cpu().numpy()
    given = np.asarray(features)
    if given.dtype.kind not in "biuf":
        raise TypeError(f"edge features must be numbers, got {type(features).__name__} that holds {given.dtype}")
    rows = given[:, None] if given.ndim == 1 else given
    if rows.ndim != 2 or rows.shape[0] != source.size or not rows.shape[1]:
        raise ValueError(
            f"edge features must have a row of at least one number for each of {source.size} edges, got shape "
            f"{given.shape}; give them in the order of src and dst"
        )
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(rows, dtype=np.float32)
    if not np.isfinite(rows).all():
        edge, column = (int(place[0]) for place in (~np.isfinite(rows)).nonzero())
        raise ValueError(
            f"edge features must be finite, got {rows[edge, column]} in column {column} of the edge {source[edge]} -> "
            f"{target[edge]}; replace it, or build the graph without edge features"
        )
    return rows


def _expect_one_row(key: np.ndarray, place: np.ndarray, rows: np.ndarray, again: np.ndarray, shift: int) -> None:
    repeated = again.nonzero()[0]
    differs = (rows[place[repeated]] != rows[place[repeated - 1]]).any(axis=1)
    if differs.any():
        at = int(repeated[differs.argmax()])
        source, target = int(key[at]) & ((1 << shift) - 1), int(key[at]) >> shift
        one, other = (_shown(rows[place[which]]) for which in (at - 1, at))
        raise ValueError(
            f"an edge that is kept once must have one row of features, got {one} and {other} for {source} -> {target}; "
            "symmetrize=False keeps an edge and its reverse apart, deduplicate=False all edges given, or choose one "
            "before"
        )


def _shown(row: np.ndarray) -> str:
    return f"[{', '.join(f'{value:g}' for value in row[:4])}{', ...' if row.size > 4 else ''}]"
