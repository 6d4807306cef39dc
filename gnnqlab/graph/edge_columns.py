"""Features of edges by name: which columns of a source they are, put side by side."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["named_features", "take_features"]


def named_features(given: object) -> tuple[str, ...]:
    """Return the names among what a reader's ``edge_features=`` says; none where it is the values themselves.

    Example:
        >>> named_features("edge_attr"), named_features(["length", "lanes"]), named_features(np.ones((3, 2)))
        (('edge_attr',), ('length', 'lanes'), ())
    """
    if isinstance(given, str):
        return (given,)
    listed = isinstance(given, Sequence) and bool(given) and all(isinstance(name, str) for name in given)
    return tuple(given) if listed else ()  # type: ignore[arg-type]


def take_features(given: object, known: Collection[str], column: Callable[[str], Any]) -> Any:
    """Return features of edges ``(M, F)``: those named, side by side in the order of the names, or those given.

    Args:
        given: ``None``, a name, a sequence of names, or the values.
        known: names of the values that edges have.
        column: returns the values of a name, ``(M,)`` or ``(M, k)``.

    Raises:
        ValueError: if a name is none of those there, or stands twice.

    Example:
        >>> columns = {"length": np.array([1.0, 2.0]), "kind": np.array([[0, 1], [1, 0]])}
        >>> take_features(["kind", "length"], columns, columns.__getitem__).tolist()
        [[0.0, 1.0, 1.0], [1.0, 0.0, 2.0]]
    """
    names = named_features(given)
    if not names:
        return given
    unknown = [name for name in names if name not in known]
    if unknown or len(set(names)) < len(names):
        wrong = unknown[0] if unknown else next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"edge_features must name values that edges have, each once, got {wrong!r}; there are "
            f"{', '.join(known) or 'none'}"
        )
    columns = [_rows(column(name)) for name in names]
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)


def _rows(values: Any) -> np.ndarray:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    return array[:, None] if array.ndim == 1 else array
