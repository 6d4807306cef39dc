"""AdaQP and SYLVIE with a better codec: each row is rotated before quantization if that reduces its error."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.bits.orchestrator import HALVES
from gnnqlab.message.codecs.least_variance import LeastVariance
from gnnqlab.systems.recipes.adaqp import adaqp
from gnnqlab.systems.recipes.sylvie import sylvie
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["adaqp_r", "sylvie_r"]


@register_system
def adaqp_r(
    *,
    lam: float = 0.5,
    group_size: int = 100,
    period: int = 50,
    bit_widths: tuple[int, ...] = (2, 4, 8),
    when: str = "background",
    rotations: int = 2,
) -> System:
    """AdaQP with the better of two codes for each row of 1, 2 or 4 bits, in both directions; not from a paper.

    Bit-widths are assigned by the variance of the chosen codes
    (:meth:`gnnqlab.message.codecs.least_variance.LeastVariance.row_variance`), so bit-width and code are chosen
    together: β is ``Σα²`` times the lower of both variances at 2 bits, in place of AdaQP's ``Σα² D range^2 / 6``.
    """
    system = adaqp(lam=lam, group_size=group_size, period=period, bit_widths=bit_widths, when=when)
    return replace(system, name="adaqp-r", codec=LeastVariance(rotations=rotations))


@register_system
def sylvie_r(
    *,
    delta: int = 5,
    momentum: float = 0.9,
    bit_widths: tuple[int, ...] = (1, 2, 4, 8),
    formula: str = "text",
    thresholds: tuple[float, ...] = HALVES,
    bound: int = 10,
    dropped_by: str = "owner",
    rotations: int = 2,
) -> System:
    """SYLVIE with the better of two codes for each row of 1, 2 or 4 bits, in both directions; not from a paper."""
    system = sylvie(
        delta=delta,
        momentum=momentum,
        bit_widths=bit_widths,
        formula=formula,
        thresholds=thresholds,
        bound=bound,
        dropped_by=dropped_by,
    )
    return replace(system, name="sylvie-r", codec=LeastVariance(rotations=rotations))
