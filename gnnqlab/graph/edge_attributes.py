"""Weights and features of an edge list: checks, and reordering together with the edges.

Shape legend: M edges as given, N nodes, E edges stored, F features of an edge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gnnqlab.graph.array_checks import refuse_masked

__all__ = ["EdgeAttributes", "as_array", "as_edge_features", "as_edge_weights"]


@dataclass
class EdgeAttributes:
    """Weights and features of an edge list; a *place* is the index of an edge in the list.

    Example:
        >>> attributes = EdgeAttributes(np.array([0.5, 2.0], dtype=np.float32), None)
        >>> attributes.add_self_loop()
        >>> weights, features = attributes.select(np.array([2, 0, 1]))
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
        """Append the attributes of added self loops at place M: weight 1 and zero features."""
        if self.weights is not None:
            self.weights = np.append(self.weights, np.float32(1.0))  # (M,) -> (M + 1,)
        if self.features is not None:
            zeros = np.zeros((1, self.features.shape[1]), dtype=np.float32)
            self.features = np.concatenate([self.features, zeros])  # (M, F) -> (M + 1, F)

    def order(self, key: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Return the permutation that sorts edges by key, then weight, then (with features) place."""
        # lexsort sorts by its last column first; without features parallel edges of equal weight are interchangeable.
        columns = [] if self.features is None else [place]
        if self.weights is not None:
            columns.append(self.weights[place])
        return np.lexsort((*columns, key))

    def require_equal(self, key: np.ndarray, place: np.ndarray, again: np.ndarray, shift: int) -> None:
        """Check that repeated edges have equal weights and features.

        Args:
            key: ``destination << shift | source`` of each edge, sorted.
            place: place of each edge.
            again: True for an edge with the same key as the edge before.
            shift: number of bits of a source.

        Raises:
            ValueError: if an edge is repeated with other values; the text names the first.
        """
        repeats = again.nonzero()[0]
        if self.weights is not None:
            # Equality is transitive: in sorted order it is enough to compare each repeated edge with the one before it.
            weight, previous_weight = self.weights[place[repeats]], self.weights[place[repeats - 1]]
            if (weight != previous_weight).any():
                i = int((weight != previous_weight).argmax())
                raise ValueError(
                    f"an edge that is kept once must have one weight, got {previous_weight[i]:g} and {weight[i]:g} for "
                    f"{_ends(key[repeats[i]], shift)}; symmetrize=False keeps an edge and its reverse apart, "
                    "deduplicate=False keeps all edges, or add up the weights before"
                )
        if self.features is not None:
            row, previous_row = self.features[place[repeats]], self.features[place[repeats - 1]]
            is_different = (row != previous_row).any(axis=1)
            if is_different.any():
                i = int(is_different.argmax())
                raise ValueError(
                    f"an edge that is kept once must have one row of features, got {_row_text(previous_row[i])} and "
                    f"{_row_text(row[i])} for {_ends(key[repeats[i]], shift)}; symmetrize=False keeps an edge and its "
                    "reverse apart, deduplicate=False keeps all edges, or choose one row before"
                )

    def select(self, place: np.ndarray) -> tuple[Tensor | None, Tensor | None]:
        """Return weights ``(E,)`` and features ``(E, F)`` of the edges at some places, ``None`` if there are none."""
        weights = None if self.weights is None else torch.from_numpy(self.weights[place])  # (M,) -> (E,)
        return weights, None if self.features is None else torch.from_numpy(self.features[place])


def as_array(values: object, what: str = "values") -> np.ndarray:
    """Convert a tensor, or anything array-like, to a NumPy array; ``what`` is its name in errors."""
    refuse_masked(what, values)
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def as_edge_weights(weights: object, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Convert weights to float32 ``(M,)``.

    Raises:
        TypeError: if they are not numbers.
        ValueError: if there is not one per edge, or one is negative, NaN or, as float32, infinite.
    """
    values = as_array(weights, "edge weights")
    if values.dtype.kind not in "biuf":
        raise TypeError(f"edge weights must be numbers, got {type(weights).__name__} that holds {values.dtype}")
    column = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values  # (M, 1) -> (M,)
    if column.shape != source.shape:
        raise ValueError(f"edge weights must be one for each of {source.size} edges, got shape {values.shape}")
    # A value beyond the range of float32 becomes infinite here, and is refused below.
    with np.errstate(over="ignore"):
        weight = column.astype(np.float32)
    is_wrong = ~(np.isfinite(weight) & (weight >= 0))
    if is_wrong.any():
        i = int(is_wrong.argmax())
        if np.isfinite(column[i]) and column[i] > 0:
            raise ValueError(
                f"edge weights must be within the range of float32, at most 3.4e38, got {column[i]:g} on the edge "
                f"{source[i]} -> {target[i]}; divide all weights by one number"
            )
        raise ValueError(
            f"edge weights must be finite and not negative (0: no edge), got {column[i]} on the edge {source[i]} -> "
            f"{target[i]}: convolutions divide by square roots of their sums; shift or clip them, or build the graph "
            "without weights"
        )
    is_lost = (weight == 0) & (column != 0)
    if is_lost.any():
        i = int(is_lost.argmax())
        raise ValueError(
            f"edge weights must be 0 or within the range of float32, at least 1.4e-45, got {column[i]:g} on the edge "
            f"{source[i]} -> {target[i]}, which would be no edge; multiply all weights by one number"
        )
    return weight


def as_edge_features(features: object, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Convert edge features to float32 ``(M, F)``.

    Raises:
        TypeError: if they are not numbers.
        ValueError: if there is not one row per edge, rows are empty, or a value is NaN or, as float32, infinite.
    """
    values = as_array(features, "edge features")
    if values.dtype.kind not in "biuf":
        raise TypeError(f"edge features must be numbers, got {type(features).__name__} that holds {values.dtype}")
    rows = values[:, None] if values.ndim == 1 else values  # (M,) -> (M, 1)
    if rows.ndim != 2 or rows.shape[0] != source.size or not rows.shape[1]:
        raise ValueError(
            f"edge features must have a row of at least one number for each of {source.size} edges, got shape "
            f"{values.shape}; give them in the order of src and dst"
        )
    # As for weights: values beyond float32 are refused below.
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(rows, dtype=np.float32)
    if not np.isfinite(rows).all():
        edge, column = (int(place[0]) for place in (~np.isfinite(rows)).nonzero())  # the first wrong value
        given = values.reshape(rows.shape)[edge, column]
        if np.isfinite(given):
            raise ValueError(
                f"edge features must be within the range of float32, at most 3.4e38, got {given:g} in column {column} "
                f"of the edge {source[edge]} -> {target[edge]}; replace or scale it"
            )
        raise ValueError(
            f"edge features must be finite, got {rows[edge, column]} in column {column} of the edge {source[edge]} -> "
            f"{target[edge]}; replace it, or build the graph without edge features"
        )
    return rows


def _ends(key: np.int64, shift: int) -> str:
    return f"{int(key) & ((1 << shift) - 1)} -> {int(key) >> shift}"  # low bits: source; high bits: destination


def _row_text(row: np.ndarray) -> str:
    return f"[{', '.join(f'{value:g}' for value in row[:4])}{', ...' if row.size > 4 else ''}]"
