"""How fast widths grow stale: the variance that an assignment leaves once ranges have moved on.

An assignment made at a traced epoch s is held against the ranges of a later epoch t. Its *excess* is the variance that
it leaves there over what an assignment made at t would leave, at the same weighing λ, less 1; where the fresh one
spends more time on it, the excess of the normalised objective counts instead, as variance alone would flatter the
fresh one. Between two assignments widths are on average half a period old.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.theory.cost import LinkCost, exchange_s
from gnnqlab.tune.offline_assigner import OfflineAssigner, Widths

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["PERIODS", "Drift", "drift"]

PERIODS = (10, 20, 50, 100, 200)
"""Periods to choose from."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Drift:
    """The loss of stale widths by their age."""

    ages: tuple[int, ...]
    """Epochs between an assignment and the ranges it is held against, ascending."""
    loss: tuple[float, ...]
    """Excess of the objective at that age, mean over the traced pairs of epochs; 0 is none, 0.1 is a tenth."""

    def at(self, age: float) -> float:
        """Return the loss at an age: between traced ages by a line over log(1 + age), beyond them the last one."""
        if not self.ages:
            return 0.0
        known = np.log1p([0.0, *self.ages])
        return float(np.interp(np.log1p(age), known, [0.0, *self.loss]))

    def of_period(self, period: int) -> float:
        """Return the mean loss over one period.

        Example:
            >>> round(Drift(ages=(1, 10), loss=(0.1, 0.1)).of_period(2), 3)
            0.05
        """
        return float(np.mean([self.at(age) for age in range(period)]))

    def period(self, most: float = 0.1, *, periods: Sequence[int] = PERIODS) -> int:
        """Return the longest period whose mean loss is at most ``most``; the shortest if there is none.

        Example:
            >>> Drift(ages=(8, 64), loss=(0.0, 0.5)).period(0.1, periods=(5, 50, 500))
            5
        """
        fitting = [period for period in sorted(periods) if self.of_period(period) <= most]
        return fitting[-1] if fitting else min(periods)

    def to_frame(self) -> DataFrame:
        """Return ``age`` and ``loss``."""
        import pandas as pd

        return pd.DataFrame({"age": self.ages, "loss": self.loss})


def drift(desk: OfflineAssigner, settings: Assigned, cost: LinkCost, *, transport: str) -> Drift:
    """Hold every traced epoch's assignment against all later ones.

    Args:
        desk: of the trace.
        settings: λ, group size and widths.
        cost: θ and γ of every pair.
        transport: ``direct`` or ``ring``.
    """
    epochs = desk.trace.epochs
    made = [desk.assigned(settings, cost, index=index, transport=transport) for index in range(len(epochs))]
    seen: dict[int, list[float]] = {}
    for early, late in itertools.combinations(range(len(epochs)), 2):
        stale = _objective(desk, settings, cost, made[early], late, transport)
        fresh = _objective(desk, settings, cost, made[late], late, transport)
        seen.setdefault(epochs[late] - epochs[early], []).append(stale / fresh - 1 if fresh > 0 else 0.0)
    ages = tuple(sorted(seen))
    return Drift(ages=ages, loss=tuple(max(0.0, float(np.mean(seen[age]))) for age in ages))


def _objective(
    desk: OfflineAssigner, settings: Assigned, cost: LinkCost, widths: Widths, index: int, transport: str
) -> float:
    """Return the normalised objective of widths at a traced epoch, summed over layers and directions."""
    variance, sent = desk.variance(widths, index), desk.sent_bytes(widths)
    total = 0.0
    for place, problem in desk.problems(settings, cost, index=index, transport=transport).items():
        seconds = exchange_s(cost, sent[place], transport="ring" if transport == "ring" else "direct")
        total += problem.objective(variance[place], seconds)
    return total
