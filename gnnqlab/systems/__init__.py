"""Systems as choices along eight axes: one recipe a file."""

from gnnqlab.systems.system import SYSTEMS, System, make_system, register_system
from gnnqlab.systems.uniform_bits import fixed_bits, random_bits
from gnnqlab.systems.vanilla import vanilla

__all__ = ["SYSTEMS", "System", "fixed_bits", "make_system", "random_bits", "register_system", "vanilla"]
