"""Graphs in the format of METIS (Karypis & Kumar): one line of neighbours per node, counted from 1.

The first line has the numbers of nodes and edges, and optionally a format of three digits (sizes, weights of nodes,
weights of edges) and the number of weights per node. Lines that begin with ``%`` are comments.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gnnqlab.graph.edge_list import EdgeList

__all__ = ["read_metis"]


def read_metis(path: Path, *, drop_edge_data: bool = False) -> EdgeList:
    """Read a ``.graph`` file of METIS; weights of edges are used, those of nodes are left out and said.

    Raises:
        ValueError: if the file is malformed; the text has the line.
    """
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("%")]
    # Empty lines are nodes without neighbours, except before the first line.
    while lines and not lines[0].strip():
        lines.pop(0)
    head = lines[0].split() if lines else []
    if not 2 <= len(head) <= 4 or not all(word.isdecimal() for word in head):
        raise ValueError(
            f"a METIS file must begin with the numbers of nodes and edges, got {' '.join(head[:5])!r} in {path}"
        )
    num_nodes, num_edges = int(head[0]), int(head[1])
    has_sizes, has_node_weights, has_edge_weights = (
        digit == "1" for digit in (head[2] if len(head) > 2 else "").zfill(3)
    )
    num_weights = int(head[3]) if len(head) > 3 else int(has_node_weights)
    rows = [np.array(line.split(), dtype=np.int64) for line in _node_lines(lines[1:], num_nodes, path)]
    skipped = has_sizes + num_weights
    step = 2 if has_edge_weights else 1
    lists = [row[skipped::step] for row in rows]
    if has_edge_weights and any((row.size - skipped) % 2 for row in rows):
        node = next(index for index, row in enumerate(rows) if (row.size - skipped) % 2)
        raise ValueError(
            f"node {node + 1} of {path} must have a weight after each neighbour, got {rows[node].size} numbers"
        )
    target = np.concatenate([*lists, np.empty(0, np.int64)])  # (M,)
    source = np.repeat(np.arange(num_nodes), [each.size for each in lists])
    if target.size and not 1 <= target.min() <= target.max() <= num_nodes:
        wrong = int(target[(target < 1) | (target > num_nodes)][0])
        raise ValueError(f"neighbours in {path} must be counted from 1 to {num_nodes}, got {wrong}")
    if target.size != 2 * num_edges:
        raise ValueError(f"{path} must list its {num_edges} edges at both ends, got {target.size} neighbours")
    weights = (
        np.concatenate([row[skipped + 1 :: 2] for row in rows]) if has_edge_weights and not drop_edge_data else None
    )
    notes = [f"{path.name}: METIS, {num_nodes} nodes, {num_edges} edges, counted from 1"]
    if skipped:
        notes.append("left out: sizes and weights of nodes, which training does not use")
    return EdgeList(
        name=path.stem, src=source, dst=target - 1, num_nodes=num_nodes, edge_weights=weights, both_ways=True,
        notes=tuple(notes),
    )  # fmt: skip


def _node_lines(lines: list[str], num_nodes: int, path: Path) -> list[str]:
    while len(lines) > num_nodes and not lines[-1].strip():
        lines = lines[:-1]
    if len(lines) != num_nodes:
        raise ValueError(f"a METIS file must have a line for each of its {num_nodes} nodes, got {len(lines)} in {path}")
    return lines
