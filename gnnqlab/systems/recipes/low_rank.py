"""Messages as coefficients in a basis that follows their rows."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.bits.policy import Fixed
from gnnqlab.message.codecs.low_rank import LowRank
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["low_rank"]


@register_system
def low_rank(*, bits: int = 1, refresh_every: int = 5, iterations: int = 2, least_gain: float = 2.0) -> System:
    """Vanilla with rows as ``D b / 8`` coefficients in a basis of each layer and direction (after ResBM, 2604.11947).

    Differs: ResBM compresses activations between the stages of a pipeline by learned projections; here bases follow
    embeddings and gradients by orthogonal iteration, and a row without a good basis is rounded to b bits
    (:class:`gnnqlab.message.codecs.low_rank.LowRank`).

    Example:
        >>> low_rank().bits, low_rank(refresh_every=10).codec.refresh_every
        (Fixed(bits=1), 10)
    """
    codec = LowRank(refresh_every=refresh_every, iterations=iterations, least_gain=least_gain)
    return replace(vanilla(), name="low-rank", codec=codec, bits=Fixed(bits=bits))
