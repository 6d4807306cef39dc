"""Who chooses each row's bit-width."""

from gnnqlab.bits.growing import Growing
from gnnqlab.bits.policy import BitPolicy, Fixed, Rows, UniformRandom

__all__ = ["BitPolicy", "Fixed", "Growing", "Rows", "UniformRandom"]
