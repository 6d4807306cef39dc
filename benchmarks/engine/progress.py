"""Progress of a long measurement, on stderr."""

from __future__ import annotations

import sys
import time

__all__ = ["PartsProgress"]


class PartsProgress:
    """Counter of finished parts, with an estimate of the remaining time.

    Args:
        number: number of all parts.
    """

    def __init__(self, number: int) -> None:
        self._number, self._done, self._began = number, 0, time.monotonic()

    def say(self, what: str) -> None:
        """Count one more finished part, and print it with the numbers and the remaining minutes."""
        self._done += 1
        remaining_s = (time.monotonic() - self._began) / self._done * (self._number - self._done)
        text = f"{self._done} of {self._number}: {what}, about {remaining_s / 60:.0f} min left"
        print(text, file=sys.stderr, flush=True)
