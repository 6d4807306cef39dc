"""Gradients of a residual connection in plain PyTorch: ``y = (1 - share) x + share first`` in every layer."""

from __future__ import annotations

from torch import Tensor

__all__ = ["residual_backward"]


def residual_backward(gradient_ND: Tensor, later_ND: Tensor | None, share: float) -> tuple[Tensor, Tensor]:
    """Compute ``(1 - share) g`` and ``later + share g``: the gradient of ``x``, and that of ``first`` so far.

    Args:
        gradient_ND: ``g``, the gradient of ``y``.
        later_ND: gradient of ``first`` accumulated by later layers; ``None``: none yet.
        share: share of ``first``.
    """
    of_first = gradient_ND * share
    return gradient_ND * (1 - share), of_first if later_ND is None else later_ND + of_first
