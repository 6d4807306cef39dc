"""Other libraries' products of a sparse matrix with dense rows; each library that imports here is a rival."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from gnnqlab.kernels.sparse.aggregate import Adjacency

__all__ = ["CSR", "MKL", "PYG", "SUM", "sparse_rivals"]

CSR, SUM, PYG, MKL = "torch.sparse CSR", 'torch.sparse.mm(A, X, "sum")', "PyG EdgeIndex", "MKL"
_TOLERANCE = 1e-4
"""Largest difference of a rival's product, relative to the largest element."""


def sparse_rivals(adj: Adjacency, x: Tensor) -> dict[str, Callable[[], object]]:
    """Return a call per library for ``A x``; matrices are built, and products compared with ours, before.

    A library that does not import is left out.

    Raises:
        ValueError: if a product differs from ours.

    Example:
        >>> import torch
        >>> from benchmarks.kernels.spmm import power_law
        >>> rivals = sparse_rivals(power_law(50, 400), torch.ones(50, 8))
        >>> CSR in rivals, SUM in rivals
        (True, True)
    """
    from gnnqlab.kernels.sparse.aggregate import spmm

    expected = spmm(adj, x)
    calls: dict[str, Callable[[], object]] = {}
    for name, build in _RIVALS.items():
        try:
            call = build(adj, x)
        except ImportError:
            continue
        difference = float((call() - expected).abs().max() / expected.abs().max())
        if difference > _TOLERANCE:
            raise ValueError(f"the product of {name} must be ours, got a relative difference of {difference:.2g}")
        calls[name] = call
    return calls


def _csr(adj: Adjacency) -> Tensor:
    import torch

    assert adj.weights is not None
    with warnings.catch_warnings():  # PyTorch warns that CSR is a beta feature
        warnings.simplefilter("ignore")
        return torch.sparse_csr_tensor(adj.indptr, adj.indices.long(), adj.weights, (adj.num_rows, adj.num_columns))


def _torch_product(adj: Adjacency, x: Tensor) -> Callable[[], Tensor]:
    matrix = _csr(adj)
    return lambda: matrix @ x


def _torch_sum(adj: Adjacency, x: Tensor) -> Callable[[], Tensor]:
    import torch

    matrix = _csr(adj)
    return lambda: torch.sparse.mm(matrix, x, "sum")


def _pyg_product(adj: Adjacency, x: Tensor) -> Callable[[], Tensor]:
    import torch
    from torch_geometric import EdgeIndex

    rows = torch.repeat_interleave(torch.arange(adj.num_rows), adj.indptr.diff())
    edges = EdgeIndex(
        torch.stack([rows, adj.indices.long()]), sparse_size=(adj.num_rows, adj.num_columns), sort_order="row"
    )
    return lambda: edges.matmul(x, adj.weights)


def _mkl_product(adj: Adjacency, x: Tensor) -> Callable[[], Tensor]:
    import torch
    from scipy.sparse import csr_matrix
    from sparse_dot_mkl import dot_product_mkl

    assert adj.weights is not None
    parts = adj.weights.numpy(), adj.indices.numpy(), adj.indptr.int().numpy()
    matrix, rows = csr_matrix(parts, shape=(adj.num_rows, adj.num_columns)), x.numpy()
    return lambda: torch.from_numpy(dot_product_mkl(matrix, rows))


_RIVALS: dict[str, Callable[[Adjacency, Tensor], Callable[[], Tensor]]] = {
    CSR: _torch_product,
    SUM: _torch_sum,
    PYG: _pyg_product,
    MKL: _mkl_product,
}
