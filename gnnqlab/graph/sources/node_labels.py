"""Classes of nodes in a table: numbers, words, truth values, or several columns of 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gnnqlab.graph.arguments import refuse_names_as_classes, refuse_numbers_as_classes

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from gnnqlab.graph.ids import ClassNames

__all__ = ["NodeLabels", "read_labels"]

_UNLABELLED = ("", "unknown", "unlabelled", "unlabeled", "none", "nan", "n/a", "na", "null", "?", "-1")
"""Words for a node without a class."""
_SHOWN = 6


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeLabels:
    """Targets of nodes in the order of the rows."""

    values: np.ndarray
    """int64 ``(N,)`` with -1 for "unlabelled", or uint8 ``(N, C)``."""
    class_names: ClassNames | None
    note: str


def read_labels(
    table: DataFrame, columns: Sequence[str], name: str, *, several: bool, num_classes: int | None = None
) -> NodeLabels:
    """Read the classes of nodes.

    Whole numbers from 0 are classes as they are. Words, truth values, and numbers with large gaps are numbered in
    ascending order, and their values are the class names. Empty values and words such as ``unknown`` are "unlabelled".

    Args:
        table: of the nodes.
        columns: one column of classes, or several of 0 and 1.
        name: of the table, for errors.
        several: True for several classes per node, one column each.
        num_classes: number of classes if the caller has said it; then any number is accepted.

    Raises:
        ValueError: if values are fractions, or so many that they look like prices, measurements or names.
    """
    if several:
        matrix = np.stack([_zeros_and_ones(table[column], f"column {column} of {name}") for column in columns], axis=1)
        note = f"classes: {len(columns)} columns of 0 and 1: {_listed(columns)}"
        return NodeLabels(values=matrix, class_names=tuple(columns), note=note)
    column = columns[0]
    codes, names = _codes(table[column], f"column {column} of {name}", num_classes)
    count = len(names) if names is not None else int(codes.max(initial=-1)) + 1
    unlabelled = int((codes < 0).sum())
    note = f"classes: {count} from column {column}"
    note += f": {_listed([str(each) for each in names])}" if names is not None else ""
    note += f"; {unlabelled} nodes without a class" if unlabelled else ""
    return NodeLabels(values=codes, class_names=names, note=note)


def _codes(column: Series, label: str, num_classes: int | None) -> tuple[np.ndarray, ClassNames | None]:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    is_missing = column.isna().to_numpy()
    if is_bool_dtype(column) or not is_numeric_dtype(column):
        values = column.to_numpy(dtype=object, na_value=None)
        words = {value for value in values.tolist() if value is not None}
        if all(isinstance(word, str) for word in words):
            absent = {word for word in words if word.strip().lower() in _UNLABELLED}
            is_missing = is_missing | np.isin(values, list(absent)) if absent else is_missing
            words -= absent
        else:
            words = {word if isinstance(word, bool) else str(word) for word in words}
        # Truth values and words do not compare; each kind is sorted alone.
        names = tuple(sorted(words, key=lambda word: (isinstance(word, str), word)))
        if names and num_classes is None:
            refuse_names_as_classes(label, len(names), int((~is_missing).sum()), names[0])
        code_of = {name: code for code, name in enumerate(names)}
        word_codes = [
            -1 if is_absent else code_of.get(value, code_of.get(str(value), -1))
            for value, is_absent in zip(values, is_missing, strict=True)
        ]
        return np.array(word_codes, dtype=np.int64), names
    numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    present = numbers[~is_missing]
    is_fraction = present != np.round(present)
    if is_fraction.any():
        raise ValueError(
            f"{label} is a class, which must be a whole number or a word, got {present[is_fraction][0]:g}; fractions "
            "are numbers to predict, not classes: name the column with targets="
        )
    codes = np.where(is_missing, -1, np.nan_to_num(numbers)).astype(np.int64)
    values = np.unique(codes[codes >= 0])
    if codes.min(initial=0) < -1:
        raise ValueError(f"{label} is a class, which must be at least 0, or -1 or empty for none, got {codes.min()}")
    largest = int(values[-1]) if values.size else -1
    if num_classes is None and values.size > max(10, codes.size // 10):
        refuse_numbers_as_classes(label, largest, codes.size)
    # Class numbers may start at 1 or have gaps; one that never occurs would be a useless output of the model.
    is_within = num_classes is not None and largest < num_classes  # the caller counts the ones that never occur
    if values.size and not is_within and (values[0] > 0 or 2 * values.size < largest + 1):
        positions = np.searchsorted(values, codes)
        return np.where(codes < 0, -1, positions), tuple(values.tolist())
    return codes, None


def _zeros_and_ones(column: Series, label: str) -> np.ndarray:
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    is_wrong = ~((values == 0) | (values == 1))
    if is_wrong.any():
        row = int(is_wrong.argmax())
        raise ValueError(f"{label} is one of several classes, which must be 0 or 1, got {values[row]:g} in row {row}")
    return values.astype(np.uint8)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")
