"""How many bits a tensor's codes need: TANGO's relative error (SC 2023, Eq. 4) and its target.

It looks at the output of a model's first layer in the first epoch, after that has been quantized. Letters: N, D.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from gnnqlab.kernels.codec.quantize import Noise, quantize

__all__ = ["CHOICES", "EPSILON", "TARGET", "bits_needed", "fewest", "relative_error"]

EPSILON, TARGET = 0.0005, 0.3
"""As the paper chooses them (section 3.2)."""
CHOICES = (8, 6, 4, 2)
"""Bits to choose from."""


def relative_error(x: Tensor, rounded: Tensor, *, epsilon: float = EPSILON) -> float:
    """Return the mean of ``|x - q| / (|x| + |q| + epsilon)``, in [0, 1).

    Differs: the paper adds x, q and epsilon without magnitudes. Of a negative x that may be zero or as near to it as
    one likes, so its mean has no bound, while the text says it lies in [0, 1]; with magnitudes it does, and for
    positive elements both are the same.

    Args:
        x: what was rounded, any shape.
        rounded: the values that its codes stand for.

    Example:
        >>> import torch
        >>> relative_error(torch.tensor([1.0, -1.0]), torch.tensor([1.0, -3.0]), epsilon=0.0)
        0.25
    """
    if x.shape != rounded.shape or x.numel() == 0:
        raise ValueError(
            f"x and rounded must have one shape and elements, got {tuple(x.shape)}, {tuple(rounded.shape)}"
        )
    x, rounded = x.double(), rounded.double()
    sizes = x.abs() + rounded.abs() + epsilon
    return float(((x - rounded).abs() / sizes.clamp(min=1e-300)).mean())


def bits_needed(
    x: Tensor,
    *,
    choices: tuple[int, ...] = CHOICES,
    scale: str = "tensor",
    noise: Noise | None = None,
    target: float = TARGET,
    epsilon: float = EPSILON,
) -> int:
    """Return the fewest of some bits whose codes of x err by no more than the target; the most bits if none does.

    Args:
        x: float32 ``(N, D)``, the output of the first layer.
        choices: widths to choose from.
        scale, noise: as for :func:`gnnqlab.kernels.codec.quantize.quantize`.

    Example:
        >>> import torch
        >>> bits_needed(torch.tensor([[1.0, -1.0]])), bits_needed(torch.linspace(0.0, 1.0, 100).view(10, 10))
        (2, 4)
    """
    errors = {}
    for bits in choices:
        codes = quantize(x, bits=bits, scale=scale, noise=noise)
        errors[bits] = relative_error(x, codes.codes * codes.scales.unsqueeze(1), epsilon=epsilon)
    return fewest(errors, target=target)


def fewest(errors: Mapping[int, float], *, target: float = TARGET) -> int:
    """Return the fewest bits whose error is no more than the target; the most bits if none is.

    Example:
        >>> fewest({8: 0.1, 6: 0.2, 4: 0.4, 2: 0.9}), fewest({8: 0.5, 6: 0.6})
        (6, 8)
    """
    return min((bits for bits, error in errors.items() if error <= target), default=max(errors))
