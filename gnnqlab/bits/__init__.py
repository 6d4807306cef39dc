"""The axis ``bits``: policies that choose the bit-width of each row of a message."""

from gnnqlab.bits.exact_at import ExactAt
from gnnqlab.bits.growing import Growing
from gnnqlab.bits.policy import BitPolicy, Bits, Fixed, Rows, UniformRandom

__all__ = ["BitPolicy", "Bits", "ExactAt", "Fixed", "Growing", "Rows", "UniformRandom"]
