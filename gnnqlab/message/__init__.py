"""Rows to bytes, and bytes to their receiver."""

from gnnqlab.message.codec import Codec, Float32, Stochastic
from gnnqlab.message.transport import TRANSPORTS

__all__ = ["TRANSPORTS", "Codec", "Float32", "Stochastic"]
