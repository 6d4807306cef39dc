"""Products of many rows with one small matrix, ``Y = base + X W``: layers forward, and gradients of their inputs.

PyTorch uses Intel MKL, which is optimized for Intel processors: on others it reaches three quarters of peak arithmetic
throughput, and less with few columns (``gnnqlab bench tall``). There this kernel is used. ``X^T dY``, the gradient of a
weight, always uses PyTorch, since our kernel was not faster.

Letters: N rows, I columns in, O columns out.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.huge_pages import empty_in_huge_pages
from gnnqlab.kernels.sparse.adjacency import describe

__all__ = ["many", "own_products", "pays", "tall_mm"]

# x, stride, N, I; w, both strides, O; base, stride; out, stride; threads.
_tall_mm = native.declare("tall_mm", "p i i i p i i i p i p i i")
_MIN_ROWS = 1024
"""Minimum number of rows: with fewer, packing the matrix dominates a product of microseconds."""
_MAX_COLUMNS = 4096
"""Maximum of I + O: a larger packed matrix exceeds the near caches, where PyTorch's blocking is faster."""
_MAKER = "GenuineIntel"
"""CPU vendor for which PyTorch's library is optimized."""
_own: bool | None = None  # None: decided by the processor


def tall_mm(x: Tensor, w: Tensor, *, base: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Multiply rows by a matrix and add a base; no gradient is recorded.

    Each element is accumulated sequentially, starting with the base, in the order of W's rows: independent of the
    number of threads and of the other rows.

    Args:
        x: float32 ``(N, I)`` with contiguous rows.
        w: float32 ``(I, O)``; may be a transposed view.
        base: ``(O,)``, added to all rows, or ``(N, O)``, which may be ``out``; zeros by default.
        out: float32 ``(N, O)`` with contiguous rows, written and returned; allocated by default.

    Raises:
        ValueError: if shapes or types do not match.

    Example:
        >>> tall_mm(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [5.0]]), base=torch.tensor([0.5])).item()
        13.5
    """
    _check(x, w, base, out)
    if not x.is_cpu or not native.active(x.device):
        product = x @ w if base is None else torch.addmm(base, x, w)
        return product if out is None else out.copy_(product)
    if out is None:
        out = empty_in_huge_pages(x, x.shape[0], w.shape[1])
    if out.numel() == 0:
        return out
    has_shared_base = base is None or base.dim() == 1  # one base for all rows
    code = _tall_mm(
        x, x.stride(0), x.shape[0], x.shape[1], w, w.stride(0), w.stride(1), w.shape[1], base,
        0 if has_shared_base or base is None else base.stride(0), out, out.stride(0), native.threads(),
    )  # fmt: skip
    # The kernel allocates a copy of the matrix in the order in which it reads it.
    if code:
        raise RuntimeError(f"a product needs memory for a packed copy of its matrix, got none for {describe(w)}")
    return out


def many(x: Tensor) -> bool:
    """Return True if there are enough rows ``(N, I)`` to amortize preprocessing of a small matrix."""
    return x.shape[0] >= _MIN_ROWS


def pays(x: Tensor, w: Tensor) -> bool:
    """Return True if our kernel is used: for many float32 rows on a CPU for which MKL is not optimized.

    Args:
        x: ``(N, I)``.
        w: ``(I, O)``.
    """
    if not (x.is_cpu and x.dtype == w.dtype == torch.float32 and x.dim() == w.dim() == 2):
        return False
    if not many(x) or sum(w.shape) > _MAX_COLUMNS or not (x.stride(1) == 1 or x.shape[1] == 1):
        return False
    return (_of_another_maker() if _own is None else _own) and native.active(x.device)


@contextlib.contextmanager
def own_products(own: bool) -> Iterator[None]:
    """Use our kernel for float32 products, or PyTorch's, regardless of the processor.

    Example:
        >>> with own_products(False):
        ...     pays(torch.ones(2000, 3), torch.ones(3, 3))
        False
    """
    global _own
    previous_setting, _own = _own, own
    try:
        yield
    finally:
        _own = previous_setting


@functools.cache
def _of_another_maker() -> bool:
    """Return True if the CPU vendor is known and is not the one that MKL is optimized for."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "vendor_id" in text and _MAKER not in text


def _check(x: Tensor, w: Tensor, base: Tensor | None, out: Tensor | None) -> None:
    if x.dim() != 2 or w.dim() != 2 or x.shape[1] != w.shape[0]:
        raise ValueError(f"w must have a row for each column of x, got {describe(x)} and {describe(w)}")
    shape = (x.shape[0], w.shape[1])
    if base is not None and base.shape not in (shape, shape[1:]):
        raise ValueError(f"base must be of shape {shape} or {shape[1:]}, got {describe(base)}")
    if out is not None and out.shape != shape:
        raise ValueError(f"out must be of shape {shape}, got {describe(out)}")
    for name, value in (("x", x), ("w", w), ("base", base), ("out", out)):
        if value is None:
            continue
        if value.dtype != torch.float32 or value.device != x.device:
            raise ValueError(f"{name} must be float32 on {x.device}, got {describe(value)} on {value.device}")
        if name != "w" and value.shape[-1] > 1 and value.stride(-1) != 1:  # w is packed anyway, so any strides will do
            raise ValueError(f"{name} must have contiguous rows, got strides {value.stride()}; use contiguous()")
