"""Messages between workers: caches, codecs, channels and transports."""

from typing import TYPE_CHECKING

from gnnqlab.attached import on_demand

if TYPE_CHECKING:
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
    from gnnqlab.message.codecs.low_rank import LowRank
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
    "LowRank",
    "NoCache",
    "Rotated",
    "Sampler",
    "Spikes",
    "StaleBlocks",
    "Stochastic",
    "Unchanged",
]

__getattr__ = on_demand(__name__, {
    "gnnqlab.message.caches.adaptive_cache": ("AdaptiveCache",),
    "gnnqlab.message.caches.cache": ("Cache", "NoCache", "Unchanged",),
    "gnnqlab.message.caches.difference": ("Difference",),
    "gnnqlab.message.caches.feedback": ("Feedback",),
    "gnnqlab.message.caches.stale_blocks": ("StaleBlocks",),
    "gnnqlab.message.codecs.bfloat16": ("BFloat16",),
    "gnnqlab.message.codecs.codec": ("Codec", "Float32", "Stochastic",),
    "gnnqlab.message.codecs.fp8": ("FP8", "MXFP8",),
    "gnnqlab.message.codecs.least_variance": ("LeastVariance",),
    "gnnqlab.message.codecs.linear": ("Linear",),
    "gnnqlab.message.codecs.low_rank": ("LowRank",),
    "gnnqlab.message.codecs.rotated": ("Rotated",),
    "gnnqlab.message.codecs.spikes": ("Spikes",),
    "gnnqlab.message.samplers": ("AllRows", "BoundarySampling", "Sampler",),
    "gnnqlab.message.transport.transport": ("TRANSPORTS",),
})  # fmt: skip
