"""Messages between workers: caches, codecs, channels and transports."""

from gnnqlab.message.caches.adaptive_cache import AdaptiveCache
from gnnqlab.message.caches.cache import Cache, NoCache, Unchanged
from gnnqlab.message.caches.difference import Difference
from gnnqlab.message.caches.feedback import Feedback
from gnnqlab.message.caches.stale_blocks import StaleBlocks
from gnnqlab.message.codecs.bfloat16 import BFloat16
from gnnqlab.message.codecs.codec import Codec, Float32, Stochastic
from gnnqlab.message.codecs.fp8 import FP8, MXFP8
from gnnqlab.message.codecs.least_variance import LeastVariance
from gnnqlab.message.codecs.linear import Linear
from gnnqlab.message.codecs.rotated import Rotated
from gnnqlab.message.codecs.spikes import Spikes
from gnnqlab.message.samplers import AllRows, BoundarySampling, Sampler
from gnnqlab.message.transport.transport import TRANSPORTS

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
