"""Weights and features of an edge list, checked, and kept with their edges while these are sorted.

Shape legend: M edges as given, N nodes, E edges stored, F features of an edge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = ["EdgeAttributes", "as_array", "as_edge_features", "as_edge_weights"]


@dataclass
class EdgeAttributes:
    """Weights and features of listed edges; a *place* is an edge's index in the list.

    Example:
        >>> attributes = EdgeAttributes(np.array([0.5, 2.0], dtype=np.float32), None)
        >>> attributes.add_self_loop()
        >>> weights, features = attributes.at(np.array([2, 0, 1]))
        >>> weights.tolist(), features
        ([1.0, 0.5, 2.0], None)
    """

    weights: np.ndarray | None
    """float32 ``(M,)``."""
    features: np.ndarray | None
    """float32 ``(M, F)``."""

    def __bool__(self) -> bool:
        return self.weights is not None or self.features is not None

    def add_self_loop(self) -> None:
        """Append the attributes of the self loops that are added: weight 1 and features of zeros, at place M."""
        if self.weights is not None:
            self.weights = np.append(self.weights, np.float32(1.0))
        if self.features is not None:
            zeros = np.zeros((1, self.features.shape[1]), dtype=np.float32)
            self.features = np.concatenate([self.features, zeros])

    def order(self, key: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Return the order of edges by key, then by weight, then, if they have features, by place."""
        columns = [] if self.features is None else [place]
        if self.weights is not None:
            columns.append(self.weights[place])
        return np.lexsort((*columns, key))

    def require_equal(self, key: np.ndarray, place: np.ndarray, again: np.ndarray, shift: int) -> None:
        """Refuse sorted edges of which one is repeated with another weight or other features.

        Args:
            key: ``destination << shift | source`` of each edge.
            place: of each edge.
            again: True for an edge whose key is that of the edge before.
            shift: bits of a source.

        Raises:
            ValueError: naming the first.
        """
        repeated = again.nonzero()[0]
        if self.weights is not None:
            weight, before = self.weights[place[repeated]], self.weights[place[repeated - 1]]
            if (weight != before).any():
                at = int((weight != before).argmax())
                raise ValueError(
                    f"an edge that is kept once must have one weight, got {before[at]:g} and {weight[at]:g} for "
                    f"{_ends(key[repeated[at]], shift)}; symmetrize=False keeps an edge and its reverse apart, "
                    "deduplicate=False all edges given, or add them up before"
                )
        if self.features is not None:
            row, before = self.features[place[repeated]], self.features[place[repeated - 1]]
            differs = (row != before).any(axis=1)
            if differs.any():
                at = int(differs.argmax())
                raise ValueError(
                    f"an edge that is kept once must have one row of features, got {_shown(before[at])} and "
                    f"{_shown(row[at])} for {_ends(key[repeated[at]], shift)}; symmetrize=False keeps an edge and its "
                    "reverse apart, deduplicate=False all edges given, or choose one before"
                )

    def at(self, place: np.ndarray) -> tuple[Tensor | None, Tensor | None]:
        """Return weights ``(E,)`` and features ``(E, F)`` of the edges at some places, ``None`` for those not given."""
        weights = None if self.weights is None else torch.from_numpy(self.weights[place])
        return weights, None if self.features is None else torch.from_numpy(self.features[place])


def as_array(values: object) -> np.ndarray:
    """Return a tensor, or anything array-like, as an array in main memory."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def as_edge_weights(weights: object, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return weights as float32 ``(M,)``.

    Raises:
        TypeError: if they are not numbers.
        ValueError: if there is not one an edge, or one is negative, NaN or, as float32, infinite.
    """
    given = as_array(weights)
    if given.dtype.kind not in "biuf":
        raise TypeError(f"edge weights must be numbers, got {type(weights).__name__} that holds {given.dtype}")
    flat = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    if flat.shape != source.shape:
        raise ValueError(f"edge weights must be one for each of {source.size} edges, got shape {given.shape}")
    with np.errstate(over="ignore"):
        weight = flat.astype(np.float32)
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        at = int(wrong.argmax())
        raise ValueError(
            f"edge weights must be finite and not negative (0: no edge), got {flat[at]} on the edge {source[at]} -> "
            f"{target[at]}: convolutions divide by square roots of their sums; shift or clip them, or build the graph "
            "without weights"
        )
    return weight


def as_edge_features(features: object, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return features of edges as float32 ``(M, F)``.

    Raises:
        TypeError: if they are not numbers.
        ValueError: if there is not a row an edge, rows are empty, or a value is NaN or, as float32, infinite.
    """
    given = as_array(features)
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


def _ends(key: np.int64, shift: int) -> str:
    return f"{int(key) & ((1 << shift) - 1)} -> {int(key) >> shift}"


def _shown(row: np.ndarray) -> str:
    return f"[{', '.join(f'{value:g}' for value in row[:4])}{', ...' if row.size > 4 else ''}]"
