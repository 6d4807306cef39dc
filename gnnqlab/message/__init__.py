"""Rows to bytes, and bytes to their receiver."""

from gnnqlab.message.adaptive_cache import AdaptiveCache
from gnnqlab.message.cache import Cache, NoCache, Unchanged
from gnnqlab.message.codec import Codec, Float32, Stochastic
from gnnqlab.message.difference import Difference
from gnnqlab.message.feedback import Feedback
from gnnqlab.message.fp8 import FP8, MXFP8
from gnnqlab.message.least_variance import LeastVariance
from gnnqlab.message.linear import Linear
from gnnqlab.message.rotated import Rotated
from gnnqlab.message.sampler import AllRows, BoundarySampling, Sampler
from gnnqlab.message.short import BFloat16
from gnnqlab.message.spikes import Spikes
from gnnqlab.message.stale_blocks import StaleBlocks
from gnnqlab.message.transport import TRANSPORTS

__all__ = [
    "FP8",
    "MXFP8",
    "TRANSPORTS",
    "AdaptiveCache",
    "AllRows",
    "BFloat16",
    "BoundarySampling",
    "Cache",
    "Codec",
    "Difference",
    "Feedback",
    "Float32",
    "LeastVariance",
    "Linear",
    "NoCache",
    "Rotated",
    "Sampler",
    "Spikes",
    "StaleBlocks",
    "Stochastic",
    "Unchanged",
]
