"""Who chooses each row's bit-width."""

from gnnqlab.bits.growing import Growing
from gnnqlab.bits.policy import BitPolicy, Bits, Fixed, Rows, UniformRandom

__all__ = ["BitPolicy", "Bits", "Fixed", "Growing", "Rows", "UniformRandom"]
