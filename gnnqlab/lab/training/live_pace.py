"""How often a view may draw: a small share of one processor, and never so seldom that it seems to stand still."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Pace"]


class Pace:
    """Says when the next drawing is due, from what the drawings before have cost.

    Drawings may take a share of the time that passes. What is not used is saved up to a small credit, so that a view
    that has just opened moves at once; one drawing that cost much more than others delays the next by ``most_s`` at
    most.

    Args:
        share: processor time of drawings over time.
        credit_s: processor seconds that can be saved, given at the start.
        least_s: least seconds between two drawings.
        most_s: most seconds between two drawings.
        clock: seconds that never go back.

    Example:
        >>> pace = Pace(share=0.01, credit_s=0.05, least_s=1.0, most_s=10.0, clock=lambda: 0.0)
        >>> pace.after(0.04), pace.after(0.04), pace.after(9.0)
        (1.0, 3.0, 10.0)
    """

    def __init__(
        self,
        *,
        share: float,
        credit_s: float,
        least_s: float,
        most_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._share, self._most_credit_s = share, credit_s
        self._least_s, self._most_s = least_s, most_s
        self._clock = clock
        self._credit_s, self._counted_s = credit_s, clock()

    def after(self, cost_s: float) -> float:
        """Return after how many seconds the next drawing is due.

        Args:
            cost_s: processor seconds of the drawing that has just ended.
        """
        now = self._clock()
        earned_s = self._share * (now - self._counted_s)
        self._counted_s = now
        self._credit_s = min(self._credit_s + earned_s, self._most_credit_s) - cost_s
        # What this delay cannot make good is forgiven: it was one slow drawing, not the price of the next.
        self._credit_s = max(self._credit_s, -self._share * self._most_s)
        return min(max(self._least_s, -self._credit_s / self._share), self._most_s)

    def refill(self) -> None:
        """Give the credit of the start again, as when a page has just been opened."""
        self._credit_s, self._counted_s = self._most_credit_s, self._clock()
