"""Dense products of bfloat16 matrices with float32 accumulation and float32 results.

On a CPU, PyTorch's product of bfloat16 matrices rounds each sum to bfloat16. Its linear algebra library (Intel MKL) has
a product that does not, ``cblas_gemm_bf16bf16f32``, which uses the processor's bfloat16 instructions. Without it the
matrices are converted and multiplied in float32: the same sums in another order.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.sparse.adjacency import describe

__all__ = ["bfloat16_mm"]

_BY_ROWS, _PLAIN, _TURNED = 101, 111, 112
"""Constants of the CBLAS interface: row-major storage, not transposed, transposed."""
_MAX_DIMENSION = 2**31 - 1
"""Largest size in the CBLAS interface, whose integers have 32 bits."""


def bfloat16_mm(a: Tensor, b: Tensor, *, out: Tensor | None = None, accumulate: bool = False) -> Tensor:
    """Compute ``out = a @ b`` of bfloat16 matrices with float32 sums; no gradient is recorded.

    Args:
        a: ``(M, K)`` bfloat16; may be a transposed view, or rows of a larger matrix.
        b: ``(K, N)`` bfloat16, likewise.
        out: ``(M, N)`` float32 with contiguous rows, written and returned; allocated by default.
        accumulate: True to add to ``out``.

    Raises:
        ValueError: if shapes or types do not match.

    Example:
        >>> a = torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16)
        >>> bfloat16_mm(a, a.t()).item()
        5.0
    """
    if a.dtype != torch.bfloat16 or b.dtype != torch.bfloat16 or a.dim() != 2 or b.dim() != 2:
        raise ValueError(f"matrices must be bfloat16 in two dimensions, got {describe(a)} and {describe(b)}")
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"b must have a row for each column of a, got {describe(a)} and {describe(b)}")
    shape = (a.shape[0], b.shape[1])
    if accumulate and out is None:
        raise ValueError("accumulate adds to out, got out=None; pass the matrix to add to")
    if out is None:
        out = torch.empty(shape, device=a.device)
    if out.dtype != torch.float32 or out.shape != shape or (out.shape[1] > 1 and out.stride(1) != 1):
        raise ValueError(f"out must be float32 of shape {shape} by rows, got {describe(out)}, strides {out.stride()}")
    if not a.is_cpu:
        product = torch.mm(a, b, out_dtype=torch.float32)  # sums are not rounded to bfloat16
        return out.add_(product) if accumulate else out.copy_(product)
    if min(*shape, a.shape[1]) == 0:  # CBLAS refuses leading dimensions of 0
        return out if accumulate else out.zero_()
    # None: no such function in this PyTorch, or sizes that its 32-bit integers cannot hold.
    gemm = _gemm() if native.active(a.device) and max(*a.shape, *b.shape) <= _MAX_DIMENSION else None
    if gemm is None:
        # beta = 0 ignores the contents of out, even NaN.
        return torch.addmm(out, a.float(), b.float(), beta=1.0 if accumulate else 0.0, out=out)
    a, turned_a, step_a = _stored(a)
    b, turned_b, step_b = _stored(b)
    sizes = (*shape, a.shape[1])
    step = max(out.stride(0), shape[1])  # at least N, also for one row, whose stride is arbitrary
    # alpha, A, lda, B, ldb, beta, C, ldc: beta = 1 adds to out.
    matrices = (1.0, a.data_ptr(), step_a, b.data_ptr(), step_b, float(accumulate), out.data_ptr(), step)
    gemm(_BY_ROWS, turned_a, turned_b, *sizes, *matrices)
    return out


def _stored(matrix: Tensor) -> tuple[Tensor, int, int]:
    """Return a matrix for CBLAS, its transposition flag, and its leading dimension."""
    rows, columns = matrix.shape
    if matrix.stride(1) == 1 and matrix.stride(0) >= columns:
        return matrix, _PLAIN, matrix.stride(0)  # row-major
    if matrix.stride(0) == 1 and matrix.stride(1) >= rows:
        return matrix, _TURNED, matrix.stride(1)  # column-major: a transposed view
    return matrix.clone(memory_format=torch.contiguous_format), _PLAIN, columns  # any other strides need a copy


@functools.cache
def _gemm() -> Callable[..., None] | None:
    """Return the CBLAS function of the library that PyTorch has loaded, or None if it lacks it."""
    try:
        # Already loaded by PyTorch, so this opens no second copy.
        function = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")).cblas_gemm_bf16bf16f32
    except (OSError, AttributeError):
        return None
    number, address = ctypes.c_int, ctypes.c_void_p
    factor, matrix = ctypes.c_float, (address, number)
    # Order, both transpositions, M, N, K; alpha; A; B; beta; C.
    function.argtypes = [*[number] * 6, factor, *matrix, *matrix, factor, *matrix]
    function.restype = None
    return function
