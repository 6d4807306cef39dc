"""Count the Python instructions that a call runs: the work that grows with the input, on any machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["steps"]


def steps(call: Callable[[], object]) -> int:
    """Return the number of Python instructions that a call runs in this thread.

    Compiled code counts as the one instruction that calls it, so a loop over edges in Python shows, one in C does not.

    Example:
        >>> steps(lambda: sum(range(1000))) == steps(lambda: sum(range(10)))
        True
        >>> steps(lambda: [number for number in range(1000)]) > 1000
        True
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
