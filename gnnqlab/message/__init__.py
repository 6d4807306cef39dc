"""Rows to bytes, and bytes to their receiver."""

from gnnqlab.message.cache import Cache, NoCache, Unchanged
from gnnqlab.message.codec import Codec, Float32, Stochastic
from gnnqlab.message.sampler import AllRows, BoundarySampling, Sampler
from gnnqlab.message.transport import TRANSPORTS

__all__ = [
    "TRANSPORTS",
    "AllRows",
    "BoundarySampling",
    "Cache",
    "Codec",
    "Float32",
    "NoCache",
    "Sampler",
    "Stochastic",
    "Unchanged",
]
