"""Lower bounds on the size of a graph, without loading it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from gnnqlab.graph.sources.catalogue import known_size
from gnnqlab.graph.storage import is_saved_graph

__all__ = ["Size", "least_size"]


@dataclass(frozen=True, kw_only=True)
class Size:
    """Lower bounds on the size of a graph."""

    nodes: int
    edges: int
    """Number of stored edges, counting both directions."""
    features: int
    """Number of feature columns."""
    feature_bytes: int
    """Bytes of all features in training: four per element if dense."""
    classes: int | None = None
    """Number of classes; ``None`` if unknown."""


def least_size(source: str | Path) -> Size | None:
    """Return the minimum size of a graph by name or path; ``None`` if it is unknown before loading.

    Example:
        >>> least_size("rmat:20,16").nodes
        1048576
    """
    path = Path(source)
    if path.is_dir() and is_saved_graph(path):
        try:
            return _saved(json.loads((path / "graph.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError):
            return None  # a broken file: loading it reports the reason
    sizes = known_size(str(source))
    if sizes is None:
        return None
    nodes, edges, features = sizes
    return Size(nodes=nodes, edges=edges, features=features, feature_bytes=4 * nodes * features)


def _saved(header: dict[str, object]) -> Size | None:
    arrays, columns = header.get("arrays"), header.get("feature_columns")
    if not isinstance(arrays, dict) or not isinstance(columns, int):
        return None
    shapes = {name: shape for name, (_, shape) in arrays.items()}
    nodes = shapes["indptr"][0] - 1
    is_dense = shapes.get("features") == [nodes, columns]
    # For sparse features 0 is a valid lower bound.
    classes = header.get("num_classes")
    return Size(
        nodes=nodes,
        edges=shapes["indices"][0],
        features=columns,
        feature_bytes=4 * nodes * columns if is_dense else 0,
        classes=classes if isinstance(classes, int) else None,
    )
