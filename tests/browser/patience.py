"""How much longer things may take on a machine that is busy with others."""

from __future__ import annotations

import time

__all__ = ["patience"]

_WORK_S = 0.2


def patience() -> float:
    """Return what goals in seconds are multiplied by: 2, and more on a machine that is busy.

    Some work's wall time over its processor time says how busy; kernel, server and pages take part, hence the power.
    """
    wall, used = time.perf_counter(), time.process_time()
    while time.process_time() - used < _WORK_S:
        sum(range(1000))
    return float(2.0 * max(1.0, (time.perf_counter() - wall) / _WORK_S) ** 1.5)
