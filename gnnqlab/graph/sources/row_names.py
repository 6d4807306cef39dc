"""Names of rows: the index of a pandas table, which holds ids of nodes unless it only numbers the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gnnqlab.graph.sources import column_names
from gnnqlab.graph.sources.column_names import plain, those_named

if TYPE_CHECKING:
    from pandas import DataFrame, Series

__all__ = ["is_row_numbers", "with_ends_of_index", "with_ids_of_index"]

_UNNAMED = "index"


def with_ids_of_index(table: DataFrame) -> tuple[DataFrame, str | None]:
    """Return a table of nodes with its index as a column, and the name of that column; ``None`` if it is no column.

    An index with a name, as ``set_index`` makes it, or one of texts holds ids. One of integers without a name may be
    what sorting or selecting rows has left, so a column of ids precedes it.

    Example:
        >>> import pandas as pd
        >>> table, name = with_ids_of_index(pd.DataFrame({"age": [30, 40]}, index=["ann", "bob"]))
        >>> name, table["index"].tolist()
        ('index', ['ann', 'bob'])
    """
    from pandas.api.types import is_integer_dtype, is_numeric_dtype

    index = table.index
    if index.nlevels > 1:
        names = ", ".join(map(str, index.names))
        raise ValueError(
            f"the table of nodes must have one id per row, got an index of {index.nlevels} levels ({names}); "
            "call reset_index(), and name the column of ids with id="
        )
    name = _UNNAMED if index.name is None else str(index.name)
    if name in table:
        return table, None
    if index.name is None:
        is_counted = is_integer_dtype(index) and np.array_equal(index, np.arange(len(table)))
        is_id = is_integer_dtype(index) or not is_numeric_dtype(index)
        if is_counted or not is_id or those_named(map(str, table), column_names.IDS):
            return table, None
    return table.rename_axis(index=name).reset_index(), name


def with_ends_of_index(table: DataFrame) -> DataFrame:
    """Return a table of edges with the levels of its index as columns if they are ends of edges."""
    names = [str(name) for name in table.index.names]
    is_end = all(plain(name) in column_names.EDGE_NAMES for name in names)
    return table.rename_axis(index=names).reset_index() if is_end and not set(names) & set(table) else table


def is_row_numbers(column: Series, name: str) -> bool:
    """Return True for the index that pandas writes to text files, as a first column without a name."""
    return plain(name) == "unnamed0" and bool((column.to_numpy() == np.arange(len(column))).all())
