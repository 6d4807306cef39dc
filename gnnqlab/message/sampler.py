"""The axis ``sampler``: which boundary rows travel in an epoch."""

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
"""Draws are 16 bits: a probability is a multiple of 2^-16."""


class Sampler(AxisPart, ABC):
    """Base class of parts that choose the rows of one epoch, as a function of what both ends of a message know."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("p", "rescale", "attention", "kept"),)

    @property
    @abstractmethod
    def p(self) -> float:
        """Probability with which each boundary row travels, in [0, 1]; 1: all do."""

    @property
    @abstractmethod
    def rescale(self) -> float:
        """Factor of a row that travels, so that sums keep their mean: 1 over the probability really drawn with."""

    @property
    @abstractmethod
    def attention(self) -> str:
        """Where attention applies the factor, one of ``weights``, ``none``, ``input``."""

    @abstractmethod
    def kept(self, ids: Tensor, *, holder: int, seed: int, epoch: int) -> Tensor:
        """Return the places of the rows that travel, ascending, int64.

        Args:
            ids: global ids of one worker's rows in another's halo, in plan order.
            holder: the worker in whose halo they are; forward it receives them, backward it sends their gradients.
        """


@dataclass(frozen=True)
class AllRows(Sampler):
    """Every boundary row travels in every epoch."""

    p: ClassVar[float] = 1.0
    rescale: ClassVar[float] = 1.0
    attention: ClassVar[str] = "none"

    def kept(self, ids: Tensor, *, holder: int, seed: int, epoch: int) -> Tensor:
        return ids.new_ones(ids.shape).nonzero().flatten()


@dataclass(frozen=True, kw_only=True)
class BoundarySampling(Sampler):
    """Each halo row kept with probability p, anew each epoch, the same for all layers and both directions (BNS-GCN).

    A kept row, and the gradient that goes home for it, counts 1/p (Wan et al., MLSys 2022, Algorithm 1); a sum's
    weights stay those of the whole graph, so ``E[z] = A [x; halo]`` and ``Var z_v = (1-p)/p sum_u a_vu^2 |h_u|^2``.
    Whether a row is kept is a function of (seed, epoch, holder, global node id); its owner follows from the id. So
    both ends of a message know it without asking.

    Differs: the released code draws exactly ⌊p n⌋ of n rows, none of a small pair in the whole run, and leaves out 1/p
    in one of its two backward paths; this is the paper's independent draw, with p rounded to a multiple of 2^-16.

    Example:
        >>> import torch
        >>> sampler = BoundarySampling(p=0.25)
        >>> kept = sampler.kept(torch.arange(10_000), holder=1, seed=0, epoch=3)
        >>> 2200 < kept.numel() < 2800, sampler.rescale
        (True, 4.0)
    """

    p: Annotated[float, Range(0, 1), Option("boundary-share")] = 0.1
    """Probability with which each halo row is kept, in [0, 1]; 0: workers train apart; 1: Vanilla."""
    attention: Annotated[str, OneOf(("weights", "none", "input")), Option("boundary-attention")] = "weights"
    """``weights``: a kept neighbour counts 1/p in numerator and denominator of the softmax, each of which is unbiased;
    ``none``: the softmax runs over those that were kept; ``input``: their rows are multiplied by 1/p before, which
    enters the logits as well (the released code; it leaves the first layer as it is)."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.p <= 1.0 or (self.p > 0 and self._threshold == 0):
            raise ValueError(f"p must be 0 or lie in (2**-17, 1], got {self.p}")
        check(self)

    @property
    def _threshold(self) -> int:
        return round(_STEPS * self.p)

    @property
    def rescale(self) -> float:
        return _STEPS / self._threshold if self._threshold else 0.0

    def kept(self, ids: Tensor, *, holder: int, seed: int, epoch: int) -> Tensor:
        draw = uniform16(ids, 1, seed=seed, epoch=epoch, stream=stream("sample", 0, holder + 1)).flatten()
        return (draw < self._threshold).nonzero().flatten()
