"""The axis ``bits``: policies that choose the bit-width of each row of a message."""

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


def __dir__() -> list[str]:
    return list(__all__)
