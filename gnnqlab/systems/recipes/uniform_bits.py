"""Quantized messages without assignment: one bit-width for all rows, or random bit-widths."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.bits.policy import Fixed, UniformRandom
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["fixed_bits", "random_bits"]


@register_system
def fixed_bits(*, bits: int = 2, parameters: str = "float32") -> System:
    """Vanilla with all messages quantized to ``bits`` bits (SYLVIE Tables IV and X, fixed b)."""
    return replace(vanilla(), name="fixed-bits", codec=Stochastic(parameters=parameters), bits=Fixed(bits=bits))


@register_system
def random_bits(*, bit_widths: tuple[int, ...] = (2, 4, 8), period: int = 50, parameters: str = "float32") -> System:
    """Each message's bit-width sampled uniformly from a set every ``period`` epochs (AdaQP Table 6, Uniform)."""
    bits = UniformRandom(bit_widths=bit_widths, period=period)
    return replace(vanilla(), name="random-bits", codec=Stochastic(parameters=parameters), bits=bits)
