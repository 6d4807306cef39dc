"""Conversion of an edge list in any order, with optional weights and features, to CSR by destination.

Shape legend: N nodes, M edges as given, E edges stored, F features of an edge.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from gnnqlab.graph.array_checks import MAX_NODES, refuse_masked
from gnnqlab.graph.edge_attributes import EdgeAttributes, as_edge_features, as_edge_weights

__all__ = ["CSR", "SelfLoops", "build_csr", "edge_list"]

SelfLoops = Literal["add", "keep", "remove"]


class CSR(NamedTuple):
    """Edges by destination; row v of the matrix lists the sources of v."""

    indptr: Tensor
    """int64 ``(N + 1,)``."""
    indices: Tensor
    """int32 ``(E,)``."""
    weights: Tensor | None
    """float32 ``(E,)``, all above 0; ``None`` if the list had none."""
    features: Tensor | None
    """float32 ``(E, F)``; ``None`` if the list had none."""


def build_csr(
    src: object,
    dst: object,
    weights: object = None,
    features: object = None,
    *,
    num_nodes: int,
    symmetrize: bool = True,
    deduplicate: bool = True,
    self_loops: SelfLoops = "add",
) -> CSR:
    """Sort edges by destination, source, weight and, with features, place in the list, and compress the rows.

    The defaults are the papers' convention: the reverse of every edge is added, repeated edges
    are kept once, existing self loops are removed and exactly one per node is added.

    An edge of weight 0 is dropped. The reverse of an edge has its weight and its features. An added self loop has
    weight 1, as in ``A + I`` (Kipf & Welling, 2017), and zero features; removed self loops lose their attributes. With
    ``deduplicate`` an edge that is listed several times, or in both directions with ``symmetrize``, must have equal
    weights and features each time: choosing one, adding or averaging are all plausible, so the caller decides.

    Args:
        src, dst: integers, shape ``(M,)``, each in ``[0, num_nodes)``; any array-like.
        weights: ``None``, or finite numbers of at least 0, shape ``(M,)`` or ``(M, 1)``; any array-like, converted to
            float32.
        features: ``None``, or finite numbers, shape ``(M, F)``, or ``(M,)`` for one per edge; any array-like, converted
            to float32.
        num_nodes: number of nodes N, at least 1.
        symmetrize: True to add ``v -> u`` for every ``u -> v``. Without ``deduplicate`` an edge that
            is listed in both directions then counts twice in each.
        deduplicate: True to keep each ``u -> v`` once.
        self_loops: ``"add"`` replaces existing ones by one per node, ``"keep"`` leaves them
            unchanged, ``"remove"`` drops them.

    Returns:
        The matrix, with weights and features only if the list has them.

    Raises:
        TypeError, ValueError: if the lists are not integer, differ in length or leave the range; if a weight is
            negative, NaN or infinite, or a feature NaN or infinite; if there is not one weight or one row of features
            per edge; or if a repeated edge has several different weights or features.

    Example:
        >>> indptr, indices, *_ = build_csr([0, 0, 1], [1, 1, 1], num_nodes=3)
        >>> indptr.tolist(), indices.tolist()
        ([0, 2, 4, 5], [0, 1, 0, 1, 2])
        >>> indptr, indices, weights, _ = build_csr([0, 0], [1, 2], [0.5, 0.0], num_nodes=3)
        >>> indptr.tolist(), indices.tolist(), weights.tolist()
        ([0, 2, 4, 5], [0, 1, 0, 1, 2], [1.0, 0.5, 0.5, 1.0, 1.0])
        >>> build_csr([0, 2], [1, 1], features=[[5.0], [7.0]], num_nodes=3).features.flatten().tolist()
        [0.0, 5.0, 5.0, 0.0, 7.0, 7.0, 0.0]
    """
    source, target = _checked_ends(src, dst, num_nodes, self_loops)
    num_nodes, num_listed = int(num_nodes), source.size
    rows = None if features is None else as_edge_features(features, source, target)
    weight = None if weights is None else as_edge_weights(weights, source, target)
    attributes = EdgeAttributes(weight, rows)
    # One integer per edge, with the destination in its high bits and the source in its low bits: one sort suffices.
    shift = max(1, (num_nodes - 1).bit_length())  # bits of a node id
    is_loop = source == target
    is_edge = np.ones(num_listed, dtype=bool) if weight is None else weight > 0  # (M,) bool
    if self_loops != "keep":
        is_edge &= ~is_loop
    # Keys of the edges that remain, of their reverses and of new self loops; masks of the listed edges behind them.
    keys, masks = [_selected((target.astype(np.int64) << shift) | source, is_edge)], [is_edge]
    if symmetrize:
        # A self loop is its own reverse: it must not be counted twice.
        reverses = is_edge & ~is_loop
        keys.append(_selected((source.astype(np.int64) << shift) | target, reverses))
        masks.append(reverses)
    del source, target, is_loop  # frees memory before the keys are sorted
    # Existing self loops were removed above, so each node has exactly one.
    if self_loops == "add":
        node = np.arange(num_nodes, dtype=np.int64)
        keys.append((node << shift) | node)
    key = np.concatenate(keys) if len(keys) > 1 else keys[0]
    del keys
    # Without attributes the keys are sorted alone and in place, which needs the least memory.
    if not attributes:
        key.sort()
        if deduplicate:
            key = _selected(key, ~_repeated(key))
        return CSR(*_compressed(key, num_nodes, shift), None, None)
    place = np.concatenate([each.nonzero()[0] for each in masks])  # (E,) int64
    if self_loops == "add":
        # All added self loops have the position M, one behind the listed edges, where their attributes are added.
        place = np.append(place, np.full(num_nodes, num_listed))
        attributes.add_self_loop()
    order = attributes.order(key, place)  # (E,)
    key, place = key[order], place[order]
    if deduplicate:
        # Equal keys are neighbours; the first of them is used.
        repeats = _repeated(key)
        attributes.require_equal(key, place, repeats, shift)
        key, place = _selected(key, ~repeats), _selected(place, ~repeats)
    return CSR(*_compressed(key, num_nodes, shift), *attributes.select(place))


def _checked_ends(src: object, dst: object, num_nodes: int, self_loops: SelfLoops) -> tuple[np.ndarray, np.ndarray]:
    """Convert both ends of all edges to integer arrays; errors as in ``build_csr``."""
    is_integer = isinstance(num_nodes, (int, np.integer)) and not isinstance(num_nodes, bool)
    if not is_integer or not 1 <= num_nodes <= MAX_NODES:
        raise ValueError(f"num_nodes must be an integer in [1, {MAX_NODES}], got {num_nodes!r}")
    if self_loops not in get_args(SelfLoops):
        raise ValueError(f"self_loops must be one of {get_args(SelfLoops)}, got {self_loops!r}")
    source = _node_ids("src", src, int(num_nodes))
    target = _node_ids("dst", dst, int(num_nodes))
    if source.size != target.size:
        raise ValueError(f"src and dst must have the same length, got {source.size} and {target.size}")
    return source, target


def _selected(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the chosen values, or the array itself if all are chosen."""
    return values if mask.all() else values[mask]


def _repeated(key: np.ndarray) -> np.ndarray:
    """Return True for each sorted key that equals the one before."""
    repeats = np.zeros(key.size, dtype=bool)
    np.equal(key[1:], key[:-1], out=repeats[1:])  # in place, without a temporary array
    return repeats


def _compressed(key: np.ndarray, num_nodes: int, shift: int) -> tuple[Tensor, Tensor]:
    """Build ``indptr`` and ``indices`` from sorted keys ``destination << shift | source``, which are overwritten."""
    indices = (key & ((1 << shift) - 1)).astype(np.int32)  # low bits: source
    key >>= shift  # high bits: destination; in place, to save a copy of E int64
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
    node = torch.arange(indptr.numel() - 1, dtype=torch.int32)  # (N,)
    return indices, torch.repeat_interleave(node, indptr.diff())  # (E,), (E,)


def _node_ids(name: str, ids: object, num_nodes: int) -> np.ndarray:
    refuse_masked(name, ids)
    array = np.asarray(ids)
    # NumPy makes float64 of an empty list.
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be a one-dimensional list of integers, got {array.dtype} of shape {array.shape}")
    if array.size and (array.min() < 0 or array.max() >= num_nodes):
        position = int(np.argmax((array < 0) | (array >= num_nodes)))
        raise ValueError(
            f"{name} must hold node ids in [0, {num_nodes}), got {array[position]} at position {position}; "
            "raise num_nodes or renumber the nodes"
        )
    # numpy does not combine uint64 with signed integers.
    return array.astype(np.int64) if array.dtype == np.uint64 else array
