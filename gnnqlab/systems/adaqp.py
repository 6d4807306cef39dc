"""AdaQP (Wan et al., MLSys 2023) and its two halves."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.bits.assigned import Assigned
from gnnqlab.exchange.schedule import Overlapped, Synchronous
from gnnqlab.message.codec import Stochastic
from gnnqlab.systems.system import System, register_system
from gnnqlab.systems.vanilla import vanilla

__all__ = ["adaqp", "adaqp_p", "adaqp_q"]


@register_system
def adaqp(
    *,
    lam: float = 0.5,
    group_size: int = 100,
    period: int = 50,
    among: tuple[int, ...] = (2, 4, 8),
    when: str = "background",
    parameters: str = "float32",
    as_released: bool = False,
) -> System:
    """AdaQP: assigned bit-widths, exchange hidden behind central nodes (sections 3 and 4)."""
    assigned = Assigned(lam=lam, group_size=group_size, period=period, among=among, when=when, as_released=as_released)
    return replace(
        vanilla(), name="adaqp", codec=Stochastic(parameters=parameters), bits=assigned, schedule=Overlapped()
    )


@register_system
def adaqp_q(
    *,
    lam: float = 0.5,
    group_size: int = 100,
    period: int = 50,
    among: tuple[int, ...] = (2, 4, 8),
    when: str = "background",
    parameters: str = "float32",
    as_released: bool = False,
) -> System:
    """AdaQP without overlap: the quantization half of its ablation."""
    whole = adaqp(
        lam=lam,
        group_size=group_size,
        period=period,
        among=among,
        when=when,
        parameters=parameters,
        as_released=as_released,
    )
    return replace(whole, name="adaqp-q", schedule=Synchronous())


@register_system
def adaqp_p() -> System:
    """AdaQP without quantization: float32 messages, hidden behind central nodes."""
    return replace(vanilla(), name="adaqp-p", schedule=Overlapped())
