"""Largest magnitude of rows (amax) for a scale: all-reduced over workers, or known from the product that made them."""

from __future__ import annotations

from collections.abc import MutableMapping

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

__all__ = ["WHOLE", "Largest", "largest_of_all"]

WHOLE = "whole"
"""One scale for the rows of all workers."""


class Largest:
    """Largest magnitudes that are known without another pass over the rows.

    A product of codes computes that of its result while it writes the sums (TANGO, section 3.3). It is valid until the
    result is written to, also for a view of the whole result, such as rows by head.

    Example:
        >>> found, product = Largest(), torch.tensor([[3.0, -4.0]])
        >>> found.store(product, torch.tensor(4.0))
        >>> found.get(product.view(1, 2, 1), "tensor").item()
        4.0
        >>> found.get(product, "row"), found.get(product + 1, "tensor")
        (None, None)
        >>> _ = product.add_(1)
        >>> found.get(product, "tensor") is None
        True
    """

    def __init__(self) -> None:
        self.group: dist.ProcessGroup | None = None
        """Process group of the workers that share a scale; ``None`` for a single worker."""
        # Weak: an entry is dropped with its product. The number is the version of the product.
        self._known: MutableMapping[Tensor, tuple[Tensor, int]] = WeakTensorKeyDictionary()

    def store(self, product: Tensor, largest: Tensor) -> None:
        """Store the largest magnitude of a product, a scalar on its device."""
        self._known[product] = largest, product._version  # an in-place write changes the version

    def get(self, x: Tensor, scale: str) -> float | Tensor | None:
        """Return the largest magnitude for a scale of these rows; ``None`` if it is not known yet.

        With scale ``whole`` this is a collective call.
        """
        if scale == WHOLE:
            return None if self.group is None else largest_of_all(x.flatten(1).float(), self.group)
        if scale != "tensor":
            return None
        base = x._base  # None unless x is a view
        product = base if base is not None and base.numel() == x.numel() else x
        maximum, version = self._known.get(product, (None, None))
        return maximum if version == product._version else None

    @staticmethod
    def allocate(device: torch.device) -> Tensor:
        """Allocate the scalar into which a product writes the largest magnitude."""
        return torch.empty((), device=device)


def largest_of_all(x: Tensor, group: dist.ProcessGroup) -> float | None:
    """Return the largest magnitude of all workers' rows; a collective call.

    Args:
        x: this worker's rows ``(N, D)``; N may be 0.
        group: process group of the workers.

    Returns:
        The same value on all workers; ``None`` if these rows contain NaN or Inf.

    Raises:
        RuntimeError: if the rows of another worker contain NaN or Inf.
    """
    worker_maximum = x.abs().amax() if x.numel() else x.new_zeros(())  # (); a worker without rows takes part too
    # NaN does not survive a maximum on every backend, infinity does.
    maximum = torch.where(worker_maximum.isfinite(), worker_maximum, torch.inf)
    dist.all_reduce(maximum, op=dist.ReduceOp.MAX, group=group)
    if maximum.isfinite():
        return float(maximum)
    # Every worker raises: this one here, the worker of the rows when it quantizes them.
    if worker_maximum.isfinite():
        raise RuntimeError("rows to quantize must be finite, got NaN or Inf on another worker; see the error there")
    return None
