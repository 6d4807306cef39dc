"""Graph files of METIS (Karypis and Kumar, 1998): a line of neighbours per node, counted from 1.

The first line is ``N M [format [weights per node]]``; the digits of the format are 1 if nodes have a size, nodes have
weights, edges have weights. Lines that start with ``%`` are comments. Shape legend: N nodes, M edges.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.sources.text_files import lines_of

__all__ = ["read_metis"]


def read_metis(path: Path, *, drop_edge_data: bool = False) -> EdgeList:
    """Read a ``.graph`` file; sizes and weights of nodes are left out, with a note.

    Raises:
        ValueError: if the file is malformed; the text has the line.
    """
    # An empty line is a node without neighbours, so it counts; comments do not.
    numbered = [(number, line) for number, line in enumerate(lines_of(path), 1) if not line.lstrip().startswith("%")]
    while numbered and not numbered[0][1].strip():
        del numbered[0]
    header = [_number(word) for word in numbered[0][1].split()] if numbered else []
    if not 2 <= len(header) <= 4 or min(header) < 0:
        raise ValueError(
            f"{path} must start with the numbers of nodes and edges, as METIS's format, got "
            f"{numbered[0][1][:40] if numbered else 'an empty file'!r}; save other formats with another suffix"
        )
    num_nodes, num_edges = header[:2]
    digits = f"{header[2] if len(header) > 2 else 0:03d}"
    if len(digits) > 3 or not set(digits) <= {"0", "1"}:
        raise ValueError(f"the format of {path} must be three digits of 0 and 1, got {digits}; correct the first line")
    has_size, has_node_weights, has_weights = (digit == "1" for digit in digits)
    num_skipped = has_size + (header[3] if len(header) > 3 else 1) * has_node_weights
    rows = numbered[1 : num_nodes + 1]
    if len(rows) < num_nodes or any(line.strip() for _, line in numbered[num_nodes + 1 :]):
        found = len(numbered) - 1
        raise ValueError(f"{path} must have a line for each of {num_nodes} nodes, got {found}; correct the first line")
    neighbours, weights, degrees = [], [], []
    for number, line in rows:
        values = np.array(line.split()[num_skipped:], dtype=np.float64) if _is_numeric(line) else None
        if values is None or (has_weights and values.size % 2):
            raise ValueError(
                f"line {number} of {path} must list neighbours{' and weights in turn' if has_weights else ''}, got "
                f"{line.strip()[:40]!r}; correct it, or the format in the first line"
            )
        neighbours.append(values[::2] if has_weights else values)
        weights.append(values[1::2])
        degrees.append(neighbours[-1].size)
    dst = np.concatenate([*neighbours, np.zeros(0)]).astype(np.int64) - 1  # counted from 1
    src = np.repeat(np.arange(num_nodes), degrees)  # (2 M,)
    if dst.size and not 0 <= dst.min() <= dst.max() < num_nodes:
        wrong = int((dst < 0).argmax()) if dst.min() < 0 else int(dst.argmax())
        raise ValueError(
            f"neighbours in {path} must be numbers from 1 to {num_nodes}, got {dst[wrong] + 1} for node "
            f"{src[wrong] + 1}; count nodes from 1"
        )
    if dst.size != 2 * num_edges:
        raise ValueError(
            f"{path} must list each of {num_edges} edges for both of its nodes, got {dst.size} neighbours; correct the "
            "number of edges in the first line"
        )
    weight = np.concatenate([*weights, np.zeros(0)]) if has_weights and not drop_edge_data else None
    return EdgeList(
        name=path.name.split(".")[0],
        src=src,
        dst=dst,
        num_nodes=num_nodes,
        edge_weights=weight,
        both_ways=_is_symmetric(src, dst, weight),
        notes=(
            f"{path.name}: METIS, {num_nodes} nodes, {num_edges} edges, counted from 1",
            *((f"left out: {num_skipped} sizes and weights per node",) if num_skipped else ()),
        ),
    )


def _is_symmetric(src: np.ndarray, dst: np.ndarray, weight: np.ndarray | None) -> bool:
    """Return True if every edge is listed in both directions with equal weights."""
    values = np.ones(src.size) if weight is None else weight
    forward, backward = np.lexsort((values, dst, src)), np.lexsort((values, src, dst))
    pairs = ((src, dst), (dst, src), (values, values))
    return all(np.array_equal(first[forward], second[backward]) for first, second in pairs)


def _number(word: str) -> int:
    return int(word) if word.isdecimal() else -1


def _is_numeric(line: str) -> bool:
    return all(word.replace(".", "", 1).isdecimal() for word in line.split())
