"""Residual connection to the initial embeddings, ``(1 - share) x + share first``: one pass forward, one backward.

Forward, both are read once and the result is written once. Backward, every layer contributes to the gradient of
``first``: it is added to that of later layers in the same pass, which reads two matrices and writes two, while separate
passes for both gradients and for their sum would move eight. Nothing is saved for backward.

`gnnqlab.kernels.reference.residual` is the definition; float64 and bfloat16 rows run it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnqlab.kernels import native
from gnnqlab.kernels.reference import residual as reference

__all__ = ["residual"]

# gradient, later, elements; 1 - share, share; gradients of x and of first; threads.
_backward = native.declare("residual_backward", "p p i f f p p i")


def residual(x: Tensor, first: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Return ``(1 - share) x + share first`` and ``first``, to be passed to the next layer.

    Values are identical to ``torch.lerp``, and gradients to one ``lerp`` per layer, added from the last to the first.

    Args:
        x, first: rows ``(N, D)`` of one type and shape.
        share: share of ``first``, in [0, 1].

    Raises:
        ValueError: if shapes or types differ, or the share is not in [0, 1].

    Example:
        >>> x, first = torch.tensor([[4.0]], requires_grad=True), torch.tensor([[8.0]], requires_grad=True)
        >>> once, again = residual(x, first, 0.25)
        >>> twice, _ = residual(once, again, 0.25)
        >>> twice.backward()
        >>> once.item(), x.grad.item(), first.grad.item()  # 0.75 squared, 0.25 + 0.75 * 0.25
        (5.0, 0.5625, 0.4375)
    """
    if x.shape != first.shape or x.dtype != first.dtype:
        raise ValueError(
            f"a residual join needs two matrices of one shape and type, got {tuple(x.shape)} {x.dtype} and "
            f"{tuple(first.shape)} {first.dtype}"
        )
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"the share of the first rows must be in [0, 1], got {share}")
    if torch.compiler.is_compiling():
        return torch.lerp(x, first, share), first
    out, first_rows = _Residual.apply(x, first, share)
    return out, first_rows


class _Residual(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, first: Tensor, share: float) -> tuple[Tensor, Tensor]:
        ctx.share = share
        ctx.set_materialize_grads(False)  # an unused result has no gradient instead of zeros
        return torch.lerp(x, first, share), first  # returned too: its gradient by later layers is `later` below

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None, later: Tensor | None) -> tuple[Tensor | None, ...]:
        if gradient is None:
            return None, later, None  # only `first` was used
        return *_run_backward(gradient, later, ctx.share), None


def _run_backward(gradient: Tensor, later_gradient: Tensor | None, share: float) -> tuple[Tensor, Tensor]:
    if gradient.dtype != torch.float32 or not native.active(gradient.device):
        return reference.residual_backward(gradient, later_gradient, share)
    gradient, later_gradient = gradient.contiguous(), None if later_gradient is None else later_gradient.contiguous()
    of_rows, of_first = torch.empty_like(gradient), torch.empty_like(gradient)
    native.call(_backward, gradient, later_gradient, gradient.numel(), 1 - share, share, of_rows, of_first)
    return of_rows, of_first
