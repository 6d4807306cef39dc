"""Ticks of axes of bytes, in the units of tables: 200 kB, not 200k."""

from __future__ import annotations

import math
from typing import Any

from gnnqlab.lab.figures.log_ticks import log_ticks
from gnnqlab.units import human_bytes

__all__ = ["byte_ticks", "log_byte_ticks"]


def byte_ticks(most: float, *, count: int = 5) -> dict[str, Any]:
    """Return ``tickvals`` and ``ticktext`` from 0 to a little beyond the largest value.

    Args:
        most: largest number of bytes, positive.
        count: approximate number of ticks.

    Example:
        >>> byte_ticks(503_024)
        {'tickvals': [0.0, 100000.0, 200000.0, 300000.0, 400000.0, 500000.0, 600000.0], 'ticktext': ['0', '100 kB', \
'200 kB', '300 kB', '400 kB', '500 kB', '600 kB']}
    """
    rough_step = max(most, 1.0) / count  # bytes between two ticks
    power = 10.0 ** math.floor(math.log10(rough_step))
    # The step of 1, 2, 5 or 10 times a power of ten that is nearest to the rough one by ratio.
    step = min((digit * power for digit in (1, 2, 5, 10)), key=lambda each: abs(math.log(each / rough_step)))
    # 2 % beyond the largest value, for its marker.
    places = [number * step for number in range(math.ceil(1.02 * most / step) + 1)]
    return {"tickvals": places, "ticktext": ["0", *map(human_bytes, places[1:])]}


def log_byte_ticks(least: float, most: float) -> dict[str, Any]:
    """Return ``tickvals`` and ``ticktext`` of a logarithmic axis of bytes.

    Example:
        >>> log_byte_ticks(2e3, 3e6)["ticktext"]
        ['1 kB', '10 kB', '100 kB', '1 MB', '10 MB']
    """
    places = log_ticks(least, most)
    return {"tickvals": places, "ticktext": [human_bytes(place) for place in places]}
