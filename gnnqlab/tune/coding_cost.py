"""Time of a codec relative to min-max codes, whose encoding and decoding a probe times."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache

import torch

from gnnqlab.message.codecs.base import Codec, Noise
from gnnqlab.message.codecs.codec import Stochastic

__all__ = ["coding_ratios"]

_ROWS = 1024
"""Rows of the timed message."""
_REPEATS = 5


@lru_cache(maxsize=256)
def coding_ratios(
    codec: Codec, bits: int, columns: int, *, timer: Callable[[], float] = time.thread_time
) -> tuple[float, float]:
    """Time encoding and decoding of one message, relative to :class:`gnnqlab.message.codecs.codec.Stochastic`.

    Args:
        codec: any codec.
        bits: bit-width of all rows.
        columns: D.
        timer: returns processor seconds of this thread.

    Returns:
        Ratios of encoding and of decoding; 1 for min-max codes of any setting, without a measurement.

    Example:
        >>> coding_ratios(Stochastic(parameters="bfloat16"), 2, 64)
        (1.0, 1.0)
    """
    if isinstance(codec, Stochastic):
        return 1.0, 1.0
    min_max = Stochastic()
    # Min-max codes have fewer bit-widths; theirs take about equally long per element.
    nearest_bits = min(min_max.widths, key=lambda width: abs(width - bits))
    own, usual = _seconds(codec, bits, columns, timer), _seconds(min_max, nearest_bits, columns, timer)
    return own[0] / usual[0], own[1] / usual[1]


def _seconds(codec: Codec, bits: int, columns: int, timer: Callable[[], float]) -> tuple[float, float]:
    """Return the least seconds of encoding and of decoding."""
    x = torch.randn(_ROWS, columns, generator=torch.Generator().manual_seed(0))  # (n, D)
    ids, layout, noise = torch.arange(_ROWS), codec.layout(bits, _ROWS, columns), Noise(0, 0, 0)
    segment, out = torch.empty(layout.num_bytes, dtype=torch.uint8), codec.rows(_ROWS, columns, x.device)
    encode_s, decode_s = [], []
    for _ in range(_REPEATS):
        start = timer()
        codec.encode(x, ids, ids, layout, segment, noise)
        middle = timer()
        codec.decode(segment, layout, out, ids, accumulate=False, ids=ids, noise=noise)
        encode_s.append(middle - start)
        decode_s.append(timer() - middle)
    return min(encode_s), min(decode_s)  # other load only adds time
