"""Who chooses each row's bit-width."""

from gnnqlab.bits.policy import BitPolicy, Fixed, Rows, UniformRandom

__all__ = ["BitPolicy", "Fixed", "Rows", "UniformRandom"]
