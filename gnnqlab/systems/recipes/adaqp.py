"""AdaQP (Wan et al., MLSys 2023) and its two ablations: quantization only, overlap only."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.exchange.schedules.schedule import Overlapped, Synchronous
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["adaqp", "adaqp_p", "adaqp_q"]

_AsReleased = Annotated[bool, "Weigh rows and truncate quantization parameters as in AdaQP's published code."]


@register_system
def adaqp(
    *,
    lam: float = 0.5,
    group_size: int = 100,
    period: int = 50,
    bit_widths: tuple[int, ...] = (2, 4, 8),
    when: str = "background",
    parameters: str = "float32",
    as_released: _AsReleased = False,
) -> System:
    """AdaQP: assigned bit-widths, exchange overlapped with central nodes (sections 3 and 4).

    ``as_released`` follows the published code instead of the paper: it weighs rows with (Σα)² and truncates their
    quantization parameters to bfloat16 after encoding, which biases decoded rows. :func:`gnnqlab.errata` lists the
    effects.

    Raises:
        ValueError: if ``as_released`` is combined with other ``parameters`` than its own.
    """
    if as_released:
        if parameters not in ("float32", "bfloat16-after"):
            raise ValueError(
                f"as_released sends parameters 'bfloat16-after', got {parameters!r}; leave one of the two out"
            )
        parameters = "bfloat16-after"  # as the published code: truncated after codes are computed
    policy = Assigned(
        lam=lam, group_size=group_size, period=period, bit_widths=bit_widths, when=when, as_released=as_released
    )
    return replace(vanilla(), name="adaqp", codec=Stochastic(parameters=parameters), bits=policy, schedule=Overlapped())


@register_system
def adaqp_q(
    *,
    lam: float = 0.5,
    group_size: int = 100,
    period: int = 50,
    bit_widths: tuple[int, ...] = (2, 4, 8),
    when: str = "background",
    parameters: str = "float32",
    as_released: _AsReleased = False,
) -> System:
    """AdaQP without overlap: quantization only."""
    # The same recipe with one part replaced, so that the ablation differs in nothing else.
    system = adaqp(
        lam=lam,
        group_size=group_size,
        period=period,
        bit_widths=bit_widths,
        when=when,
        parameters=parameters,
        as_released=as_released,
    )
    return replace(system, name="adaqp-q", schedule=Synchronous())


@register_system
def adaqp_p() -> System:
    """AdaQP without quantization: float32 messages, overlapped with central nodes."""
    return replace(vanilla(), name="adaqp-p", schedule=Overlapped())
