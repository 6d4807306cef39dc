"""SANCUS (Peng et al., VLDB 2022): broadcasts that are skipped while a block is not too stale."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.bits.policy import Fixed
from gnnqlab.message.caches.stale_blocks import StaleBlocks
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.systems.recipes.cagnet import cagnet
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["sancus", "sancus_q"]


@register_system
def sancus(
    *,
    rule: str = "variation",
    every: int = 2,
    epsilon: float = 0.05,
    warm_up: int = 0,
    max_age: int = 10,
    as_released: bool = False,
) -> System:
    """SANCUS: CAGNET's rounds, in which an owner whose block changed little skips it and sends one bit.

    ``epsilon=0`` with ``variation``, or ``every=1``, equals CAGNET; ``as_released`` is the plan of the published code,
    whose caches are all disabled.
    """
    # CAGNET's partition and exchange; only the cache is SANCUS's own.
    cache = StaleBlocks(
        rule=rule, every=every, epsilon=epsilon, warm_up=warm_up, max_age=max_age, as_released=as_released
    )
    return replace(cagnet(), name="sancus", cache=cache)


@register_system
def sancus_q(
    *,
    bits: int = 8,
    rule: str = "variation",
    every: int = 2,
    epsilon: float = 0.05,
    warm_up: int = 0,
    max_age: int = 10,
) -> System:
    """SANCUS with quantized blocks: all workers cache the decoded block, and the owner measures changes against it.

    Differs: the paper specifies no quantizer; here rows are quantized to ``bits`` bits with stochastic rounding, as in
    AdaQP.
    """
    system = sancus(rule=rule, every=every, epsilon=epsilon, warm_up=warm_up, max_age=max_age)
    # schedule and cache as in SANCUS
    return replace(system, name="sancus-q", codec=Stochastic(), bits=Fixed(bits=bits))
