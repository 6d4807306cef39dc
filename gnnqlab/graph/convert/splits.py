"""Splits of graphs of other libraries: masks, lists of nodes, a dictionary of lists, or a number or word per node."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnnqlab.graph.edge_attributes import as_array

__all__ = ["SPLIT_NAMES", "Split", "read_split"]

_PARTS = {"train": ("train", "training"), "val": ("val", "valid", "validation", "dev"), "test": ("test", "testing")}
_PATTERNS = (
    "{}_mask",
    "{}_masks",
    "{}_idx",
    "{}_index",
    "{}_indices",
    "{}_id",
    "{}_ids",
    "{}_nodes",
    "{}_nid",
    "idx_{}",
)
_BY_PART = {pattern.format(word): part for pattern in _PATTERNS for part, words in _PARTS.items() for word in words}
# As in trainMask.
_BY_PART |= {re.sub(r"_(.)", lambda match: match[1].upper(), name): part for name, part in _BY_PART.items()}
_TOGETHER = ("splitIdx", "split_idx", "split", "splits", "split_mask")
_NO_PART = ("", "none", "nan", "unlabelled", "unlabeled")
_WAY_OUT = "remove it, and pass the split with graph.with_split(train_idx, val_idx, test_idx)"
SPLIT_NAMES = frozenset({*_BY_PART, *_TOGETHER})
"""Usual names of splits."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """Nodes of the splits, as masks or node numbers; ``None`` for absent ones."""

    train: np.ndarray | None = None
    val: np.ndarray | None = None
    test: np.ndarray | None = None
    note: str = ""


def read_split(keys: Sequence[str], value: Callable[[str], Any], num_nodes: int, *, split: int = 0) -> Split:
    """Return the split in named values.

    Args:
        keys: existing names.
        value: function that returns the values of a name.
        num_nodes: N.
        split: column of masks ``(N, S)``, or row of masks ``(S, N)``, if there are several splits.

    Raises:
        ValueError: if names exclude each other, ``split`` does not exist, or a value is no split.

    Example:
        >>> values = {"split_idx": {"train": [0, 1], "valid": [2], "test": [3]}}
        >>> found = read_split(list(values), values.__getitem__, 4)
        >>> found.train.tolist(), found.val.tolist(), found.note
        ([0, 1], [2], 'split: from split_idx')
    """
    present = [key for key in keys if key in SPLIT_NAMES and value(key) is not None]
    together = [key for key in present if key in _TOGETHER]
    by_part = {_BY_PART[key]: key for key in present if key in _BY_PART}
    if len(together) + bool(by_part) > 1 or len(by_part) < len([key for key in present if key in _BY_PART]):
        raise ValueError(f"a graph must have one split, got {', '.join(present)}; remove all but one")
    if not present:
        if split:
            raise ValueError(f"split must be 0 for a graph without several splits, got {split}")
        return Split()
    if together:
        parts = _of_one_value(together[0], value(together[0]), num_nodes)
    else:
        parts = {part: as_array(value(key)) for part, key in by_part.items()}
    if "train" not in parts:
        raise ValueError(f"a split must have training nodes, got {', '.join(present)}; add train_mask")
    note = f"split: from {', '.join(present)}"
    counts = {array.shape[_axis_of_splits(array, num_nodes)] for array in parts.values() if array.ndim == 2}
    if counts:
        count = counts.pop()
        if counts or not 0 <= split < count:
            raise ValueError(f"split must be in [0, {count}), the number of splits in the masks, got {split}")
        parts = {
            part: np.take(array, split, _axis_of_splits(array, num_nodes)) if array.ndim == 2 else array
            for part, array in parts.items()
        }
        note += f", number {split} of {count}, split=K chooses another" if count > 1 else ""
    elif split:
        raise ValueError(f"split must be 0 for a graph without several splits, got {split}")
    names = by_part if not together else dict.fromkeys(parts, together[0])
    return Split(**{part: _mask_or_nodes(names[part], array, num_nodes) for part, array in parts.items()}, note=note)


def _of_one_value(name: str, value: Any, num_nodes: int) -> dict[str, np.ndarray]:
    if isinstance(value, Mapping):
        known = {word: part for part, words in _PARTS.items() for word in words}
        unknown = [str(key) for key in value if str(key).lower() not in known]
        if unknown:
            raise ValueError(f"{name} must have the keys train, valid and test, got {', '.join(unknown)}")
        return {known[str(key).lower()]: as_array(nodes) for key, nodes in value.items()}
    array = as_array(value)
    if array.shape != (num_nodes,):
        raise ValueError(
            f"{name} must be a dictionary of train, valid and test, or one value for each of {num_nodes} nodes, got "
            f"shape {array.shape}; {_WAY_OUT}"
        )
    if array.dtype.kind in "iu":
        known_values = set(np.unique(array).tolist())
        # Only 0 and 1 could also be a mask, so all three parts must occur.
        if not {0, 1, 2} <= known_values <= {-1, 0, 1, 2}:
            raise ValueError(
                f"{name} must be 0 for training, 1 for validation and 2 for test nodes, got only "
                f"{sorted(known_values)[:4]}; {_WAY_OUT}"
            )
        return {part: array == number for number, part in enumerate(_PARTS)}
    words = np.char.lower(array.astype(str))
    parts = {part: np.isin(words, names) for part, names in _PARTS.items()}
    is_other = ~np.isin(words, _NO_PART) & ~np.any(list(parts.values()), axis=0)
    if is_other.any():
        raise ValueError(
            f"{name} must be train, val, test or empty for every node, got {str(array[is_other][0])!r}; {_WAY_OUT}"
        )
    return parts


def _axis_of_splits(array: np.ndarray, num_nodes: int) -> int:
    """Return the axis that counts the splits of masks: columns (N, S), or rows (S, N)."""
    return 1 if array.shape[0] == num_nodes else 0


def _mask_or_nodes(name: str, array: np.ndarray, num_nodes: int) -> np.ndarray:
    """Return a mask as bool; 0 and 1 for every node are a mask, other whole numbers are nodes.

    Raises:
        ValueError: if a mask has another value or size, or nodes are not whole numbers.
    """
    flat = array.reshape(-1)
    if flat.dtype == bool:
        return flat
    if flat.dtype.kind not in "iuf" and flat.size:
        raise ValueError(f"{name} must be a mask or hold node numbers, got {flat.dtype}; {_WAY_OUT}")
    is_mask = flat.shape == (num_nodes,) and num_nodes > 2 and bool(np.isin(flat, (0, 1)).all())
    if "mask" in name.lower() and not is_mask and flat.shape != (num_nodes,):
        raise ValueError(f"{name} must be 0 or 1 for each of {num_nodes} nodes, got {flat.size} values; {_WAY_OUT}")
    if "mask" in name.lower() and not np.isin(flat, (0, 1)).all():
        wrong = flat[~np.isin(flat, (0, 1))][0]
        raise ValueError(f"{name} must be 0 or 1 for each of {num_nodes} nodes, got {wrong}; {_WAY_OUT}")
    if is_mask or "mask" in name.lower():
        return flat.astype(bool)
    if (flat != np.floor(flat)).any():
        wrong = flat[flat != np.floor(flat)][0]
        raise ValueError(f"{name} must hold node numbers, got {wrong}; {_WAY_OUT}")
    return flat.astype(np.int64)
