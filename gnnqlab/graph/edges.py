"""From an edge list in any order to CSR by destination.

Shape legend: N nodes, M edges as given, E edges stored.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from gnnqlab.graph.array_checks import MAX_NODES

__all__ = ["SelfLoops", "build_csr", "checked_ends", "compressed", "edge_list"]

SelfLoops = Literal["add", "keep", "remove"]


def build_csr(
    src: object,
    dst: object,
    *,
    num_nodes: int,
    symmetrize: bool = True,
    deduplicate: bool = True,
    self_loops: SelfLoops = "add",
) -> tuple[Tensor, Tensor]:
    """Sort edges by destination, then by source, and compress the rows.

    The defaults are the papers' convention: the reverse of every edge is added, repeated edges
    are kept once, existing self loops are removed and exactly one per node is added.

    Args:
        src, dst: integers, shape ``(M,)``, each in ``[0, num_nodes)``; any array-like.
        num_nodes: number of nodes N, at least 1.
        symmetrize: add ``v -> u`` for every ``u -> v``. Without ``deduplicate`` an edge that the
            list holds in both directions then counts twice each way.
        deduplicate: keep each ``u -> v`` once.
        self_loops: ``"add"`` removes those given and adds one per node, ``"keep"`` leaves them as
            given, ``"remove"`` drops them.

    Returns:
        ``indptr`` int64 ``(N + 1,)`` and ``indices`` int32 ``(E,)``: row v lists its sources.

    Raises:
        TypeError, ValueError: if the lists are not integer, differ in length or leave the range.

    Example:
        >>> indptr, indices = build_csr([0, 0, 1], [1, 1, 1], num_nodes=3)
        >>> indptr.tolist(), indices.tolist()
        ([0, 2, 4, 5], [0, 1, 0, 1, 2])
    """
    source, target = checked_ends(src, dst, num_nodes, self_loops)
    num_nodes = int(num_nodes)
    # One integer per edge, (destination, source) in its high and low bits, sorts in one call.
    shift = max(1, (num_nodes - 1).bit_length())
    forward = (target.astype(np.int64) << shift) | source
    is_loop = source == target
    if self_loops != "keep" and is_loop.any():
        forward = forward[~is_loop]
    keys = [forward]
    if symmetrize:
        reverse = (source.astype(np.int64) << shift) | target
        # A self loop is its own reverse: it must not be counted twice.
        keys.append(reverse[~is_loop] if is_loop.any() else reverse)
        del reverse
    if self_loops == "add":
        node = np.arange(num_nodes, dtype=np.int64)
        keys.append((node << shift) | node)
    key = np.concatenate(keys) if len(keys) > 1 else forward
    del keys, forward, source, target, is_loop
    key.sort()
    if deduplicate and key.size:
        first = np.empty(key.size, dtype=bool)
        first[0] = True
        np.not_equal(key[1:], key[:-1], out=first[1:])
        if not first.all():
            key = key[first]
    return compressed(key, num_nodes, shift)


def checked_ends(src: object, dst: object, num_nodes: int, self_loops: SelfLoops) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends of all edges as integer arrays; errors as of ``build_csr``."""
    if not isinstance(num_nodes, (int, np.integer)) or not 1 <= num_nodes <= MAX_NODES:
        raise ValueError(f"num_nodes must be an integer in [1, {MAX_NODES}], got {num_nodes!r}")
    if self_loops not in get_args(SelfLoops):
        raise ValueError(f"self_loops must be one of {get_args(SelfLoops)}, got {self_loops!r}")
    source = _node_ids("src", src, int(num_nodes))
    target = _node_ids("dst", dst, int(num_nodes))
    if source.size != target.size:
        raise ValueError(f"src and dst must have the same length, got {source.size} and {target.size}")
    return source, target


def compressed(key: np.ndarray, num_nodes: int, shift: int) -> tuple[Tensor, Tensor]:
    """Return ``indptr`` and ``indices`` of sorted keys ``destination << shift | source``, which it writes over."""
    indices = (key & ((1 << shift) - 1)).astype(np.int32)
    key >>= shift
    indptr = np.zeros(num_nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(key, minlength=num_nodes), out=indptr[1:])
    return torch.from_numpy(indptr), torch.from_numpy(indices)


def edge_list(indptr: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Expand CSR by destination to ``(src, dst)``, both int32, in the stored order.

    Example:
        >>> src, dst = edge_list(torch.tensor([0, 0, 2]), torch.tensor([0, 1], dtype=torch.int32))
        >>> src.tolist(), dst.tolist()
        ([0, 1], [1, 1])
    """
    node = torch.arange(indptr.numel() - 1, dtype=torch.int32)
    return indices, torch.repeat_interleave(node, indptr.diff())


def _node_ids(what: str, ids: object, num_nodes: int) -> np.ndarray:
    array = np.asarray(ids)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"{what} must be a one-dimensional list of integers, got {array.dtype} of shape {array.shape}")
    if array.size and (array.min() < 0 or array.max() >= num_nodes):
        at = int(np.argmax((array < 0) | (array >= num_nodes)))
        raise ValueError(
            f"{what} must hold node ids in [0, {num_nodes}), got {array[at]} at position {at}; "
            "raise num_nodes or renumber the nodes"
        )
    # numpy does not combine uint64 with signed integers.
    return array.astype(np.int64) if array.dtype == np.uint64 else array
