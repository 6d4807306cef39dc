"""Weighted neighbour sums (SpMM) over a CSR adjacency, from one or two source buffers.

Shapes: N owned rows, H halo rows, D features, E edges. Column ``c`` of an adjacency is row ``c`` of ``x`` and, from N
on, row ``c - N`` of ``halo``: the halo is never copied behind the owned rows.

A sparse feature matrix is an adjacency as well: its rows are nodes, its columns features, its weights the stored
values, so ``aggregate(features, weight)`` is ``X @ W`` and its gradient ``X.T @ dY``.
"""

from __future__ import annotations

import dataclasses
from typing import Any, overload

import torch
from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.adjacency import Adjacency, Csr, address, describe
from gnnqlab.kernels.reference import aggregate as reference

__all__ = ["Adjacency", "QuantizedRows", "aggregate", "quantize_rows", "spmm"]

_spmm = native.declare("spmm", "p p p i i i i p i i p p i i p p i i i")
_ROW_TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.int8: 2}


@dataclasses.dataclass(frozen=True, eq=False)
class QuantizedRows:
    """Rows of int8 codes with a scale each: row ``i`` stands for ``codes[i] * scales[i]``."""

    codes: Tensor
    scales: Tensor

    def __post_init__(self) -> None:
        if self.codes.dtype != torch.int8 or self.codes.dim() != 2:
            raise ValueError(f"codes must be int8 of shape (N, D), got {describe(self.codes)}")
        if not self.scales.is_contiguous():
            raise ValueError(f"scales must be contiguous, got strides {self.scales.stride()}; use scales.contiguous()")
        if self.scales.dtype != torch.float32 or self.scales.shape != self.codes.shape[:1]:
            raise ValueError(
                f"scales must be float32 of shape ({self.codes.shape[0]},), one per row, got {describe(self.scales)}"
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
    csr = (matrix.indptr, matrix.indices, matrix.weights)
    return _sum_rows(csr, start, stop, (codes, scales), (halo_codes, halo_scales), out, accumulate)


def aggregate(adj: Adjacency, x: Tensor) -> Tensor:
    """Sum each row's neighbours, differentiable in ``x``: ``out = A @ x``, ``dx = A.T @ dout``.

    The weights of the adjacency are constants. The transpose is built at the first backward pass; touch
    ``adj.transposed`` before ``torch.compile``, which cannot look into the building of it.

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
    _check_sources(adj, x, None, None, None)
    if not torch.compiler.is_compiling():
        return _EagerAggregate.apply(x, adj)
    turned = adj.transposed.csr if x.requires_grad else (None, None, None)
    return torch.ops.gnnqlab.aggregate(*adj.csr, *turned, x)


class _EagerAggregate(torch.autograd.Function):
    """What the operator below does, with a quarter of its overhead."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, adj: Adjacency) -> Tensor:
        ctx.adj, ctx.dtype = adj, x.dtype
        return _sum_rows(adj.csr, 0, adj.num_rows, (x, None), (None, None), None, False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _EagerAggregate.apply(grad, ctx.adj.transposed).to(ctx.dtype), None


# The operator that a compiled graph sees: the matrix, its transpose (needed for a gradient only) and the rows.
_library = torch.library.Library("gnnqlab", "FRAGMENT")
_library.define(
    "aggregate(Tensor indptr, Tensor indices, Tensor? weights, "
    "Tensor? turned_indptr, Tensor? turned_indices, Tensor? turned_weights, Tensor x) -> Tensor"
)


def _aggregate(
    indptr: Tensor,
    indices: Tensor,
    weights: Tensor | None,
    turned_indptr: Tensor | None,
    turned_indices: Tensor | None,
    turned_weights: Tensor | None,
    x: Tensor,
) -> Tensor:
    return _sum_rows((indptr, indices, weights), 0, indptr.numel() - 1, (x, None), (None, None), None, False)


def _aggregate_fake(
    indptr: Tensor,
    indices: Tensor,
    weights: Tensor | None,
    turned_indptr: Tensor | None,
    turned_indices: Tensor | None,
    turned_weights: Tensor | None,
    x: Tensor,
) -> Tensor:
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return x.new_empty((indptr.shape[0] - 1, x.shape[1]), dtype=dtype)


def _aggregate_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:6])
    ctx.dtype = inputs[6].dtype


def _aggregate_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    matrix, turned = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
    x_grad = torch.ops.gnnqlab.aggregate(*turned, *matrix, grad).to(ctx.dtype)
    return None, None, None, None, None, None, x_grad


for _device in ("CPU", "CUDA"):
    _library.impl("aggregate", _aggregate, _device)
torch.library.register_fake("gnnqlab::aggregate", _aggregate_fake, lib=_library)
torch.library.register_autograd(
    "gnnqlab::aggregate", _aggregate_backward, setup_context=_aggregate_context, lib=_library
)


def _sum_rows(
    csr: Csr,
    start: int,
    stop: int,
    source: tuple[Tensor, Tensor | None],
    halo_source: tuple[Tensor | None, Tensor | None],
    out: Tensor | None,
    accumulate: bool,
) -> Tensor:
    """The product of checked operands; a source is its rows and, of int8 rows, their scales."""
    (x, scales), (halo, halo_scales) = source, halo_source
    if x.dtype == torch.float64 or not native.active(x.device):
        both = None if scales is None else (scales, halo_scales)
        summed = reference.spmm(*csr, x, halo, start=start, stop=stop, scales=both)
        if out is None:
            return summed
        return out.add_(summed) if accumulate else out.copy_(summed)
    if out is None:
        out = x.new_empty((stop - start, x.shape[1]), dtype=torch.float32)
    x, into = _unit_columns(x), _unit_columns(out)
    halo = None if halo is None else _unit_columns(halo)
    indptr, indices, weights = csr
    arguments = (
        indptr.data_ptr(),
        indices.data_ptr(),
        address(weights),
        start,
        stop,
        _ROW_TYPES[x.dtype],
        x.shape[1],
        x.data_ptr(),
        x.shape[0],
        x.stride(0),
        address(scales),
        address(halo),
        0 if halo is None else halo.shape[0],
        0 if halo is None else halo.stride(0),
        address(halo_scales),
        into.data_ptr(),
        into.stride(0),
        accumulate,
        native.threads(),
    )
    if x.is_cuda:
        _spmm.cuda(x.device, *arguments)
    else:
        _spmm(*arguments)
    return out if into is out else out.copy_(into)


def _unit_columns(rows: Tensor) -> Tensor:
    """The rows with neighbouring columns side by side; they may still lie further apart than their length."""
    return rows if rows.stride(1) == 1 or rows.shape[1] <= 1 else rows.contiguous()


@overload
def _split(rows: Tensor | QuantizedRows) -> tuple[Tensor, Tensor | None]: ...
@overload
def _split(rows: None) -> tuple[None, None]: ...
@overload
def _split(rows: Tensor | QuantizedRows | None) -> tuple[Tensor | None, Tensor | None]: ...
def _split(rows: Tensor | QuantizedRows | None) -> tuple[Tensor | None, Tensor | None]:
    return (rows.codes, rows.scales) if isinstance(rows, QuantizedRows) else (rows, None)


def _check_sources(
    matrix: Adjacency, x: Tensor, scales: Tensor | None, halo: Tensor | None, halo_scales: Tensor | None
) -> None:
    if x.dim() != 2 or x.dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.int8):
        raise ValueError(f"x must be float32, bfloat16 or QuantizedRows of shape (N, D), got {describe(x)}")
    if x.device != matrix.device:
        raise ValueError(f"x must be on the adjacency's device, {matrix.device}, got {x.device}; use adj.to(x.device)")
    if x.dtype == torch.int8 and scales is None:
        raise ValueError("int8 rows need their scales, got a bare int8 tensor; pass QuantizedRows(codes, scales)")
    if halo is None:
        if x.shape[0] > matrix.num_columns:
            raise ValueError(f"x must have at most {matrix.num_columns} rows, one per column, got {x.shape[0]}")
        return
    if (
        halo.dtype != x.dtype
        or halo.dim() != 2
        or halo.shape[1] != x.shape[1]
        or (scales is None) != (halo_scales is None)
    ):
        raise ValueError(f"halo must be like x, {describe(x)}, got {describe(halo)}")
    if x.shape[0] + halo.shape[0] != matrix.num_columns:
        raise ValueError(
            f"x and halo together must have {matrix.num_columns} rows, one per column, "
            f"got {x.shape[0]} + {halo.shape[0]}"
        )


def _check_out(out: Tensor, x: Tensor, num_rows: int) -> None:
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    if out.dtype != dtype or out.shape != (num_rows, x.shape[1]):
        raise ValueError(f"out must be {dtype} of shape ({num_rows}, {x.shape[1]}), got {describe(out)}")
