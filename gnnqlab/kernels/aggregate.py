"""Weighted neighbour sums (SpMM) over a CSR adjacency, from one or two source buffers.

Shapes: N owned rows, H halo rows, D features, E edges. Column ``c`` of an adjacency is row ``c`` of ``x`` and, from N
on, row ``c - N`` of ``halo``: the halo is never copied behind the owned rows.

A sparse feature matrix is an adjacency as well: its rows are nodes, its columns features, its weights the stored
values, so ``aggregate(features, weight)`` is ``X @ W`` and its gradient ``X.T @ dY``.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property

import torch
from torch import Tensor

from gnnqlab.kernels.reference import aggregate as reference

__all__ = ["Adjacency", "QuantizedRows", "aggregate", "quantize_rows", "spmm"]


@dataclasses.dataclass(frozen=True, eq=False)
class Adjacency:
    """A sparse matrix by rows (CSR): row ``i`` sums the columns ``indices[indptr[i]:indptr[i + 1]]``.

    ``indptr (rows + 1,)`` int64, ``indices (E,)`` int32 in ``[0, num_columns)`` in any order and possibly repeated,
    ``weights (E,)`` float32 or None for a plain sum. The tensors are checked once, here, and must not change after.

    Raises:
        ValueError: if the tensors do not describe such a matrix.

    Example:
        >>> adj = Adjacency(torch.tensor([0, 2, 2]), torch.tensor([0, 2], dtype=torch.int32), num_columns=3)
        >>> spmm(adj, torch.tensor([[1.0], [2.0], [4.0]])).flatten().tolist()
        [5.0, 0.0]
    """

    indptr: Tensor
    indices: Tensor
    weights: Tensor | None = None
    num_columns: int = dataclasses.field(kw_only=True)

    def __post_init__(self) -> None:
        _check_csr(self.indptr, self.indices, self.weights, self.num_columns)

    @property
    def num_rows(self) -> int:
        return self.indptr.numel() - 1

    @property
    def num_edges(self) -> int:
        return self.indices.numel()

    @property
    def device(self) -> torch.device:
        return self.indptr.device

    def to(self, device: torch.device | str) -> Adjacency:
        """The same matrix on another device (itself if it is there already)."""
        if torch.device(device) == self.device:
            return self
        weights = None if self.weights is None else self.weights.to(device)
        return Adjacency(self.indptr.to(device), self.indices.to(device), weights, num_columns=self.num_columns)

    @cached_property
    def transposed(self) -> Adjacency:
        """The matrix by columns, built once; each column's rows ascend, each weight stays with its edge."""
        indptr, indices, weights, _ = self._transposition
        return Adjacency(indptr, indices, weights, num_columns=self.num_rows)

    @cached_property
    def transposed_edges(self) -> Tensor:
        """For each edge of ``transposed`` its place among this matrix's edges, int64."""
        return self._transposition[3]

    @cached_property
    def _transposition(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
        return reference.transpose(self.indptr, self.indices, self.weights, self.num_columns)


@dataclasses.dataclass(frozen=True, eq=False)
class QuantizedRows:
    """Rows of int8 codes with a scale each: row ``i`` stands for ``codes[i] * scales[i]``."""

    codes: Tensor
    scales: Tensor

    def __post_init__(self) -> None:
        if self.codes.dtype != torch.int8 or self.codes.dim() != 2:
            raise ValueError(f"codes must be int8 of shape (N, D), got {_describe(self.codes)}")
        if self.scales.dtype != torch.float32 or self.scales.shape != self.codes.shape[:1]:
            raise ValueError(
                f"scales must be float32 of shape ({self.codes.shape[0]},), one per row, got {_describe(self.scales)}"
            )

    @property
    def shape(self) -> torch.Size:
        return self.codes.shape


def quantize_rows(x_ND: Tensor) -> QuantizedRows:
    """Round each row to int8, to nearest, with the scale ``max|x| / 127``; a row of zeros gets scale 0.

    Example:
        >>> quantize_rows(torch.tensor([[-127.0, 1.0, 2.4]])).codes.tolist()
        [[-127, 1, 2]]
    """
    if x_ND.shape[1] == 0:
        return QuantizedRows(x_ND.to(torch.int8), x_ND.new_zeros(x_ND.shape[0], dtype=torch.float32))
    scales = x_ND.float().abs().amax(1) / 127.0
    steps = torch.where(scales > 0, scales, 1.0).unsqueeze(1)
    return QuantizedRows((x_ND.float() / steps).round_().clamp_(-127, 127).to(torch.int8), scales)


def spmm(
    adj: Adjacency,
    x: Tensor | QuantizedRows,
    halo: Tensor | QuantizedRows | None = None,
    *,
    rows: tuple[int, int] | None = None,
    transposed: bool = False,
    out: Tensor | None = None,
    accumulate: bool = False,
) -> Tensor:
    """Sum each row's neighbours: ``out[i] = sum_e w_e * column(indices_e)``; no gradient is recorded.

    Every row is summed by one thread in the order of its edges, so the result does not depend on the number of
    threads.

    Args:
        adj: the matrix; with ``transposed`` its transpose is used (``adj.transposed``, built at the first use).
        x: the rows of columns ``0..N-1``, ``(N, D)`` float32, bfloat16 or ``QuantizedRows`` (sums are float32 for
            all three; float64 only in the reference). Rows may lie further apart than D.
        halo: the rows of columns ``N..``, like ``x``. Without it the rows asked for must not use such columns.
        rows: ``(start, stop)``; only these rows of the matrix are computed.
        out: ``(stop - start, D)``, written (with ``accumulate`` added to) and returned; made if not given.

    Raises:
        ValueError: if shapes, dtypes, devices or the row range do not fit together.
    """
    matrix = adj.transposed if transposed else adj
    start, stop = (0, matrix.num_rows) if rows is None else rows
    if not 0 <= start <= stop <= matrix.num_rows:
        raise ValueError(f"rows must satisfy 0 <= start <= stop <= {matrix.num_rows}, got ({start}, {stop})")
    if accumulate and out is None:
        raise ValueError("accumulate adds to out, got out=None; pass the rows to add to")
    codes, scales = _split(x)
    halo_codes, halo_scales = _split(halo)
    _check_sources(matrix, codes, scales, halo_codes, halo_scales)
    if out is not None:
        _check_out(out, codes, stop - start)
    summed = reference.spmm(
        matrix.indptr,
        matrix.indices,
        matrix.weights,
        codes,
        halo_codes,
        start=start,
        stop=stop,
        scales=None if scales is None else (scales, halo_scales),
    )
    if out is None:
        return summed
    return out.add_(summed) if accumulate else out.copy_(summed)


def aggregate(adj: Adjacency, x: Tensor) -> Tensor:
    """Sum each row's neighbours, differentiable in ``x``: ``out = A @ x``, ``dx = A.T @ dout``.

    The weights of the adjacency are constants. The transpose is built at the first call whose ``x`` needs a gradient.

    Args:
        adj: ``(M, N)`` sparse, square or not.
        x: ``(N, D)`` float32 or bfloat16 (the sum is float32 either way).

    Returns:
        ``(M, D)`` float32.

    Example:
        >>> adj = Adjacency(torch.tensor([0, 2]), torch.tensor([0, 1], dtype=torch.int32), num_columns=2)
        >>> x = torch.tensor([[1.0], [2.0]], requires_grad=True)
        >>> aggregate(adj, x).sum().backward()
        >>> x.grad.tolist()
        [[1.0], [1.0]]
    """
    return _Aggregate.apply(x, adj)


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, adj: Adjacency) -> Tensor:
        ctx.adj, ctx.dtype = adj, x.dtype
        return spmm(adj, x.detach())

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        return spmm(ctx.adj, grad, transposed=True).to(ctx.dtype), None


def _split(rows: Tensor | QuantizedRows | None) -> tuple[Tensor | None, Tensor | None]:
    return (rows.codes, rows.scales) if isinstance(rows, QuantizedRows) else (rows, None)


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}"


def _check_csr(indptr: Tensor, indices: Tensor, weights: Tensor | None, num_columns: int) -> None:
    if indptr.dtype != torch.int64 or indptr.dim() != 1 or indptr.numel() == 0:
        raise ValueError(f"indptr must be int64 with one entry more than there are rows, got {_describe(indptr)}")
    if indices.dtype != torch.int32 or indices.dim() != 1:
        raise ValueError(f"indices must be int32 in one dimension, got {_describe(indices)}; use indices.int()")
    if weights is not None and (weights.dtype != torch.float32 or weights.shape != indices.shape):
        raise ValueError(f"weights must be float32, one for each of {indices.numel()} edges, got {_describe(weights)}")
    if not 0 <= num_columns < 2**31:
        raise ValueError(f"num_columns must be in [0, 2**31), got {num_columns}")
    if int(indptr[0]) != 0 or int(indptr[-1]) != indices.numel() or bool((indptr.diff() < 0).any()):
        raise ValueError(
            f"indptr must rise from 0 to the number of edges, {indices.numel()}, "
            f"got {int(indptr[0])} to {int(indptr[-1])}" + (", falling in between" if indptr.numel() > 2 else "")
        )
    if indices.numel():
        least, most = (int(bound) for bound in torch.aminmax(indices))
        if least < 0 or most >= num_columns:
            raise ValueError(f"indices must be in [0, {num_columns}), got {least} to {most}; is num_columns right?")


def _check_sources(
    matrix: Adjacency, x: Tensor, scales: Tensor | None, halo: Tensor | None, halo_scales: Tensor | None
) -> None:
    if x.dim() != 2 or x.dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.int8):
        raise ValueError(f"x must be float32, bfloat16 or QuantizedRows of shape (N, D), got {_describe(x)}")
    if x.dtype == torch.int8 and scales is None:
        raise ValueError("int8 rows need their scales, got a bare int8 tensor; pass QuantizedRows(codes, scales)")
    if halo is None:
        if x.shape[0] > matrix.num_columns:
            raise ValueError(f"x must have at most {matrix.num_columns} rows, one per column, got {x.shape[0]}")
        return
    if halo.dtype != x.dtype or halo.dim() != 2 or halo.shape[1] != x.shape[1] or (scales is None) != (halo_scales is None):
        raise ValueError(f"halo must be like x, {_describe(x)}, got {_describe(halo)}")
    if x.shape[0] + halo.shape[0] != matrix.num_columns:
        raise ValueError(
            f"x and halo together must have {matrix.num_columns} rows, one per column, "
            f"got {x.shape[0]} + {halo.shape[0]}"
        )


def _check_out(out: Tensor, x: Tensor, num_rows: int) -> None:
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    if out.dtype != dtype or out.shape != (num_rows, x.shape[1]):
        raise ValueError(f"out must be {dtype} of shape ({num_rows}, {x.shape[1]}), got {_describe(out)}")
