"""CDFGNN (Zhang et al., 2024): a vertex-cut that knows hosts, a cache that adapts, differences in few bits."""

from __future__ import annotations

from gnnqlab.bits.policy import Fixed
from gnnqlab.exchange.vertex_cut.exchange import Replicas
from gnnqlab.message.caches.adaptive_cache import AdaptiveCache
from gnnqlab.message.codecs.linear import Linear
from gnnqlab.partition.ebv import EBV
from gnnqlab.systems.system import System, register_system

__all__ = ["cdfgnn"]


@register_system
def cdfgnn(*, gamma: float = 0.1, bits: int = 8, epsilon: float = 0.05, rule: str = "text") -> System:
    """CDFGNN: replicas of nodes synchronised by differences, of those that moved by more than a share ε (Algorithm 2).

    γ = 0 is EBV without hosts, ``rule="fixed"`` with ε = 0 a cache that keeps home only what did not change, and 32
    bits are sent as float32. ``rule="equation"`` lost no accuracy where ``text`` did, see
    :class:`gnnqlab.message.caches.adaptive_cache.AdaptiveCache`.
    """
    return System(
        name="cdfgnn",
        partition=EBV(gamma=gamma),
        exchange=Replicas(),
        cache=AdaptiveCache(epsilon=epsilon, rule=rule),
        codec=Linear(),
        bits=Fixed(bits=bits),
    )
