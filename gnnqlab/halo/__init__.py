"""Halo exchange for any model: rows of other processes' nodes, in full precision or few bits; needs torch alone."""

from gnnqlab.halo.halo_plan import HaloPlan
from gnnqlab.halo.halo_rows import exchange_rows

__all__ = ["HaloPlan", "exchange_rows"]
