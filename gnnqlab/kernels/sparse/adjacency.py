"""Sparse matrix in CSR format, with its checks and its cached transpose."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import torch
from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.reference import aggregate as reference

__all__ = ["Adjacency", "Csr", "describe"]

Csr = tuple[Tensor, Tensor, Tensor | None]
"""``indptr``, ``indices`` and ``weights`` of an `Adjacency`."""

_transpose = native.declare("transpose", "p p p i i p p p p i")


@dataclasses.dataclass(frozen=True, eq=False)
class Adjacency:
    """A sparse matrix in CSR format: row ``i`` sums the columns ``indices[indptr[i]:indptr[i + 1]]``.

    ``indptr (rows + 1,)`` int64, ``indices (E,)`` int32 in ``[0, num_columns)`` in any order and possibly repeated,
    ``weights (E,)`` float32 or None for weights of 1. The tensors are checked once, here, and must not change later.

    Raises:
        ValueError: if the tensors are not a valid CSR matrix.

    Example:
        >>> adj = Adjacency(torch.tensor([0, 2, 2]), torch.tensor([0, 2], dtype=torch.int32), num_columns=3)
        >>> adj.transposed.indptr.tolist()
        [0, 1, 1, 2]
    """

    indptr: Tensor
    indices: Tensor
    weights: Tensor | None = None
    num_columns: int = dataclasses.field(kw_only=True)

    def __post_init__(self) -> None:
        _check_csr(self.indptr, self.indices, self.weights, self.num_columns)

    @classmethod
    def of_checked(
        cls,
        indptr: Tensor,
        indices: Tensor,
        weights: Tensor | None = None,
        *,
        num_columns: int,
        turned: Adjacency | None = None,
        turned_edges: Tensor | None = None,
    ) -> Adjacency:
        """Build a matrix from tensors already checked, optionally with its transpose, which is then not built."""
        matrix = object.__new__(cls)  # without the checks, which synchronize on a GPU
        transposes = {"transposed": turned, "transposed_edges": turned_edges}
        # The class is frozen; a cached property whose value is in this dictionary is not computed.
        matrix.__dict__.update(indptr=indptr, indices=indices, weights=weights, num_columns=num_columns)
        matrix.__dict__.update({name: value for name, value in transposes.items() if value is not None})
        return matrix

    @property
    def num_rows(self) -> int:
        return self.indptr.numel() - 1

    @property
    def csr(self) -> Csr:
        return self.indptr, self.indices, self.weights

    @property
    def num_edges(self) -> int:
        return self.indices.numel()

    @property
    def device(self) -> torch.device:
        return self.indptr.device

    def to(self, device: torch.device | str) -> Adjacency:
        """Return the matrix on another device, or itself if it is there already."""
        if torch.device(device) == self.device:
            return self
        # The cached transpose is not copied: the new matrix builds its own on its device.
        weights = None if self.weights is None else self.weights.to(device)
        return Adjacency(self.indptr.to(device), self.indices.to(device), weights, num_columns=self.num_columns)

    @cached_property
    def transposed(self) -> Adjacency:
        """Transposed matrix with its weights, cached; indices ascend within each of its rows."""
        indptr, indices, weights, _ = _transposition(self, edges=False)
        return Adjacency.of_checked(indptr, indices, weights, num_columns=self.num_rows)

    @cached_property
    def by_edge(self) -> Adjacency:
        """Matrix with one column per edge, ``(M, E)``, and identical weights: it sums edge values; cached.

        Example:
            >>> from gnnqlab.kernels.sparse.aggregate import aggregate
            >>> adj = Adjacency(torch.tensor([0, 2, 3]), torch.tensor([0, 1, 1], dtype=torch.int32), num_columns=2)
            >>> aggregate(adj.by_edge, torch.tensor([[1.0], [2.0], [4.0]])).flatten().tolist()
            [3.0, 4.0]
        """
        if self.num_edges >= 2**31:
            raise ValueError(f"columns by edge need fewer than 2**31 edges, got {self.num_edges}; use more workers")
        columns = torch.arange(self.num_edges, dtype=torch.int32, device=self.device)  # (E,): column e is edge e
        return Adjacency.of_checked(self.indptr, columns, self.weights, num_columns=self.num_edges)

    @cached_property
    def transposed_edges(self) -> Tensor:
        """Index in this matrix of each edge of ``transposed``, int32 ``(E,)``."""
        if self.num_edges >= 2**31:
            raise ValueError(
                f"edge indices need fewer than 2**31 edges per worker, got {self.num_edges}; use more workers"
            )
        return _transposition(self, edges=True)[3]


def _transposition(matrix: Adjacency, *, edges: bool) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    if matrix.device.type != "cpu" or not native.active(matrix.device):  # the compiled kernel is for CPUs only
        return reference.transpose(matrix.indptr, matrix.indices, matrix.weights, matrix.num_columns)
    indptr = torch.empty(matrix.num_columns + 1, dtype=torch.int64)  # (C + 1,)
    indices = torch.empty_like(matrix.indices)  # (E,) int32: rows of the matrix
    weights = None if matrix.weights is None else torch.empty_like(matrix.weights)
    places = torch.empty(matrix.num_edges if edges else 0, dtype=torch.int32)
    _transpose(
        matrix.indptr,
        matrix.indices,
        matrix.weights,
        matrix.num_rows,
        matrix.num_columns,
        indptr,
        indices,
        weights,
        places if edges else None,
        native.threads(),
    )
    return indptr, indices, weights, places


def _check_csr(indptr: Tensor, indices: Tensor, weights: Tensor | None, num_columns: int) -> None:
    if indptr.dtype != torch.int64 or indptr.dim() != 1 or indptr.numel() == 0:
        raise ValueError(f"indptr must be int64 with one entry more than there are rows, got {describe(indptr)}")
    if indices.dtype != torch.int32 or indices.dim() != 1:
        raise ValueError(f"indices must be int32 in one dimension, got {describe(indices)}; use indices.int()")
    if weights is not None and (weights.dtype != torch.float32 or weights.shape != indices.shape):
        raise ValueError(f"weights must be float32, one for each of {indices.numel()} edges, got {describe(weights)}")
    if not (indptr.is_contiguous() and indices.is_contiguous() and (weights is None or weights.is_contiguous())):
        raise ValueError("indptr, indices and weights must be contiguous, got a strided view; use .contiguous()")
    if not 0 <= num_columns < 2**31:  # indices are int32
        raise ValueError(f"num_columns must be in [0, 2**31), got {num_columns}")
    if int(indptr[0]) != 0 or int(indptr[-1]) != indices.numel() or bool((indptr.diff() < 0).any()):
        raise ValueError(
            f"indptr must rise from 0 to the number of edges, {indices.numel()}, "
            f"got {int(indptr[0])} to {int(indptr[-1])}" + (", falling in between" if indptr.numel() > 2 else "")
        )
    if indices.numel():
        min_id, max_id = (int(bound) for bound in torch.aminmax(indices))  # one pass for both bounds
        if min_id < 0 or max_id >= num_columns:
            raise ValueError(f"indices must be in [0, {num_columns}), got {min_id} to {max_id}; is num_columns right?")


def describe(tensor: Tensor) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}"
