"""Where a measurement's graph lies on this machine."""

from __future__ import annotations

from pathlib import Path

__all__ = ["find_graph"]


def find_graph(name: str) -> str | None:
    """Return the path of ``NAME.npz`` among downloaded data or in ``shared/data``; generated graphs are their name.

    ``None`` if it is not here: a measurement leaves its rows out and says so.

    Example:
        >>> find_graph("sbm:60,3,6"), find_graph("no-such-graph")
        ('sbm:60,3,6', None)
    """
    from gnnqlab.graph.sources.where import data_root

    if ":" in name:
        return name
    places = [Path(data_root()), Path("shared/data"), Path("../shared/data")]
    return next((str(path) for place in places if (path := place / f"{name}.npz").exists()), None)
