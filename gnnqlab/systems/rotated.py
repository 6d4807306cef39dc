"""AdaQP and SYLVIE with rotated codes: the same policies, exchanges and schedules, and another codec."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.bits.orchestrator import HALVES
from gnnqlab.message.rotated import Rotated
from gnnqlab.systems.adaqp import adaqp
from gnnqlab.systems.sylvie import sylvie
from gnnqlab.systems.system import System, register_system

__all__ = ["adaqp_r", "sylvie_r"]


@register_system
def adaqp_r(
    *,
    lam: float = 0.5,
    group_size: int = 100,
    period: int = 50,
    among: tuple[int, ...] = (2, 4, 8),
    when: str = "background",
    rotations: int = 2,
) -> System:
    """AdaQP with rotated codes at 1, 2 and 4 bits, in both directions; no paper has it.

    Widths are assigned by the variance of these codes (:meth:`gnnqlab.message.rotated.Rotated.row_variance`): β is
    ``Σα² |x|^2`` in place of AdaQP's ``Σα² D range^2 / 6``.
    """
    whole = adaqp(lam=lam, group_size=group_size, period=period, among=among, when=when)
    return replace(whole, name="adaqp-r", codec=Rotated(rotations=rotations))


@register_system
def sylvie_r(
    *,
    delta: int = 5,
    momentum: float = 0.9,
    among: tuple[int, ...] = (1, 2, 4, 8),
    formula: str = "text",
    thresholds: tuple[float, ...] = HALVES,
    bound: int = 10,
    dropped_by: str = "owner",
    rotations: int = 2,
) -> System:
    """SYLVIE with rotated codes at 1, 2 and 4 bits, in both directions; no paper has it."""
    whole = sylvie(
        delta=delta,
        momentum=momentum,
        among=among,
        formula=formula,
        thresholds=thresholds,
        bound=bound,
        dropped_by=dropped_by,
    )
    return replace(whole, name="sylvie-r", codec=Rotated(rotations=rotations))
