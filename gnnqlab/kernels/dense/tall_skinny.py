"""Products of many rows with one small matrix, ``Y = base + X W``: layers forward, and gradients of their inputs.

PyTorch's product is Intel MKL's, which knows the processors of its maker best: on others it reaches three quarters of
what they can add and multiply, and less with few columns (``gnnqlab bench tall``). There these products are our own.
``X^T dY``, the gradient of a weight, is the framework's everywhere: nothing was won there.

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

_tall_mm = native.declare("tall_mm", "p i i i p i i i p i p i i")
_LEAST_ROWS = 1024
"""With fewer rows packing the matrix is felt, and everything takes microseconds."""
_MOST_COLUMNS = 4096
"""In and out together: beyond it a packed matrix leaves the near caches, and the framework's blocks are better."""
_MAKER = "GenuineIntel"
"""Whose processors the framework's library is made for."""
_own: bool | None = None


def tall_mm(x: Tensor, w: Tensor, *, base: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Multiply rows with a matrix and add them to a base; no gradient is recorded.

    Each element is summed by one chain, from the base on in the order of W's rows: the same for any number of threads,
    and whatever rows are multiplied beside it.

    Args:
        x: float32 ``(N, I)``, columns side by side.
        w: float32 ``(I, O)``; it may be a transposed view.
        base: ``(O,)``, the same for all rows, or ``(N, O)``, which may be ``out``; zeros if left out.
        out: float32 ``(N, O)``, columns side by side, written and returned; made if not given.

    Raises:
        ValueError: if shapes or types do not fit.

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
    shared = base is None or base.dim() == 1
    code = _tall_mm(
        x, x.stride(0), x.shape[0], x.shape[1], w, w.stride(0), w.stride(1), w.shape[1], base,
        0 if shared or base is None else base.stride(0), out, out.stride(0), native.threads(),
    )  # fmt: skip
    if code:
        raise RuntimeError(f"a product needs memory for its matrix packed, got none for {describe(w)}")
    return out


def many(x: Tensor) -> bool:
    """Whether rows ``(N, I)`` are so many that what is done to a small matrix first is not felt."""
    return x.shape[0] >= _LEAST_ROWS


def pays(x: Tensor, w: Tensor) -> bool:
    """Whether a product is our own: float32 rows on a CPU that the framework's library was not made for, and many.

    Args:
        x: ``(N, I)``; w: ``(I, O)``.
    """
    if not (x.is_cpu and x.dtype == w.dtype == torch.float32 and x.dim() == w.dim() == 2):
        return False
    if not many(x) or sum(w.shape) > _MOST_COLUMNS or not (x.stride(1) == 1 or x.shape[1] == 1):
        return False
    return (_of_another_maker() if _own is None else _own) and native.active(x.device)


@contextlib.contextmanager
def own_products(own: bool) -> Iterator[None]:
    """Have products of float32 be our own, or the framework's, whatever processor this is.

    Example:
        >>> with own_products(False):
        ...     pays(torch.ones(2000, 3), torch.ones(3, 3))
        False
    """
    global _own
    before, _own = _own, own
    try:
        yield
    finally:
        _own = before


@functools.cache
def _of_another_maker() -> bool:
    """Whether the processor is of another maker; where nobody says, it is taken for the library's."""
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
    for name, each in (("x", x), ("w", w), ("base", base), ("out", out)):
        if each is None:
            continue
        if each.dtype != torch.float32 or each.device != x.device:
            raise ValueError(f"{name} must be float32 on {x.device}, got {describe(each)} on {each.device}")
        if name != "w" and each.shape[-1] > 1 and each.stride(-1) != 1:
            raise ValueError(f"{name} must have columns side by side, got strides {each.stride()}; use contiguous()")
