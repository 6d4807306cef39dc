"""The axis ``bits``: policies that choose the bit-width of each row of a message."""

from typing import TYPE_CHECKING

from gnnqlab.attached import on_demand

if TYPE_CHECKING:
    from gnnqlab.bits.assigner.assigned import Assigned
    from gnnqlab.bits.exact_at import ExactAt
    from gnnqlab.bits.growing import Growing
    from gnnqlab.bits.orchestrator import Orchestrated
    from gnnqlab.bits.policy import BitPolicy, Bits, Fixed, Rows, UniformRandom

__all__ = [
    "Assigned",
    "BitPolicy",
    "Bits",
    "ExactAt",
    "Fixed",
    "Growing",
    "Orchestrated",
    "Rows",
    "UniformRandom",
]

__getattr__ = on_demand(__name__, {
    "gnnqlab.bits.assigner.assigned": ("Assigned",),
    "gnnqlab.bits.exact_at": ("ExactAt",),
    "gnnqlab.bits.growing": ("Growing",),
    "gnnqlab.bits.orchestrator": ("Orchestrated",),
    "gnnqlab.bits.policy": ("BitPolicy", "Bits", "Fixed", "Rows", "UniformRandom",),
})  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)
