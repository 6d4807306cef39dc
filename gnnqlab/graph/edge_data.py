"""What edges carry beside their two ends: training here has no place for it, so it is never dropped in silence."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

__all__ = ["refuse_edge_data"]


def refuse_edge_data(reader: str, edge_data: Mapping[str, object], *, drop: bool) -> None:
    """Refuse edges that carry values of their own, unless the caller lets them go.

    Models here weigh an edge by the degrees of its ends, or by attention. A weight of 1 on every edge says nothing
    beyond the edge, and what DGL notes for itself (``_ID``, ``_TYPE``, ``__orig__``) is about the library: both pass.

    Args:
        reader: the function that reads the graph, for the error.
        edge_data: values by name, each with an entry an edge.
        drop: what the reader's ``drop_edge_data`` says.

    Raises:
        ValueError: if there are such values and ``drop`` is false.

    Example:
        >>> refuse_edge_data("from_pyg", {"edge_weight": np.ones(3)}, drop=False)
        >>> refuse_edge_data("from_pyg", {"edge_weight": np.array([0.5, 1.0])}, drop=False)
        Traceback (most recent call last):
        ValueError: from_pyg takes edges without values of their own, got edge_weight; ...
    """
    carried = [key for key, values in edge_data.items() if not key.startswith("_") and not _all_one(values)]
    if carried and not drop:
        raise ValueError(
            f"{reader} takes edges without values of their own, got {', '.join(carried)}; models here weigh an edge by "
            "the degrees of its ends or by attention; gnnqlab.load(..., drop_edge_data=True) makes a graph without "
            "these values"
        )


def _all_one(values: object) -> bool:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    return array.dtype.kind in "biuf" and bool((array == 1).all())
