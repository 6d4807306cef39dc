"""A system after VARCO (Cerviño et al. 2024): compression that decreases during training."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.bits.growing import Growing
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["varco"]


@register_system
def varco(
    *, bit_widths: tuple[int, ...] = (1, 2, 4, 8, 16, 32), period: int = 10, parameters: str = "float32"
) -> System:
    """VARCO-like: bit-widths that grow by a fixed plan to float32, one step every ``period`` epochs.

    From VARCO: a compression ratio that is scheduled before training and falls to 1, identical forward and backward.
    Ours: the compressor (stochastic rounding of whole rows; VARCO omits columns), and therefore steps in powers of two,
    their number and length. All other parts are Vanilla's; see :class:`Growing`.

    Example:
        >>> varco().bits.widths(None, 0), varco().bits.widths(None, 10**6)
        (1, 32)
    """
    return replace(
        vanilla(),
        name="varco",
        codec=Stochastic(parameters=parameters),
        bits=Growing(bit_widths=bit_widths, period=period),
    )
