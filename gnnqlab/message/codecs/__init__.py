"""The axis ``codec``: encode embeddings and gradients to bytes, and decode them."""

from typing import TYPE_CHECKING

from gnnqlab.attached import on_demand

if TYPE_CHECKING:
    from gnnqlab.message.codecs.bfloat16 import BFloat16
    from gnnqlab.message.codecs.codec import Codec, Float32, Stochastic
    from gnnqlab.message.codecs.fp8 import FP8, MXFP8
    from gnnqlab.message.codecs.least_variance import LeastVariance
    from gnnqlab.message.codecs.linear import Linear
    from gnnqlab.message.codecs.low_rank import LowRank
    from gnnqlab.message.codecs.rotated import Rotated
    from gnnqlab.message.codecs.spikes import Spikes

__all__ = [
    "FP8", "MXFP8", "BFloat16", "Codec", "Float32", "LeastVariance", "Linear", "LowRank", "Rotated", "Spikes",
    "Stochastic",
]  # fmt: skip

__getattr__ = on_demand(__name__, {
    "gnnqlab.message.codecs.bfloat16": ("BFloat16",),
    "gnnqlab.message.codecs.codec": ("Codec", "Float32", "Stochastic",),
    "gnnqlab.message.codecs.fp8": ("FP8", "MXFP8",),
    "gnnqlab.message.codecs.least_variance": ("LeastVariance",),
    "gnnqlab.message.codecs.linear": ("Linear",),
    "gnnqlab.message.codecs.low_rank": ("LowRank",),
    "gnnqlab.message.codecs.rotated": ("Rotated",),
    "gnnqlab.message.codecs.spikes": ("Spikes",),
})  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)
