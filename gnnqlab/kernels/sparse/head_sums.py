"""Aggregation of several heads on codes: all heads in one pass, or one pass per head, whichever is measured as faster.

TANGO (section 3.3, SPMM) chooses between one product of the graph, all heads' weights and all rows, and one product of
a weighted graph and rows for each head. The first reads the graph once and fetches whole rows; the second has the
faster kernel for wide heads. The crossover depends on the machine, so it is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.huge_pages import empty_in_huge_pages
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.aggregate import QuantizedRows, spmm
from gnnqlab.kernels.sparse.int8_edges import int8_weighted_sum

__all__ = ["WAYS", "head_sums", "measured_ways"]

WAYS = ("measured", "together", "apart")
_MIN_EDGES = 1 << 14
"""Minimum number of edges for a measurement, which costs more than it gains on smaller graphs."""
_TRIES = 2

_Case = tuple[int, int, int, int, int]  # as in `measured_ways`
_measured: dict[_Case, str] = {}


def head_sums(adj: Adjacency, weights: Tensor, x: QuantizedRows, *, heads: int, way: str = "measured") -> Tensor:
    """Compute ``out[i, k] = sum_e weights[e, k] x[source of e, k]``, float32 ``(R, K, F)``; no gradient is recorded.

    The compiled kernels add terms in the same order either way, so the choice affects the time only, and results are
    bit-identical. On CUDA, where a measurement would synchronize, and without compiled kernels, ``"measured"`` means
    ``"together"``.

    Args:
        adj, weights, x, heads: as for :func:`gnnqlab.kernels.sparse.int8_edges.int8_weighted_sum`.
        way: ``"together"``, one pass; ``"apart"``, one pass per head; ``"measured"``, the faster of the two, timed at
            the first sum of its kind (heads, features, and edges and rows to a power of two) in this process.

    Raises:
        ValueError: if ``way`` is unknown or a shape does not match.

    Example:
        >>> import torch
        >>> adj = Adjacency(torch.tensor([0, 1]), torch.tensor([0], dtype=torch.int32), num_columns=1)
        >>> one = QuantizedRows(torch.tensor([[2, 3]], dtype=torch.int8), torch.tensor([0.5]))
        >>> head_sums(adj, torch.tensor([[1.0, 2.0]]), one, heads=2, way="apart").tolist()
        [[[1.0], [3.0]]]
    """
    if way not in WAYS:
        raise ValueError(f"way must be one of {WAYS}, got {way!r}")
    if way == "apart":
        return _sum_per_head(adj, weights, x, heads)
    is_measured = way == "measured" and adj.num_edges >= _MIN_EDGES
    if is_measured and x.codes.is_cpu and native.active(x.codes.device):
        features = x.shape[1] // heads
        # Sizes to a power of two, so that graphs of similar size share a measurement.
        case = (heads, features, adj.num_edges.bit_length(), adj.num_columns.bit_length(), native.threads())
        if case not in _measured:
            _measured[case] = _faster(
                together=lambda: int8_weighted_sum(adj, weights, x, heads=heads),
                apart=lambda: _sum_per_head(adj, weights, x, heads),
            )
        if _measured[case] == "apart":
            return _sum_per_head(adj, weights, x, heads)
    return int8_weighted_sum(adj, weights, x, heads=heads)


def measured_ways() -> dict[tuple[int, int, int, int, int], str]:
    """Return the choices so far, by (heads, features, bit length of edges, bit length of columns, threads)."""
    return dict(_measured)


def _faster(**ways: Callable[[], object]) -> str:
    """Return the name of the function with the shortest time, the minimum of interleaved calls."""
    seconds = dict.fromkeys(ways, float("inf"))
    # Interleaved, so that a disturbance does not slow one way only; the minimum drops the cold first call.
    for _ in range(_TRIES):
        for name, run in ways.items():
            start = time.perf_counter()
            run()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return min(seconds, key=seconds.__getitem__)


def _sum_per_head(adj: Adjacency, weights: Tensor, x: QuantizedRows, heads: int) -> Tensor:
    if x.shape[1] % heads or weights.shape != (adj.num_edges, heads):
        return int8_weighted_sum(adj, weights, x, heads=heads)  # raises the error of wrong shapes
    features = x.shape[1] // heads  # F
    out = empty_in_huge_pages(x.codes, adj.num_rows, heads, features)
    for head in range(heads):
        # The structure is shared and checked already; the weights of a head are a column, (E, K) -> (E,).
        matrix = Adjacency.of_checked(
            adj.indptr, adj.indices, weights[:, head].contiguous(), num_columns=adj.num_columns
        )
        rows = QuantizedRows(x.codes[:, head * features : (head + 1) * features], x.scales)  # (N, F), a view
        spmm(matrix, rows, out=out[:, head])  # (R, F), a strided view
    return out
