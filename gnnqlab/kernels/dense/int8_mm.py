"""Dense products of int8 codes: integer multiplication and accumulation, then multiplication by the scales.

``X W``, ``dY W^T`` and ``X^T dY`` (TANGO, section 3.3). A scale may belong to a row of the result, or to a whole
matrix. A scale that varies along the summed dimension cannot be factored out: then codes times scales are summed in
float32. Letters: M, K, N.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.codec.quantize import largest_magnitude
from gnnqlab.kernels.huge_pages import empty_in_huge_pages
from gnnqlab.kernels.sparse.adjacency import describe

__all__ = ["MAX_TERMS", "int8_instructions", "int8_mm", "int8_mm_scaled", "int8_mm_transposed"]

MAX_TERMS = 2**16
"""Number of products of two codes whose sum fits into 32 bits, with one factor shifted to be positive."""

# a, stride, scales; b, stride, scale, is transposed; M, N, K; bias; out, stride, accumulate; largest; threads.
_int8_mm = native.declare("int8_mm", "p i p p i f i i i i p p i i p i")
# a, stride; b, stride; scale or scales; M, N, K; out, stride, accumulate; threads.
_int8_mm_transposed = native.declare("int8_mm_transposed", "p i p i f i i i p i i i")
_int8_mm_scaled = native.declare("int8_mm_scaled", "p i p i p i i i p i i i")
# The same with partial sums and their number before out; integer totals have a number of thread blocks instead.
_int8_mm_shared = native.declare("int8_mm_shared", "p i p i p i i i p i p i i i")
_int8_mm_totals = native.declare("int8_mm_totals", "p i p i i i i p i")
_instructions = native.declare("int8_instructions", "")


def int8_instructions() -> str:
    """Return the name of the instructions that multiply codes on this machine.

    Example:
        >>> int8_instructions() in ("int8 by AVX512 VNNI", "int8 by AVX2", "int8 scalar", "int8 in float64")
        True
    """
    if not native.active(torch.device("cpu")):
        return "int8 in float64"
    return {2: "int8 by AVX512 VNNI", 1: "int8 by AVX2"}.get(_instructions(), "int8 scalar")


def int8_mm(
    a: Tensor,
    a_scales: Tensor,
    b: Tensor,
    b_scale: float,
    *,
    transposed: bool = False,
    bias: Tensor | None = None,
    out: Tensor | None = None,
    accumulate: bool = False,
    largest: Tensor | None = None,
) -> Tensor:
    """Compute ``out[m, n] = a_scales[m] b_scale sum_k a[m, k] b[k, n] + bias[n]``; no gradient is recorded.

    Args:
        a: int8 ``(M, K)`` in [-127, 127]; a row's stride may exceed K.
        a_scales: float32 ``(M,)``.
        b: int8 ``(K, N)`` in [-127, 127], or ``(N, K)`` with ``transposed``, for ``a @ b.T``.
        b_scale: scale of all of b.
        transposed: True for ``a @ b.T``.
        bias: float32 ``(N,)``.
        out: float32 ``(M, N)``, written and returned; allocated by default.
        accumulate: True to add to ``out``.
        largest: float32 ``()``, receives the largest magnitude of the result, NaN if it holds NaN; computed in the
            epilogue of the product, for the scale of the next tensor (TANGO, section 3.3).

    Raises:
        ValueError: if shapes or types do not match, or K reaches `MAX_TERMS`.

    Example:
        >>> codes, scales = torch.tensor([[1, 2]], dtype=torch.int8), torch.tensor([0.5])
        >>> int8_mm(codes, scales, codes, 2.0, transposed=True).item()
        5.0
    """
    _check_codes(a, b)
    # M, K and N, K: stored transposed, b has the terms of a sum in a row.
    (rows, terms), (columns, b_terms) = a.shape, b.shape if transposed else b.shape[::-1]
    if terms != b_terms:
        raise ValueError(f"a and b must both have {terms} terms per sum, got {describe(a)} and {describe(b)}")
    if terms >= MAX_TERMS:
        raise ValueError(f"sums of codes must have fewer than {MAX_TERMS} terms, got {terms}; use compute float32")
    out = _checked_out(out, rows, columns, a, accumulate)  # (M, N)
    if not native.active(a.device):
        sums = _integers(a, b.t() if transposed else b)  # (M, N) float64, exact
        product = (sums * (a_scales * b_scale).double()[:, None]).float()
        product = product if bias is None else product + bias
        out = out.add_(product) if accumulate else out.copy_(product)
        if largest is not None:
            largest.copy_(largest_magnitude(out))
        return out
    a, b = _unit(a), _unit(b)
    if largest is not None:
        largest.zero_()  # the kernel raises it to the maximum
    # Zeros after the last term do not change a sum. By rows, a piece is 16 terms; by columns, 4 columns.
    if _by_pieces(a):  # tensor cores load aligned words
        a, b = _pieces(a, 16), _pieces(b, 16) if transposed else _pieces(b, 4)
    native.call(
        _int8_mm, a, a.stride(0), a_scales, b, b.stride(0), b_scale, int(transposed), rows, columns, terms, bias, out,
        out.stride(0), int(accumulate), largest,
    )  # fmt: skip
    return out


def int8_mm_transposed(
    a: Tensor, b: Tensor, scale: float, *, out: Tensor | None = None, accumulate: bool = False
) -> Tensor:
    """Compute ``out[m, n] = scale sum_k a[k, m] b[k, n]``, with one scale for all rows; no gradient is recorded.

    Integer sums are exact, so the result does not depend on the number of threads.

    Args:
        a: int8 ``(K, M)`` in [-127, 127]; a row's stride may exceed M.
        b: int8 ``(K, N)`` in [-127, 127], likewise.
        scale: scale of a times scale of b.
        out, accumulate: as for :func:`int8_mm`, ``(M, N)``.

    Example:
        >>> codes = torch.tensor([[1], [2]], dtype=torch.int8)
        >>> int8_mm_transposed(codes, codes, 0.5).item()
        2.5
    """
    _check_codes(a, b)
    if a.shape[0] != b.shape[0]:
        raise ValueError(f"a and b must have as many rows, got {describe(a)} and {describe(b)}")
    (terms, rows), columns = a.shape, b.shape[1]
    out = _checked_out(out, rows, columns, a, accumulate)
    if _by_pieces(a) or not native.active(a.device):
        # Exact integer sums, scaled once at the end.
        sums = _totals(a, b) if native.active(a.device) else _integers(a.t(), b)
        product = (sums.double() * scale).float()
        return out.add_(product) if accumulate else out.copy_(product)
    a, b = _unit(a), _unit(b)
    _int8_mm_transposed(
        a, a.stride(0), b, b.stride(0), scale, rows, columns, terms, out, out.stride(0), int(accumulate),
        native.threads(),
    )  # fmt: skip
    return out


def int8_mm_scaled(
    a: Tensor, b: Tensor, scales: Tensor, *, out: Tensor | None = None, accumulate: bool = False
) -> Tensor:
    """Compute ``out[m, n] = sum_k scales[k] a[k, m] b[k, n]`` in float32; no gradient is recorded.

    Args:
        a: int8 ``(K, M)``; a row's stride may exceed M.
        b: int8 ``(K, N)``, likewise.
        scales: float32 ``(K,)``, scales of a's rows times scales of b's rows.
        out, accumulate: as for :func:`int8_mm`, ``(M, N)``.

    Example:
        >>> codes = torch.tensor([[1], [2]], dtype=torch.int8)
        >>> int8_mm_scaled(codes, codes, torch.tensor([1.0, 0.5])).item()
        3.0
    """
    _check_codes(a, b)
    if a.shape[0] != b.shape[0] or scales.shape != a.shape[:1] or scales.dtype != torch.float32:
        raise ValueError(
            f"a, b and scales must have as many rows, got {describe(a)}, {describe(b)} and {describe(scales)}"
        )
    (terms, rows), columns = a.shape, b.shape[1]
    out = _checked_out(out, rows, columns, a, accumulate)
    if not native.active(a.device):
        product = torch.mm(a.float().t(), b * scales.unsqueeze(1))  # (M, K) (K, N) -> (M, N)
        return out.add_(product) if accumulate else out.copy_(product)
    a, b, scales = _unit(a), _unit(b), scales.contiguous()
    if _by_pieces(a):
        return _shared(a, b, scales, out, accumulate)
    _int8_mm_scaled(
        a, a.stride(0), b, b.stride(0), scales, rows, columns, terms, out, out.stride(0), int(accumulate),
        native.threads(),
    )  # fmt: skip
    return out


def _check_codes(a: Tensor, b: Tensor) -> None:
    if a.dtype != torch.int8 or b.dtype != torch.int8 or a.dim() != 2 or b.dim() != 2:
        raise ValueError(f"codes must be int8 in two dimensions, got {describe(a)} and {describe(b)}")


def _checked_out(out: Tensor | None, rows: int, columns: int, like: Tensor, accumulate: bool) -> Tensor:
    if out is None:
        if accumulate:
            raise ValueError("accumulate adds to out, got out=None; pass the matrix to add to")
        return empty_in_huge_pages(like, rows, columns)
    if out.dtype != torch.float32 or out.shape != (rows, columns) or (columns > 1 and out.stride(1) != 1):
        raise ValueError(f"out must be float32 of shape {(rows, columns)} by rows, got {describe(out)}")
    return out


_BLOCKS = 1024
"""Number of thread blocks for one product: several for each multiprocessor of a large GPU."""
_TILE, _TERMS = 64, 32
"""Sizes of a thread block's work: rows and columns of sums, and terms per step."""


def _totals(a: Tensor, b: Tensor) -> Tensor:
    """Compute the integers ``a.T @ b``, int64 ``(M, N)``, with the CUDA kernel."""
    (terms, rows), columns = a.shape, b.shape[1]
    a, b = _pieces(_unit(a), 4), _pieces(_unit(b), 4)
    # Thread blocks add their shares atomically; the order does not change sums of integers.
    totals = torch.zeros((rows, columns), dtype=torch.int64, device=a.device)
    arguments = (a, a.stride(0), b, b.stride(0), rows, columns, terms, totals, _BLOCKS)
    if a.is_cuda:
        _int8_mm_totals.cuda(a.device, *arguments)
    else:
        _int8_mm_totals(*arguments)
    return totals


def _shared(a: Tensor, b: Tensor, scales: Tensor, out: Tensor, accumulate: bool) -> Tensor:
    """Compute ``out = a.T @ (scales b)`` on CUDA by split-K: partial sums of shares of the terms, then their sum."""
    (terms, rows), columns = a.shape, b.shape[1]
    a, b = _pieces(a, 4), _pieces(b, 4)
    # Few tiles of a small result would leave most multiprocessors idle, so each tile's terms are split.
    tiles = max(1, -(-rows // _TILE) * -(-columns // _TILE))
    shares = max(1, min(-(-_BLOCKS // tiles), -(-terms // _TERMS)))
    sums = torch.empty((shares, rows, columns), device=a.device)  # added in order: deterministic
    native.call(
        _int8_mm_shared, a, a.stride(0), b, b.stride(0), scales, rows, columns, terms, sums, shares, out, out.stride(0),
        int(accumulate),
    )  # fmt: skip
    return out


def _integers(a: Tensor, b: Tensor) -> Tensor:
    """Compute the integers ``a @ b`` in plain PyTorch, as float64, which is exact up to 2**39 products per sum."""
    return a.double() @ b.double()


def _by_pieces(codes: Tensor) -> bool:
    """Return True if rows must be padded and aligned for tensor cores."""
    return codes.is_cuda


def _pieces(codes: Tensor, width: int) -> Tensor:
    """Align rows to ``width`` bytes, with zeros after the last column; return them unchanged if aligned already."""
    rows, columns = codes.shape
    if codes.data_ptr() % width == 0 and codes.stride(0) % width == 0 and columns % width == 0 and columns:
        return codes
    padded_codes = codes.new_zeros((rows, max(1, -(-columns // width)) * width))
    padded_codes[:, :columns] = codes  # (rows, columns) -> (rows, a multiple of width)
    return padded_codes


def _unit(codes: Tensor) -> Tensor:
    return codes if codes.shape[1] <= 1 or codes.stride(1) == 1 else codes.contiguous()
