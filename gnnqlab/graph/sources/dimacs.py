"""Graph files of the DIMACS challenges: colouring and cliques (``e u v``), shortest paths (``a u v weight``)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.sources.text_files import lines_of

__all__ = ["read_dimacs"]


def read_dimacs(path: Path, *, drop_edge_data: bool = False) -> EdgeList:
    """Read ``p KIND N M``, edges ``e u v`` and arcs ``a u v [weight]``; nodes are counted from 1.

    Raises:
        ValueError: if the file is malformed; the text has the line.
    """
    num_nodes, ends, weights, others = -1, [], [], set()
    for number, line in enumerate(lines_of(path), 1):
        kind, *words = line.split() or ["c"]
        try:
            if kind == "p":
                num_nodes = int(words[-2])
            elif kind in ("e", "a"):
                ends.append((int(words[0]), int(words[1])))
                weights.append(float(words[2]) if len(words) > 2 else 1.0)
                if not 1 <= min(ends[-1]) <= max(ends[-1]) <= num_nodes:
                    raise ValueError
            elif kind != "c":
                others.add(kind)
        except (IndexError, ValueError):
            raise ValueError(
                f"line {number} of {path} must be 'p KIND NODES EDGES', 'e u v' or 'a u v weight' with nodes from 1 to "
                f"{max(num_nodes, 0)}, got {line[:40]!r}; save other formats with another suffix"
            ) from None
    if num_nodes < 0:
        raise ValueError(
            f"{path} must have a line 'p KIND NODES EDGES', got none; save other formats with another suffix"
        )
    src, dst = np.array(ends, dtype=np.int64).reshape(-1, 2).T - 1  # (M, 2) -> (M,), (M,)
    return EdgeList(
        name=path.name.split(".")[0],
        src=src,
        dst=dst,
        num_nodes=num_nodes,
        edge_weights=None if drop_edge_data else np.array(weights),
        notes=(
            f"{path.name}: DIMACS, {num_nodes} nodes, counted from 1",
            *((f"left out: lines of {', '.join(sorted(others))}",) if others else ()),
        ),
    )
