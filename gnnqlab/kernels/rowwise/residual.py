"""A layer that keeps a share of the first rows: ``(1 - share) x + share first``, one pass there and one back.

Forward, both are read once and the join written once. Backward every layer has a part of the gradient of ``first``: it
is added to that of the layers behind in the same pass, so that two matrices are read and two written, where a pass for
each gradient and one for their sum would move eight. Nothing is kept for it.

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

_backward = native.declare("residual_backward", "p p i f f p p i")


def residual(x: Tensor, first: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Return ``(1 - share) x + share first`` and ``first``, to be handed to the next layer that joins.

    The numbers are those of ``torch.lerp``, and gradients those of one ``lerp`` a layer, added from the last to the
    first.

    Args:
        x, first: rows ``(N, D)`` of one type and shape.
        share: of ``first``, in [0, 1].

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
    joined, again = _Residual.apply(x, first, share)
    return joined, again


class _Residual(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, first: Tensor, share: float) -> tuple[Tensor, Tensor]:
        ctx.share = share
        ctx.set_materialize_grads(False)
        return torch.lerp(x, first, share), first

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None, later: Tensor | None) -> tuple[Tensor | None, ...]:
        if gradient is None:
            return None, later, None
        return *_run_backward(gradient, later, ctx.share), None


def _run_backward(gradient: Tensor, later: Tensor | None, share: float) -> tuple[Tensor, Tensor]:
    if gradient.dtype != torch.float32 or not native.active(gradient.device):
        return reference.residual_backward(gradient, later, share)
    gradient, later = gradient.contiguous(), None if later is None else later.contiguous()
    of_rows, of_first = torch.empty_like(gradient), torch.empty_like(gradient)
    native.call(_backward, gradient, later, gradient.numel(), 1 - share, share, of_rows, of_first)
    return of_rows, of_first
