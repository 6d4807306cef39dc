"""TANGO (Chen et al., SC 2023): products of quantized integers; messages stay those of Vanilla."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from gnnqlab.compute.int8 import ROUNDINGS, Int8Products
from gnnqlab.kernels.codec.quantize import SCALES, WIDTHS
from gnnqlab.settings import OneOf
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["tango", "tango_int4"]

_Bits = Annotated[int, OneOf(WIDTHS), "Bits of the integers that products multiply; messages have 32."]
_Scale = Annotated[
    str, OneOf(SCALES), "Range of one scale: tensor, all rows that a worker prepares at once; row, each row alone."
]
_Rounding = Annotated[str, OneOf(ROUNDINGS), "Rounding of operands: stochastic, or nearest as in the paper's Test2."]


@register_system
def tango(*, product_bits: _Bits = 8, scale: _Scale = "tensor", rounding: _Rounding = "stochastic") -> System:
    """TANGO: products of 8-bit integers, one scale per tensor; it saves computation, messages are Vanilla's float32.

    Sections 3.2 and 3.3: operands are rounded stochastically, sums, weights and their updates are float32, and so are
    the layer before the loss and the logits of attention. The paper trains full graphs on one GPU; its training on
    several (section 4.2) samples mini-batches, whose features it quantizes. Rows of a full graph's messages are
    quantized by ``codec`` and ``bits`` in addition. With ``scale="row"``, which is ours, P workers train as one
    process; with one scale per tensor each worker has its own.

    Example:
        >>> tango().compute.bits, tango().compute.scale, tango().codec
        (8, 'tensor', Float32())
    """
    compute = Int8Products(bits=product_bits, scale=scale, rounding=rounding)
    return replace(vanilla(), name="tango", compute=compute)


@register_system
def tango_int4(*, scale: _Scale = "tensor", rounding: _Rounding = "stochastic") -> System:
    """TANGO with 4-bit integers: products as in the paper's Fig. 16; messages are Vanilla's float32."""
    return replace(tango(product_bits=4, scale=scale, rounding=rounding), name="tango-int4")
