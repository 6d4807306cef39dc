"""Pajek's network files (Batagelj and Mrvar, 1998): ``*Vertices`` with names, ``*Edges``, ``*Arcs`` and lists of them.

networkx takes nodes of equal names as one and lists of neighbours as weighted edges, so the file is read here.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.sources.text_files import lines_of

__all__ = ["read_pajek"]

_WORD = re.compile(r'"([^"]*)"|(\S+)')
_SECTIONS = ("*vertices", "*edges", "*arcs", "*edgeslist", "*arcslist")


def read_pajek(path: Path, *, drop_edge_data: bool = False) -> EdgeList:
    """Read a ``.net`` file: names of nodes become ids, the third number of a line of an edge its weight.

    Raises:
        ValueError: if the file is malformed or has a matrix; the text has the line.
    """
    num_nodes, section, names = -1, "", {}
    ends: list[tuple[int, int]] = []
    weights: list[float] = []
    is_directed = False
    for number, line in enumerate(lines_of(path), 1):
        words = [quoted or word for quoted, word in _WORD.findall(line)]
        if not words or words[0].startswith("%"):
            continue
        try:
            if words[0].startswith("*"):
                section = words[0].lower()
                if section == "*network":
                    continue
                if section not in _SECTIONS:
                    raise ValueError
                if section == "*vertices":
                    num_nodes = int(words[1])
                continue
            if section == "*vertices":
                names[int(words[0])] = words[1] if len(words) > 1 else words[0]
                continue
            u = int(words[0])
            found = words[1:] if section.endswith("list") else words[1:2]
            for v in (int(word) for word in found):
                weight = float(words[2]) if len(words) > 2 and not section.endswith("list") else 1.0
                if not 1 <= min(u, v) <= max(u, v) <= num_nodes:
                    raise ValueError
                ends.append((u, v))
                weights.append(weight)
                if section.startswith("*arcs"):
                    is_directed = True
                elif u != v:  # an undirected edge, in both directions
                    ends.append((v, u))
                    weights.append(weight)
        except (IndexError, ValueError):
            raise ValueError(
                f"line {number} of {path} must be part of Pajek's {', '.join(_SECTIONS)} with nodes from 1 to "
                f"{max(num_nodes, 0)}, got {line.strip()[:40]!r}; correct it, or pass a *Matrix to gnnqlab.from_scipy"
            ) from None
    if num_nodes < 0:
        raise ValueError(f"{path} must have a line '*Vertices N', got none; save other formats with another suffix")
    src, dst = np.array(ends, dtype=np.int64).reshape(-1, 2).T - 1  # (M, 2) -> (M,), (M,)
    all_names = [names.get(node, str(node)) for node in range(1, num_nodes + 1)]
    is_unique = len(set(all_names)) == num_nodes
    return EdgeList(
        name=path.name.split(".")[0],
        src=src,
        dst=dst,
        num_nodes=num_nodes,
        edge_weights=None if drop_edge_data else np.array(weights),
        both_ways=not is_directed,
        ids=all_names if names and is_unique else None,
        notes=(
            f"{path.name}: Pajek; places and drawing of nodes left out",
            *(() if is_unique else ("left out: names of nodes, since several nodes have the same",)),
        ),
    )
