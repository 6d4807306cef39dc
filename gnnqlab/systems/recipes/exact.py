"""EXACT (Liu et al., ICLR 2022): activations compressed for the backward pass; messages stay those of Vanilla."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from gnnqlab.compute.exact import ExactActivations
from gnnqlab.settings import OneOf
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["exact"]

_Bits = Annotated[int, OneOf((1, 2, 4, 8)), "Bits of activations saved for the backward pass; messages have 32."]


@register_system
def exact(*, activation_bits: _Bits = 2, ratio: float = 1.0) -> System:
    """EXACT: activations saved in 2 bits; it saves memory and takes more time, messages are Vanilla's float32.

    The forward pass is exact, weight gradients are unbiased. Two bits without projection are the default of the
    authors' library; ``ratio=0.125`` also projects saved rows to an eighth of their columns, the paper's extreme
    setting. P workers train as one process, up to the order of sums.

    Example:
        >>> exact().compute, exact().codec
        (ExactActivations(bits=2, ratio=1.0), Float32())
    """
    return replace(vanilla(), name="exact", compute=ExactActivations(bits=activation_bits, ratio=ratio))
