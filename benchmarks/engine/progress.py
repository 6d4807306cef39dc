"""How far a long measurement is, on stderr."""

from __future__ import annotations

import sys
import time

__all__ = ["Progress"]


class Progress:
    """Counts what is done and estimates the time left.

    Args:
        number: of all.
    """

    def __init__(self, number: int) -> None:
        self._number, self._done, self._began = number, 0, time.monotonic()

    def say(self, what: str) -> None:
        """One more is done: say which, how many there are and the minutes left."""
        self._done += 1
        left_s = (time.monotonic() - self._began) / self._done * (self._number - self._done)
        text = f"{self._done} of {self._number}: {what}, about {left_s / 60:.0f} min left"
        print(text, file=sys.stderr, flush=True)
