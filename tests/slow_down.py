"""Time limits that hold on any machine: limits that only catch hangs, and limits scaled by the machine's speed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

__all__ = ["HANG_S", "in_time", "slow_down", "wait_until"]

HANG_S = 900.0
"""Limit of every wait that only catches a hang: below that of pytest, far above the time of a step on any machine."""
_QUIET_S = 0.03
"""Seconds that `_work` takes on a quiet two-core server processor."""
_HEADROOM = 3.0


def slow_down() -> float:
    """Return the ratio of this machine's present run time to that of a quiet machine, at least 1.

    The measured work starts a process and computes, so a slow processor and a busy one have the same effect.
    """
    began = time.perf_counter()
    _work()
    return max(1.0, (time.perf_counter() - began) / _QUIET_S)


def _work() -> None:
    subprocess.run([sys.executable, "-I", "-S", "-c", "sum(range(500_000))"], check=True)


def in_time(seconds: float, promised_s: float) -> bool:
    """Return True if the seconds are within a limit in real time, scaled by the load of this machine.

    A test of such a promise is an exception: others assert no duration at all.
    """
    if seconds < promised_s:
        return True
    return seconds < promised_s * _HEADROOM * max(_load(), *(slow_down() for _ in range(3)))


def _load() -> float:
    """Return the number of processes per processor during the last minute: the machine may be quiet by now."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def wait_until(condition: Callable[[], object], *, what: str, promised_s: float | None = None) -> float:
    """Return the seconds until the condition held.

    Raises:
        AssertionError: after `HANG_S`, or as soon as the promise is broken, as `in_time` measures.
    """
    began, promise_s = time.monotonic(), HANG_S if promised_s is None else promised_s
    look_s = promise_s
    while not condition():
        seconds = time.monotonic() - began
        assert seconds < HANG_S, f"not within {HANG_S} s: {what}"
        if seconds > look_s:
            assert in_time(seconds, promise_s), f"not within {seconds:.1f} s, {promise_s} s are promised: {what}"
            look_s = 2 * seconds
        time.sleep(0.01)
    seconds = time.monotonic() - began
    assert in_time(seconds, promise_s), f"{what} took {seconds:.1f} s, {promise_s} s are promised"
    return seconds
