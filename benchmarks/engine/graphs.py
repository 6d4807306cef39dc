"""Paths of the benchmarks' graphs on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["find_graph", "find_graphs", "graph_or_digits"]


def find_graph(name: str) -> str | None:
    """Return the path of ``NAME.npz`` in the data root or in ``shared/data``; a generated graph is its own name.

    ``None`` if there is no such file: a measurement then omits its rows and reports it.

    Example:
        >>> find_graph("sbm:60,3,6"), find_graph("no-such-graph")
        ('sbm:60,3,6', None)
    """
    from gnnqlab.graph.sources.where import data_root

    if ":" in name:  # a generated graph, such as sbm:60,3,6
        return name
    # from the repository, and from a folder within it
    places = [Path(data_root()), Path("shared/data"), Path("../shared/data")]
    return next((str(path) for place in places if (path := place / f"{name}.npz").exists()), None)


def find_graphs(named: str | None, usual: Sequence[str], *, between: str) -> list[str]:
    """Return the named graphs, or the default ones that exist here, or ``digits`` if none does.

    Args:
        named: names or paths, in one string.
        usual: default names.
        between: separator of the names.

    Example:
        >>> find_graphs("sbm:60,3,6;digits", [], between=";"), find_graphs(None, ["no-such-graph"], between=";")
        (['sbm:60,3,6', 'digits'], ['digits'])
    """
    if named is not None:
        return [find_graph(name) or name for name in named.split(between)]
    return [path for name in usual if (path := find_graph(name)) is not None] or ["digits"]


def graph_or_digits(named: str | None, usual: str) -> str:
    """Return the path of the named graph, or of the default one, or ``digits`` if the default does not exist here.

    Example:
        >>> graph_or_digits("sbm:60,3,6", "cora"), graph_or_digits(None, "no-such-graph")
        ('sbm:60,3,6', 'digits')
    """
    return find_graph(named or usual) or named or "digits"
