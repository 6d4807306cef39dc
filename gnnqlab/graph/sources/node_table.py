"""Columns of a table of nodes: ids, classes, split and features.

No column is dropped or misread silently: a column that is none of these raises an error that names it, and each use is
a sentence in the graph's notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gnnqlab.graph.sources import column_names
from gnnqlab.graph.sources.column_names import could_be_id, plain, those_named
from gnnqlab.graph.sources.node_labels import NodeLabels, read_labels
from gnnqlab.graph.sources.row_names import is_row_numbers

if TYPE_CHECKING:
    from pandas import DataFrame, Series

__all__ = ["NodeColumns", "find_id_column", "node_columns", "numbers"]

_SAMPLE = 1000
"""Number of ids of edges that are compared with a column; all are compared when nodes are numbered."""
_SPLIT_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}


@dataclass(kw_only=True)
class NodeColumns:
    """Contents of a table of nodes, in the order of its rows."""

    features: np.ndarray | None
    """float32 ``(N, D)``."""
    labels: NodeLabels | None
    targets: np.ndarray | None = None
    """float64 ``(N, K)``, NaN for "unknown"."""
    target_names: tuple[str, ...] | None = None
    masks: dict[str, np.ndarray]
    """Split -> bool ``(N,)``; empty if the table has none."""
    notes: list[str] = field(default_factory=list)


def find_id_column(
    table: DataFrame, edge_ids: Sequence[np.ndarray], taken: Sequence[str | None], index: str | None = None
) -> str | None:
    """Return the column of ids of a table of nodes; ``None`` if its rows are nodes 0 to N - 1.

    Args:
        table: of the nodes.
        edge_ids: ids of both ends of edges.
        taken: columns with another use.
        index: column that was the index of the table.
    """
    candidates = [column for column in table if (column == index or could_be_id(str(column))) and column not in taken]
    # "id" and the like before "name" and the like.
    candidates.sort(key=lambda column: plain(column) not in column_names.IDS)
    sample = [value for ids in edge_ids for value in ids[:_SAMPLE].tolist()]
    for column in candidates:
        is_id = table[column].is_unique or plain(column) in column_names.IDS  # the latter with an error, if repeated
        if is_id and not table[column].hasnans and _covers(table[column].to_numpy(), sample):
            return str(column)
    for column in candidates:
        if plain(column) in column_names.IDS:
            return str(column)  # the search for the ids of edges names the first that is missing
    return None


def node_columns(
    table: DataFrame,
    name: str,
    *,
    id_column: str | None,
    label: str | Sequence[str] | None,
    split: str | None,
    drop: Sequence[str],
    targets: str | Sequence[str] | None = None,
    num_classes: int | None = None,
) -> NodeColumns:
    """Read the columns of a table of nodes.

    Args:
        table: of the nodes.
        name: of the table, for errors.
        id_column: column of ids, if there is one.
        label: column of classes, or several columns of 0 and 1; by default one with a usual name.
        split: column of splits; by default one with a usual name, or columns of masks.
        drop: columns to leave out.
        targets: column, or columns, of numbers to predict in place of classes.
        num_classes: number of classes if the caller has said it.

    Raises:
        ValueError: if a column does not exist, could have several uses, or cannot be a feature.
    """
    columns = [str(column) for column in table]
    label_columns = [label] if isinstance(label, str) else list(label or ())
    target_columns = [targets] if isinstance(targets, str) else list(targets or ())
    for column in [*label_columns, *target_columns, *([split] if split else []), *drop]:
        _require(column, columns, name)
    remaining = [column for column in columns if column not in (id_column, *drop, *target_columns)]
    notes = [f"left out, as drop= says: {', '.join(drop)}"] if drop else []
    if label is None:
        label_columns = _default_label(remaining, name)
    if label_columns and target_columns:
        raise ValueError(
            f"{name} must have classes or numbers to predict, got {_listed(label_columns)} and "
            f"{_listed(target_columns)}; leave one out with drop=[...], or leave targets= out"
        )
    labels, numbers_to_predict = None, None
    if target_columns:
        columns_of_numbers = [
            numbers(table[column], f"column {column} of {name}", "a target", allow_empty=True)
            for column in target_columns
        ]
        numbers_to_predict = np.stack(columns_of_numbers, axis=1)  # (N, K)
        absent = int(np.isnan(numbers_to_predict).any(1).sum())
        notes.append(f"targets: {_listed(target_columns)}; {absent} nodes without")
    if label_columns:
        several = not isinstance(label, str) and label is not None
        labels = read_labels(table, label_columns, name, several=several, num_classes=num_classes)
        notes.append(labels.note)
    remaining = [column for column in remaining if column not in label_columns]
    masks, split_columns = _masks(table, remaining, split, name)
    if split_columns:
        sizes = ", ".join(f"{int(mask.sum())} {part}" for part, mask in masks.items())
        notes.append(f"split: from {_listed(split_columns)}: {sizes}")
    remaining = [column for column in remaining if column not in split_columns]
    features = []
    for column in remaining:
        values = table[column]
        if is_row_numbers(values, column):
            notes.append(f"left out: column {column}, which numbers the rows")
            continue
        _refuse_second_id(values, column, name, id_column)
        features.append((column, numbers(values, f"column {column} of {name}", "a feature")))
    if features:
        shown = [column for column, _ in features]
        notes.append(f"features: {len(shown)} columns: {', '.join(shown[:6])}{' …' if len(shown) > 6 else ''}")
    return NodeColumns(
        features=np.stack([values for _, values in features], axis=1).astype(np.float32) if features else None,
        labels=labels,
        targets=numbers_to_predict,
        target_names=tuple(target_columns) or None,
        masks=masks,
        notes=notes,
    )


def numbers(column: Series, label: str, role: str, *, allow_empty: bool = False) -> np.ndarray:
    """Return a column as float64.

    Args:
        column: of a table.
        label: its name, for errors.
        role: its use, for errors: ``a feature``.
        allow_empty: True to return NaN for missing values.

    Raises:
        ValueError: if a value is missing, not a number, or beyond the range of float32.
    """
    from pandas.api.types import is_numeric_dtype

    if not is_numeric_dtype(column) and not column.isna().all():
        word = column.dropna().iloc[0]
        raise ValueError(
            f"{label} is {role}, which must be a number, got {word!r}; leave the column out with "
            f"drop=[{column.name!r}], use it as id={column.name!r} or label={column.name!r}, or number it, for "
            "instance with pandas.factorize"
        )
    if column.hasnans and not allow_empty:
        row = int(column.isna().to_numpy().argmax())
        raise ValueError(
            f"{label} is {role}, which must not be empty, got no value in row {row}; fill it, or leave the column out "
            f"with drop=[{column.name!r}]"
        )
    values = np.array(column.to_numpy(dtype=np.float64, na_value=np.nan))  # a copy: pandas may return read-only memory
    is_large = np.abs(values) > np.finfo(np.float32).max
    if is_large.any():
        row = int(is_large.argmax())
        raise ValueError(
            f"{label} is {role}, which must be finite in float32, at most 3.4e38, got {values[row]:g} in row {row}; "
            "replace or scale it"
        )
    return values


def _covers(values: np.ndarray, sample: Sequence[int | str]) -> bool:
    """Return True if all ids of a sample are among the values; numbers and texts are compared as texts."""
    if values.dtype.kind in "iu" and all(isinstance(each, int) for each in sample):
        return set(sample) <= set(values.tolist())
    return {str(each) for each in sample} <= {str(value) for value in values.tolist()}


def _require(column: str, columns: Sequence[str], name: str) -> None:
    if column not in columns:
        raise ValueError(f"{name} must have the column {column!r}, got {', '.join(columns)}")


def _default_label(columns: Sequence[str], name: str) -> list[str]:
    found = those_named(columns, column_names.LABELS)
    exact = [column for column in found if column == "label"]
    if len(found) > 1 and not exact:
        raise ValueError(
            f"{name} must have one column of classes, got {_listed(found)}; name it with label=, and leave the others "
            "out with drop=[...]"
        )
    if len(found) > 1:
        others = [column for column in found if column != "label"]
        raise ValueError(
            f"{name} has the column label, and {_listed(others)} that could be classes as well; name one with label=, "
            f"and leave the other out with drop={others!r}"
        )
    return found


def _masks(
    table: DataFrame, columns: Sequence[str], split: str | None, name: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the split as masks, and the columns that they come from."""
    by_split = {part: those_named(columns, names) for part, names in column_names.MASKS.items()}
    for column in (each for found in by_split.values() for each in found if plain(each).endswith("mask")):
        _require_mask(table[column], f"column {column} of {name}")
    by_split = {part: [each for each in found if _is_mask(table[each])] for part, found in by_split.items()}
    mask_columns = [column for found in by_split.values() for column in found]
    found = (
        [split] if split else [each for each in those_named(columns, column_names.SPLITS) if not _is_mask(table[each])]
    )
    if not split and found and not _are_words(table[found[0]]) and plain(found[0]) != "split":
        found = []  # a number called "set" or "fold" is a feature
    if len(found) + bool(mask_columns) > 1 or any(len(each) > 1 for each in by_split.values()):
        raise ValueError(
            f"{name} must have one split, got {_listed([*found, *mask_columns])}; name one with split=, and leave the "
            "others out with drop=[...]"
        )
    if found:
        return _of_words(table[found[0]], f"column {found[0]} of {name}"), found
    if mask_columns and not by_split["train"]:
        raise ValueError(
            f"{name} must have a mask of training nodes if it has other masks, got {_listed(mask_columns)}; add a "
            "column train_mask, or leave them out with drop=[...]"
        )
    masks = {part: table[found[0]].to_numpy(dtype=bool) for part, found in by_split.items() if found}
    return masks, mask_columns


def _of_words(column: Series, label: str) -> dict[str, np.ndarray]:
    words = column.map(lambda word: _SPLIT_WORDS.get(str(word).strip().lower()), na_action="ignore")
    is_wrong = (words.isna() & column.notna() & (column.astype(str).str.strip() != "")).to_numpy(dtype=bool)
    if is_wrong.any():
        row = int(is_wrong.argmax())
        raise ValueError(f"{label} must be train, val, test or empty, got {column.tolist()[row]!r} in row {row}")
    return {part: (words == part).to_numpy(dtype=bool, na_value=False) for part in ("train", "val", "test")}


def _is_mask(column: Series) -> bool:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    return is_bool_dtype(column) or (is_numeric_dtype(column) and bool(column.isin([0, 1]).all()))


def _require_mask(column: Series, label: str) -> None:
    """Refuse a column called a mask that is none; as a feature it would be a split in disguise."""
    if not _is_mask(column):
        row = int((~column.isin([0, 1])).to_numpy().argmax())
        raise ValueError(
            f"{label} is a mask, which must be True or False, or 1 or 0, got {column.tolist()[row]!r} in row {row}; "
            f"convert it, or leave it out with drop=[{column.name!r}]"
        )


def _are_words(column: Series) -> bool:
    from pandas.api.types import is_numeric_dtype

    return not is_numeric_dtype(column)


def _refuse_second_id(column: Series, name: str, table: str, id_column: str | None) -> None:
    from pandas.api.types import is_integer_dtype

    if not is_integer_dtype(column) or len(column) < 3 or not column.is_unique:
        return
    # Without ids row i is node i. Another order of the same numbers contradicts that.
    order = column.to_numpy()
    is_other_order = id_column is None and not np.array_equal(order, np.arange(order.size))
    is_other_order &= np.array_equal(np.sort(order), np.arange(order.size))
    if could_be_id(name) or is_other_order:
        use = f"the ids are in column {id_column}" if id_column else "row i would be node i without them"
        raise ValueError(
            f"column {name} of {table} looks like ids of nodes, not like a feature: {len(column)} different integers "
            f"such as {column.iloc[0]}, and {use}; leave it out with drop=[{name!r}], or use it as id={name!r}"
        )


def _listed(columns: Sequence[str]) -> str:
    return ("column " if len(columns) == 1 else "columns ") + ", ".join(columns)
