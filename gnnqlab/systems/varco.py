"""A system after VARCO (Cerviño et al. 2024): messages that are compressed less and less."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.bits.growing import Growing
from gnnqlab.message.codec import Stochastic
from gnnqlab.systems.system import System, register_system
from gnnqlab.systems.vanilla import vanilla

__all__ = ["varco"]


@register_system
def varco(*, among: tuple[int, ...] = (1, 2, 4, 8, 16, 32), period: int = 10, parameters: str = "float32") -> System:
    """VARCO-like: bit-widths that grow by a fixed plan to float32, one step every ``period`` epochs.

    The idea of VARCO with another compressor: see :class:`Growing` for what differs.
    """
    return replace(
        vanilla(), name="varco", codec=Stochastic(parameters=parameters), bits=Growing(among=among, period=period)
    )
