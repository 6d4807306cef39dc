"""CDFGNN (Zhang et al., 2024): a host-aware vertex-cut, an adaptive cache, and quantized differences."""

from __future__ import annotations

from gnnqlab.bits.policy import Fixed
from gnnqlab.exchange.vertex_cut.exchange import Replicas
from gnnqlab.message.caches.adaptive_cache import AdaptiveCache
from gnnqlab.message.codecs.linear import Linear
from gnnqlab.partition.ebv import EBV
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["cdfgnn"]


@register_system
def cdfgnn(
    *, gamma: float = 0.1, bits: int = 8, epsilon: float = 0.05, rule: str = "text", totals: str = "active"
) -> System:
    """CDFGNN: replicas synchronised by quantized differences of the rows that changed by more than ε (Algorithm 2).

    γ = 0 is EBV without hosts, ``rule="fixed"`` with ε = 0 a cache that skips unchanged rows only, and 32 bits are sent
    as float32. ``rule="equation"`` lost no accuracy where ``text`` did, and
    ``totals="moved"`` sends a total if it moved itself, not if a partial sum of it did (erratum CD-8), see
    :class:`gnnqlab.message.caches.adaptive_cache.AdaptiveCache`.
    """
    return System(
        name="cdfgnn",
        partition=EBV(gamma=gamma),
        exchange=Replicas(),
        cache=AdaptiveCache(epsilon=epsilon, rule=rule, totals=totals),
        codec=Linear(),  # of the differences that the cache selects
        bits=Fixed(bits=bits),
    )
