"""From an edge list with a weight an edge to CSR by destination.

Shape legend: N nodes, M edges as given, E edges stored.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gnnqlab.graph.edges import SelfLoops, checked_ends, compressed

__all__ = ["as_edge_weights", "build_weighted_csr", "expect_one_weight"]


def build_weighted_csr(
    src: object,
    dst: object,
    weights: object,
    *,
    num_nodes: int,
    symmetrize: bool = True,
    deduplicate: bool = True,
    self_loops: SelfLoops = "add",
) -> tuple[Tensor, Tensor, Tensor]:
    """Sort weighted edges by destination, source and weight, and compress the rows, under the rules of ``build_csr``.

    A weight of 0 is no edge. The reverse of an edge has its weight; a self loop that is added has weight 1, as in
    ``A + I`` (Kipf & Welling, 2017). With ``deduplicate`` an edge that stands several times, or both ways under
    ``symmetrize``, must have one weight: which of several would be meant, or their sum, nobody says.

    Args:
        src, dst, num_nodes, symmetrize, deduplicate, self_loops: as for ``build_csr``.
        weights: finite numbers of at least 0, shape ``(M,)`` or ``(M, 1)``; any array-like. They become float32.

    Returns:
        ``indptr`` int64 ``(N + 1,)``, ``indices`` int32 ``(E,)`` and the weights, float32 ``(E,)``, all above 0.

    Raises:
        TypeError, ValueError: as ``build_csr``; and if a weight is negative, NaN or infinite, or an edge has several.

    Example:
        >>> indptr, indices, weights = build_weighted_csr([0, 0], [1, 2], [0.5, 0.0], num_nodes=3)
        >>> indptr.tolist(), indices.tolist(), weights.tolist()
        ([0, 2, 4, 5], [0, 1, 0, 1, 2], [1.0, 0.5, 0.5, 1.0, 1.0])
    """
    source, target = checked_ends(src, dst, num_nodes, self_loops)
    num_nodes = int(num_nodes)
    weight = as_edge_weights(weights, source, target)
    is_loop = source == target
    kept = weight > 0 if self_loops == "keep" else (weight > 0) & ~is_loop
    source, target, weight, is_loop = (each[kept] for each in (source.astype(np.int64), target, weight, is_loop))
    shift = max(1, (num_nodes - 1).bit_length())
    keys, values = [(target.astype(np.int64) << shift) | source], [weight]
    if symmetrize:
        keys.append(((source << shift) | target)[~is_loop])
        values.append(weight[~is_loop])
    if self_loops == "add":
        node = np.arange(num_nodes, dtype=np.int64)
        keys.append((node << shift) | node)
        values.append(np.ones(num_nodes, dtype=np.float32))
    key, weight = np.concatenate(keys), np.concatenate(values)
    order = np.lexsort((weight, key))
    key, weight = key[order], weight[order]
    if deduplicate and key.size:
        again = np.zeros(key.size, dtype=bool)
        np.equal(key[1:], key[:-1], out=again[1:])
        expect_one_weight(key, weight, again, shift)
        key, weight = key[~again], weight[~again]
    return *compressed(key, num_nodes, shift), torch.from_numpy(weight)


def as_edge_weights(weights: object, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return weights as float32 ``(M,)``.

    Raises:
        TypeError: if they are not numbers.
        ValueError: if there is not one an edge, or one is negative, NaN or, as float32, infinite.
    """
    if isinstance(weights, Tensor):
        weights = weights.detach().cpu().numpy()
    given = np.asarray(weights)
    if given.dtype.kind not in "biuf":
        raise TypeError(f"edge weights must be numbers, got {type(weights).__name__} that holds {given.dtype}")
    flat = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    if flat.shape != source.shape:
        raise ValueError(f"edge weights must be one for each of {source.size} edges, got shape {given.shape}")
    with np.errstate(over="ignore"):
        weight = flat.astype(np.float32)
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        at = int(wrong.argmax())
        raise ValueError(
            f"edge weights must be finite and not negative (0: no edge), got {flat[at]} on the edge {source[at]} -> "
            f"{target[at]}: convolutions divide by square roots of their sums; shift or clip them, or build the graph "
            "without weights"
        )
    return weight


def expect_one_weight(key: np.ndarray, weight: np.ndarray, again: np.ndarray, shift: int) -> None:
    """Refuse sorted edges of which one stands again with another weight.

    Raises:
        ValueError: naming the first.
    """
    differs = again.copy()
    differs[1:] &= weight[1:] != weight[:-1]
    if differs.any():
        at = int(differs.argmax())
        source, target = int(key[at]) & ((1 << shift) - 1), int(key[at]) >> shift
        raise ValueError(
            f"an edge that is kept once must have one weight, got {weight[at - 1]:g} and {weight[at]:g} for {source} "
            f"-> {target}; symmetrize=False keeps an edge and its reverse apart, deduplicate=False all edges given, "
            "or add them up before"
        )
