"""Weighted neighbour sums (SpMM) over a CSR adjacency, from one or two source buffers.

Shapes: N owned rows, H halo rows, D features, E edges. Column ``c`` of an adjacency is row ``c`` of ``x`` or, from N
on, row ``c - N`` of ``halo``: owned and halo rows need not be concatenated.

A sparse feature matrix is an adjacency as well: its rows are nodes, its columns features, its weights the stored
values, so ``aggregate(features, weight)`` is ``X @ W`` and its gradient ``X.T @ dY``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, overload

import torch
from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.dense.code_rows import PairedRows, QuantizedRows, unpack_pairs
from gnnqlab.kernels.huge_pages import empty_in_huge_pages
from gnnqlab.kernels.reference import aggregate as reference
from gnnqlab.kernels.sparse.adjacency import Adjacency, Csr, describe
from gnnqlab.kernels.sparse.codec_sum import CodedRows, sum_codes

__all__ = ["Adjacency", "PairedRows", "QuantizedRows", "aggregate", "quantize_rows", "spmm"]

# Matrix (3), start, stop, type of rows, D; x, N, stride, scales; halo, H, stride, scales; out, stride, accumulate;
# threads.
_spmm = native.declare("spmm", "p p p i i i i p i i p p i i p p i i i")
_ROW_TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.int8: 2, torch.uint8: 3}  # as the C interface numbers them
_Rows = Tensor | QuantizedRows | PairedRows


class _Source(NamedTuple):
    """Rows or codes, scales of codes, and the number of columns."""

    rows: Tensor
    scales: Tensor | None
    columns: int


def quantize_rows(x_ND: Tensor) -> QuantizedRows:
    """Quantize each row to int8, to nearest, with scale ``max|x| / 127``; a row of zeros has scale 0.

    Example:
        >>> quantize_rows(torch.tensor([[-127.0, 1.0, 2.4]])).codes.tolist()
        [[-127, 1, 2]]
    """
    if x_ND.shape[1] == 0:  # amax refuses an empty dimension
        return QuantizedRows(x_ND.to(torch.int8), x_ND.new_zeros(x_ND.shape[0], dtype=torch.float32))
    scales = x_ND.float().abs().amax(1) / 127.0  # (N, D) -> (N,)
    steps = torch.where(scales > 0, scales, 1.0).unsqueeze(1)  # (N, 1); 1 avoids 0 / 0
    return QuantizedRows((x_ND.float() / steps).round_().clamp_(-127, 127).to(torch.int8), scales)


def spmm(
    adj: Adjacency,
    x: _Rows,
    halo: _Rows | CodedRows | None = None,
    *,
    rows: tuple[int, int] | None = None,
    transposed: bool = False,
    out: Tensor | None = None,
    accumulate: bool = False,
) -> Tensor:
    """Sum each row's neighbours; no gradient is recorded.

    ``out[i] = sum over edges e of row i of w_e s[indices_e]``, where s holds the rows of ``x``, then those of ``halo``.
    Every row is summed by one thread in the order of its edges, so the result does not depend on the number of threads.

    Args:
        adj: the matrix.
        x: rows of the columns ``0..N-1``, ``(N, D)`` float32, bfloat16, ``QuantizedRows`` or ``PairedRows`` (sums are
            float32 for all four; float64 only in the reference). A row's stride may exceed D. Packed rows are unpacked
            in registers; sums are bit-identical to those of unpacked codes.
        halo: rows of the columns ``N..``, like ``x``; or, with float32 ``x``, the codes of received rows, which are
            decoded where they are summed; sums are bit-identical to those of decoded rows. Without it the computed rows
            must not use such columns, which is not checked: it would cost as much as the sums of a narrow matrix.
        rows: ``(start, stop)``; only these rows of the matrix are computed.
        transposed: True to use the transpose (``adj.transposed``, built at the first use).
        out: ``(stop - start, D)``, written and returned; allocated by default.
        accumulate: True to add to ``out``.

    Raises:
        ValueError: if shapes, dtypes, devices or the row range do not match.
    """
    matrix = adj.transposed if transposed else adj
    num_rows = matrix.indptr.numel() - 1
    start, stop = (0, num_rows) if rows is None else rows
    if not 0 <= start <= stop <= num_rows:
        raise ValueError(f"rows must satisfy 0 <= start <= stop <= {num_rows}, got ({start}, {stop})")
    if accumulate and out is None:
        raise ValueError("accumulate adds to out, got out=None; pass the rows to add to")
    if isinstance(halo, CodedRows):
        if not isinstance(x, Tensor):
            raise ValueError(f"codes of a halo need x as a tensor, got {type(x).__name__}; pass halo.decoded()")
        if x.dtype == torch.float32 and x.is_cpu and native.active(x.device):
            return _sum_coded(matrix, start, stop, x, halo, out, accumulate)
        halo = halo.decoded().to(x.dtype)  # the reference, CUDA and other formats have no kernel that reads codes
    source, halo_source = _source(x), None if halo is None else _source(halo)
    _check_sources(matrix, source, halo_source)
    if out is not None:
        _check_out(out, source, stop - start)
    csr = (matrix.indptr, matrix.indices, matrix.weights)
    return _sum_rows(csr, start, stop, source, halo_source, out, accumulate)


def aggregate(adj: Adjacency, x: Tensor) -> Tensor:
    """Sum each row's neighbours, differentiable in ``x``: ``out = A @ x``, ``dx = A.T @ dout``.

    The weights of the adjacency are constants. The transpose is built at the first backward pass; access
    ``adj.transposed`` before ``torch.compile``, which cannot trace its construction.

    Args:
        adj: sparse matrix ``(M, N)``.
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
    _check_sources(adj, _source(x), None)
    if x.shape[0] != adj.num_columns:
        raise ValueError(f"x must have {adj.num_columns} rows, one per column, got {describe(x)}")
    if not torch.compiler.is_compiling():
        return _EagerAggregate.apply(x, adj)
    # Built before tracing, and only if a gradient needs it.
    transposed_csr = adj.transposed.csr if x.requires_grad else (None, None, None)
    return torch.ops.gnnqlab.aggregate(*adj.csr, *transposed_csr, x)


class _EagerAggregate(torch.autograd.Function):
    """Eager version of the operator below, with a quarter of its overhead."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, adj: Adjacency) -> Tensor:
        ctx.adj, ctx.dtype = adj, x.dtype
        return _sum_rows(adj.csr, 0, adj.num_rows, _source(x), None, None, False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # As a function on the transpose, so that the gradient is differentiable too; back to the dtype of x.
        return _EagerAggregate.apply(grad, ctx.adj.transposed).to(ctx.dtype), None


# Operator for compiled graphs, with the matrix, its transpose (for a gradient only) and the rows as arguments.
def _operator(*inputs: Any) -> Tensor:
    csr, x = inputs[:3], inputs[-1]
    return _sum_rows(csr, 0, csr[0].numel() - 1, _source(x), None, None, False)


def _operator_fake(*inputs: Any) -> Tensor:
    indptr, x = inputs[0], inputs[-1]
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return x.new_empty((indptr.shape[0] - 1, x.shape[1]), dtype=dtype)  # (R, D)


def _operator_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:-1])
    ctx.dtype = inputs[-1].dtype


def _operator_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    matrix, transposed_csr = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
    # A.T as the matrix with A as its transpose: a second derivative is A times a gradient again.
    x_grad = torch.ops.gnnqlab.aggregate(*transposed_csr, *matrix, grad).to(ctx.dtype)
    return *[None] * 6, x_grad


native.register(
    "aggregate(Tensor indptr, Tensor indices, Tensor? weights, "
    "Tensor? turned_indptr, Tensor? turned_indices, Tensor? turned_weights, Tensor x) -> Tensor",
    _operator,
    fake=_operator_fake,
    backward=_operator_backward,
    setup=_operator_setup,
)


def _sum_rows(
    csr: Csr,
    start: int,
    stop: int,
    source: _Source,
    halo_source: _Source | None,
    out: Tensor | None,
    accumulate: bool,
) -> Tensor:
    """Compute the product of checked operands."""
    # The reference reads one code per byte only.
    if source.rows.dtype == torch.uint8 and not native.active(source.rows.device):
        source, halo_source = _unpacked(source), None if halo_source is None else _unpacked(halo_source)
    x, scales, columns = source
    halo, halo_scales = (None, None) if halo_source is None else halo_source[:2]
    if x.dtype == torch.float64 or not native.active(x.device):  # kernels have no float64
        all_scales = None if scales is None else (scales, halo_scales)
        sums = reference.spmm(*csr, x, halo, start=start, stop=stop, scales=all_scales)
        if out is None:
            return sums
        return out.add_(sums) if accumulate else out.copy_(sums)
    if out is None:
        out = empty_in_huge_pages(x, stop - start, columns)  # (stop - start, D) float32
    # The kernel needs unit column stride; a strided out is computed in a copy.
    x = x if x.stride(1) == 1 else _unit_columns(x)
    buffer = out if out.stride(1) == 1 else _unit_columns(out)
    if halo is not None and halo.stride(1) != 1:
        halo = _unit_columns(halo)
    indptr, indices, weights = csr
    arguments = (
        indptr,
        indices,
        weights,
        start,
        stop,
        _ROW_TYPES[x.dtype],
        columns,
        x,
        x.shape[0],  # N: columns from N on are halo rows
        x.stride(0),
        scales,
        halo,
        0 if halo is None else halo.shape[0],
        0 if halo is None else halo.stride(0),
        halo_scales,
        buffer,
        buffer.stride(0),
        accumulate,
        native.threads(),
    )
    if x.is_cuda:
        _spmm.cuda(x.device, *arguments)
    else:
        _spmm(*arguments)
    return out if buffer is out else out.copy_(buffer)


def _sum_coded(
    matrix: Adjacency, start: int, stop: int, x: Tensor, halo: CodedRows, out: Tensor | None, accumulate: bool
) -> Tensor:
    """Compute the product with codes of the halo."""
    if x.dim() != 2 or x.shape[1] != halo.columns:
        raise ValueError(f"x must have {halo.columns} columns like the halo, got {describe(x)}")
    _check_columns(matrix, x.shape[0], halo.num_rows)
    if out is None:
        out = empty_in_huge_pages(x, stop - start, halo.columns)  # (stop - start, D) float32
    else:
        _check_out(out, _Source(x, None, halo.columns), stop - start)
    buffer = _unit_columns(out)
    sum_codes(matrix.csr, start, stop, _unit_columns(x), halo, buffer, accumulate=accumulate)
    return out if buffer is out else out.copy_(buffer)


def _unit_columns(rows: Tensor) -> Tensor:
    """Return rows with unit column stride; the row stride may exceed the number of columns."""
    return rows if rows.stride(1) == 1 or rows.shape[1] <= 1 else rows.contiguous()


@overload
def _source(rows: _Rows) -> _Source: ...
@overload
def _source(rows: _Rows | None) -> _Source | None: ...
def _source(rows: _Rows | None) -> _Source | None:
    if isinstance(rows, QuantizedRows | PairedRows):
        return _Source(rows.codes, rows.scales, rows.shape[1])
    return None if rows is None else _Source(rows, None, rows.shape[-1] if rows.dim() else 0)


def _unpacked(source: _Source) -> _Source:
    assert source.scales is not None
    return _source(unpack_pairs(PairedRows(source.rows, source.scales, source.columns)))


def _check_sources(matrix: Adjacency, source: _Source, halo_source: _Source | None) -> None:
    x, scales, columns = source
    dtypes = (torch.float32, torch.float64, torch.bfloat16) if scales is None else (torch.int8, torch.uint8)
    if x.dtype == torch.int8 and scales is None:
        raise ValueError("int8 rows need their scales, got a bare int8 tensor; pass QuantizedRows(codes, scales)")
    if x.dim() != 2 or x.dtype not in dtypes:
        raise ValueError(f"x must be float32, bfloat16, float64 or rows of codes, of shape (N, D), got {describe(x)}")
    if x.device != matrix.indptr.device:
        raise ValueError(f"x must be on the adjacency's device, {matrix.device}, got {x.device}; use adj.to(x.device)")
    if halo_source is None:
        if x.shape[0] > matrix.num_columns:
            raise ValueError(f"x must have at most {matrix.num_columns} rows, one per column, got {x.shape[0]}")
        return
    halo, halo_scales, halo_columns = halo_source
    if halo.dtype != x.dtype or halo.dim() != 2 or halo_columns != columns or (scales is None) != (halo_scales is None):
        raise ValueError(f"halo must be like x, {describe(x)}, got {describe(halo)}")
    if halo.device != x.device:  # kernels get raw pointers
        raise ValueError(f"halo must be on the device of x, {x.device}, got {halo.device}; use halo.to(x.device)")
    _check_columns(matrix, x.shape[0], halo.shape[0])


def _check_columns(matrix: Adjacency, num_owned: int, num_halo: int) -> None:
    if num_owned + num_halo != matrix.num_columns:
        raise ValueError(
            f"x and halo together must have {matrix.num_columns} rows, one per column, got {num_owned} + {num_halo}"
        )


def _check_out(out: Tensor, source: _Source, num_rows: int) -> None:
    dtype = torch.float64 if source.rows.dtype == torch.float64 else torch.float32
    if out.dtype != dtype or out.shape != (num_rows, source.columns):
        raise ValueError(f"out must be {dtype} of shape ({num_rows}, {source.columns}), got {describe(out)}")
    if out.device != source.rows.device:
        raise ValueError(f"out must be on the device of x, {source.rows.device}, got {out.device}")
