"""The gradients of a residual join in plain PyTorch: ``y = (1 - share) x + share first`` of every layer."""

from __future__ import annotations

from torch import Tensor

__all__ = ["residual_backward"]


def residual_backward(gradient_ND: Tensor, later_ND: Tensor | None, share: float) -> tuple[Tensor, Tensor]:
    """Return ``(1 - share) g`` and ``later + share g``: the gradients of ``x``, and of ``first`` so far.

    Args:
        gradient_ND: ``g``, of what the join came to.
        later_ND: what layers behind this one found for ``first``; ``None``: nothing yet.
    """
    of_first = gradient_ND * share
    return gradient_ND * (1 - share), of_first if later_ND is None else later_ND + of_first
