"""The largest magnitude that a scale goes by: agreed on by all workers, or told by the product that made the rows."""

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
    """Knows the largest magnitude of rows without another look at them, where somebody has had it already.

    A product of codes finds that of its result where it puts its sums (TANGO, section 3.3); it holds as long as nobody
    writes into the result, also for a view of all of it, such as rows by head.

    Example:
        >>> found, product = Largest(), torch.tensor([[3.0, -4.0]])
        >>> found.tell(product, torch.tensor(4.0))
        >>> found.of(product.view(1, 2, 1), "tensor").item(), found.of(product, "row"), found.of(product + 1, "tensor")
        (4.0, None, None)
        >>> _ = product.add_(1)
        >>> found.of(product, "tensor") is None
        True
    """

    def __init__(self) -> None:
        self.group: dist.ProcessGroup | None = None
        """Of the workers that share a scale; ``None`` of one alone."""
        self._told: MutableMapping[Tensor, tuple[Tensor, int]] = WeakTensorKeyDictionary()

    def tell(self, product: Tensor, largest: Tensor) -> None:
        """Note the largest magnitude of a product, a number on its device."""
        self._told[product] = largest, product._version

    def of(self, x: Tensor, scale: str) -> float | Tensor | None:
        """Return the largest magnitude that a scale of these rows goes by; ``None`` where it is still to be found.

        With scale ``whole`` all workers call this together.
        """
        if scale == WHOLE:
            return None if self.group is None else largest_of_all(x.flatten(1).float(), self.group)
        if scale != "tensor":
            return None
        base = x._base
        of = base if base is not None and base.numel() == x.numel() else x
        largest, version = self._told.get(of, (None, None))
        return largest if version == of._version else None

    @staticmethod
    def room(device: torch.device) -> Tensor:
        """Return where a product puts the number."""
        return torch.empty((), device=device)


def largest_of_all(x: Tensor, group: dist.ProcessGroup) -> float | None:
    """Return the largest magnitude of all workers' rows; all call this together.

    Args:
        x: this worker's rows ``(N, D)``, which may be none.
        group: the workers.

    Returns:
        The same number on all workers; ``None`` if one of these rows holds NaN or Inf.

    Raises:
        RuntimeError: if another worker's does.
    """
    own = x.abs().amax() if x.numel() else x.new_zeros(())
    most = torch.where(own.isfinite(), own, torch.inf)
    dist.all_reduce(most, op=dist.ReduceOp.MAX, group=group)
    if most.isfinite():
        return float(most)
    if own.isfinite():
        raise RuntimeError("rows to quantize must be finite, got NaN or Inf on another worker; see that one's error")
    return None
