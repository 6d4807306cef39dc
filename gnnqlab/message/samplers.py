"""The axis ``sampler``: a random sample of boundary nodes per epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch import Tensor

from gnnqlab.axis_part import AxisPart
from gnnqlab.kernels.noise import stream, uniform16
from gnnqlab.settings import OneOf, Option, Range, check

__all__ = ["AllRows", "BoundarySampling", "Sampler"]

_STEPS = 1 << 16
"""Random numbers have 16 bits, so a probability is a multiple of 2^-16."""


class Sampler(AxisPart, ABC):
    """Base class of samplers; sender and receiver derive the same sample, so it need not be transmitted."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("p", "rescale", "attention", "sampled_positions"),)
    renamed: ClassVar[dict[str, str]] = {"kept": "sampled_positions"}

    @property
    @abstractmethod
    def p(self) -> float:
        """Probability that a boundary row is sampled, in [0, 1]; 1: all rows are sent."""

    @property
    @abstractmethod
    def rescale(self) -> float:
        """Factor applied to a sampled row, so that aggregations are unbiased: 1 over the effective probability."""

    @property
    @abstractmethod
    def attention(self) -> str:
        """Operand of attention that is rescaled: ``weights``, ``none`` or ``input``."""

    @abstractmethod
    def sampled_positions(self, ids: Tensor, *, holder: int, seed: int, epoch: int) -> Tensor:
        """Return the positions of the sampled rows in ``ids``, ascending, int64.

        Args:
            ids: global node ids of one worker's rows in another worker's halo, in plan order.
            holder: rank with the halo; it receives the rows (forward) and sends their gradients (backward).
        """


@dataclass(frozen=True)
class AllRows(Sampler):
    """Send every boundary row in every epoch."""

    p: ClassVar[float] = 1.0
    rescale: ClassVar[float] = 1.0
    attention: ClassVar[str] = "none"

    def sampled_positions(self, ids: Tensor, *, holder: int, seed: int, epoch: int) -> Tensor:
        return ids.new_ones(ids.shape).nonzero().flatten()


@dataclass(frozen=True, kw_only=True)
class BoundarySampling(Sampler):
    """Sample each halo row with probability p, once per epoch for all layers and both directions (BNS-GCN).

    A sampled row and its gradient are multiplied by 1/p (Wan et al., MLSys 2022, Algorithm 1); edge weights stay those
    of the whole graph, so ``E[z] = A [x; halo]`` and ``Var z_v = (1-p)/p sum_u a_vu^2 |h_u|^2``. The sample is a
    function of (seed, epoch, holder, global node id) only, so sender and receiver compute it without communication.

    Differs: the released code samples exactly ⌊p n⌋ of n rows, which is none in the whole run if p n < 1, and omits
    1/p in one of its two backward paths; here draws are independent, as in the paper, with p a multiple of 2^-16.

    Example:
        >>> import torch
        >>> sampler = BoundarySampling(p=0.25)
        >>> kept = sampler.sampled_positions(torch.arange(10_000), holder=1, seed=0, epoch=3)
        >>> 2200 < kept.numel() < 2800, sampler.rescale
        (True, 4.0)
    """

    p: Annotated[float, Range(0, 1), Option("boundary-share")] = 0.1
    """Probability that a halo row is sampled, in [0, 1]; 0: no communication of embeddings; 1: Vanilla."""
    attention: Annotated[str, OneOf(("weights", "none", "input")), Option("boundary-attention")] = "weights"
    """``weights``: a sampled neighbour counts 1/p in numerator and denominator of the softmax, each of them unbiased;
    ``none``: plain softmax over the sampled neighbours; ``input``: their embeddings are multiplied by 1/p first, which
    changes the logits too (as in the released code, which does not rescale the first layer)."""

    def __post_init__(self) -> None:
        # A positive p that rounds to 0 would never sample a row, and no factor could make the sums unbiased.
        if not 0.0 <= self.p <= 1.0 or (self.p > 0 and self._threshold == 0):
            raise ValueError(f"p must be 0 or lie in (2**-17, 1], got {self.p}")
        check(self)

    @property
    def _threshold(self) -> int:
        return round(_STEPS * self.p)

    @property
    def rescale(self) -> float:
        # 1/p with the rounded p that is drawn, so that aggregations stay unbiased.
        return _STEPS / self._threshold if self._threshold else 0.0

    def sampled_positions(self, ids: Tensor, *, holder: int, seed: int, epoch: int) -> Tensor:
        # The holder enters the key: a node in several halos is sampled independently for each of them.
        draw = uniform16(ids, 1, seed=seed, epoch=epoch, stream=stream("sample", 0, holder + 1)).flatten()  # (n,)
        # P(draw < round(2^16 p)) is p, rounded to a multiple of 2^-16.
        return (draw < self._threshold).nonzero().flatten()  # (n,) -> (k,) int64


def __dir__() -> list[str]:
    return list(__all__)
