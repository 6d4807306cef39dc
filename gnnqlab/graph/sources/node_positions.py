"""Ids of nodes in tables, converted to positions 0 to N - 1.

M edges, N nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from pandas import Series

__all__ = ["Ends", "id_values", "number_by_edges", "number_by_rows"]


class Ends(NamedTuple):
    """Both ends of all edges as positions, and the ids of the nodes."""

    source: np.ndarray
    """int32 or int64 ``(M,)``."""
    target: np.ndarray
    ids: np.ndarray
    """Integers or text, ``(N,)``."""


def id_values(column: Series, label: str) -> np.ndarray:
    """Return a column of ids as int64, uint64, or an object array of texts.

    Raises:
        ValueError: if a value is missing, or neither an integer nor text; the text names column, row and value.
    """
    from pandas import CategoricalDtype, Series
    from pandas.api.types import is_bool_dtype, is_integer_dtype

    if not len(column):
        return np.empty(0, dtype=np.int64)  # pandas reads an empty column as objects
    if column.hasnans:
        row = int(column.isna().to_numpy().argmax())
        raise ValueError(
            f"{label} must hold an id in every row, got none in row {row}; leave out rows without ids, or, if an id "
            "is a word such as NA or null, pass pandas.read_csv(path, keep_default_na=False) as the table"
        )
    if isinstance(column.dtype, CategoricalDtype) or column.dtype == object:
        column = Series(column.tolist(), name=column.name)  # integers among objects and categories are integers
    if is_integer_dtype(column):
        values = column.to_numpy()
        return values if values.dtype == np.uint64 else values.astype(np.int64, copy=False)
    texts = column.to_numpy(dtype=object)
    kinds = {type(value) for value in texts[:1000].tolist()}
    if is_bool_dtype(column) or any(issubclass(kind, float | complex) for kind in kinds):
        raise ValueError(
            f"{label} must hold integers or text as ids, got {texts[0]!r} in row 0; convert them to integers"
        )
    return texts if kinds == {str} else np.array([str(value) for value in texts.tolist()], dtype=object)


def number_by_edges(source: np.ndarray, target: np.ndarray) -> Ends:
    """Number the nodes that occur in edges: integers ascending, texts in the order in which they occur.

    Example:
        >>> number_by_edges(np.array([7, 7]), np.array([9, 3]))
        Ends(source=array([1, 1], dtype=int32), target=array([2, 0], dtype=int32), ids=array([3, 7, 9]))
    """
    import pandas as pd

    source, target = _of_one_type(source, target)
    if source.dtype == object:
        positions, names = pd.factorize(np.concatenate([source, target]))  # (2M,)
        return Ends(positions[: source.size], positions[source.size :], np.asarray(names.tolist(), dtype=str))
    smallest = min(source.min(initial=0), target.min(initial=0))
    largest = max(source.max(initial=0), target.max(initial=0))
    if smallest < 0 or largest > 8 * source.size + 1024:
        codes, ids = pd.factorize(np.concatenate([source, target]))
        order = np.argsort(ids)
        rank = np.empty(order.size, dtype=np.int64)
        rank[order] = np.arange(order.size)
        return Ends(rank[codes[: source.size]], rank[codes[source.size :]], ids[order])
    # Without sorting or hashing the edges: a table over all numbers up to the largest.
    occurs = np.zeros(int(largest) + 1, dtype=bool)
    occurs[source] = True
    occurs[target] = True
    ids = np.flatnonzero(occurs)
    if ids.size == occurs.size:  # every number occurs
        return Ends(source.astype(np.int64, copy=False), target.astype(np.int64, copy=False), ids)
    position = np.cumsum(occurs, dtype=np.int32) - 1  # at most 2**31 nodes
    return Ends(position[source], position[target], ids)


def number_by_rows(
    source: np.ndarray, target: np.ndarray, ids: np.ndarray, *, column: str, table: str
) -> tuple[Ends, np.ndarray]:
    """Number the nodes by a column of ids: integers ascending, texts in the order of the rows.

    Args:
        source, target: ids of both ends of each edge.
        ids: id of each row of the node table.
        column, table: their names, for errors.

    Returns:
        The edges, and the row of each node ``(N,)``.

    Raises:
        ValueError: if an id occurs twice, or an edge has an id that the column does not hold.
    """
    import pandas as pd

    ids, source, target = _of_one_type(ids, source, target)
    index = pd.Index(ids)
    if not index.is_unique:
        value = index[index.duplicated()][0]
        first, second = np.flatnonzero(ids == value)[:2]
        raise ValueError(
            f"column {column} of {table} must hold each id once, got {value!s} in the rows {first} and {second}; leave "
            "one out, or name another column with id="
        )
    order = np.arange(ids.size) if ids.dtype == object else np.argsort(ids)
    index = pd.Index(ids[order])
    ends = [index.get_indexer(each) for each in (source, target)]
    for given, positions in zip((source, target), ends, strict=True):
        if positions.size and positions.min() < 0:
            value = given[int(positions.argmin())]
            raise ValueError(
                f"{table} must have a row for every node, got an edge of node {value!s}, which its column {column} "
                "does not hold; add the row, or name another column with id="
            )
    names = ids[order]
    names = names if ids.dtype != object else np.asarray(names.tolist(), dtype=str)
    return Ends(ends[0].astype(np.int64, copy=False), ends[1].astype(np.int64, copy=False), names), order


def _of_one_type(*columns: np.ndarray) -> list[np.ndarray]:
    """Convert columns of ids to one type: text if one is text or no integer type holds all."""
    kinds = {column.dtype for column in columns if column.size}
    if len(kinds) <= 1:
        kind = kinds.pop() if kinds else np.dtype(np.int64)
        return [column.astype(kind) for column in columns]
    if np.dtype(object) not in kinds and all(column.min(initial=0) >= 0 for column in columns):
        return [column.astype(np.uint64) for column in columns]
    return [np.array([str(value) for value in column.tolist()], dtype=object) for column in columns]
