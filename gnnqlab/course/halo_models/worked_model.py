"""Parts that the worked models share: their exchange, small networks, and owners of points."""

from __future__ import annotations

from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor, nn

from gnnqlab import halo

__all__ = ["HaloExchange", "WorkedModel", "mlp", "number_of_ranks", "stripes"]


@dataclass
class HaloExchange:
    """Exchange of halo rows in one training step; a model calls it before each of its layers.

    Args:
        bits: bit-width of rows and of their gradients.
        step: number of the training step, part of the noise key.
    """

    bits: int = 32
    step: int = 0

    def __call__(self, x: Tensor, plan: halo.HaloPlan, layer: int, *, bits: int | None = None) -> Tensor:
        """Return the rows of the halo nodes, ``(N, D)`` -> ``(H, D)``; ``bits`` replaces the bit-width."""
        bits = self.bits if bits is None else bits
        return halo.exchange_rows(x, plan, bits=(bits, bits), epoch=self.step, layer=layer)

    def sent_bytes(self, plans: tuple[halo.HaloPlan, ...]) -> int:
        """Return the bytes of rows and gradients that this rank has sent so far."""
        return sum(plan.sent_bytes for plan in plans)


class WorkedModel(nn.Module):
    """Model with generated samples, divided over the ranks; a subclass sets ``plans`` and implements ``loss``."""

    plans: tuple[halo.HaloPlan, ...]

    def loss(self, sample: int, exchange: HaloExchange) -> Tensor:
        """Return this rank's share of the relative squared error of a sample; the shares of all ranks add up to it.

        Args:
            sample: number of the sample, its seed.
            exchange: exchange of this step.
        """
        raise NotImplementedError


def mlp(inputs: int, width: int, outputs: int) -> nn.Sequential:
    """Return a network with one hidden layer.

    Example:
        >>> import torch
        >>> mlp(3, 8, 2)(torch.zeros(5, 3)).shape
        torch.Size([5, 2])
    """
    return nn.Sequential(nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, outputs))


def number_of_ranks() -> int:
    """Return the number of ranks of the process group; 1 without one."""
    return dist.get_world_size() if dist.is_initialized() else 1


def stripes(coordinate: Tensor, ranks: int) -> Tensor:
    """Return the owner of each point, int64 ``(V,)``: stripes of equal size along a coordinate.

    Example:
        >>> import torch
        >>> stripes(torch.tensor([0.3, 0.1, 0.4, 0.2]), ranks=2).tolist()
        [1, 0, 1, 0]
    """
    return coordinate.argsort(stable=True).argsort() * ranks // coordinate.numel()
