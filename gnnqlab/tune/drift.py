"""Loss by stale bit-widths: the objective of an assignment after value ranges have drifted.

An assignment made at a traced epoch s is evaluated on the ranges of a later epoch t. Its *excess* is the normalised
objective over that of an assignment made at t with the same λ, minus 1. The objective counts time as well as variance;
variance alone would favour a fresh assignment that spends more time. Between two assignments bit-widths are on average
half a period old.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.former_names import FormerMember
from gnnqlab.theory.cost import LinkCost, exchange_s
from gnnqlab.tune.offline_assigner import OfflineAssigner, Widths

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["PERIODS", "Drift", "drift"]

PERIODS = (10, 20, 50, 100, 200)
"""Periods to choose from."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Drift:
    """Loss by stale bit-widths as a function of age."""

    ages: tuple[int, ...]
    """Epochs between an assignment and the ranges on which it is evaluated, ascending."""
    loss: tuple[float, ...]
    """Excess of the objective at that age, mean over the traced pairs of epochs; 0: none, 0.1: a tenth."""

    def loss_at(self, age: float) -> float:
        """Return the loss at an age: linear in log(1 + age) between traced ages, constant beyond the last."""
        if not self.ages:
            return 0.0
        positions = np.log1p([0.0, *self.ages])  # traced epochs double, so logarithms space them evenly
        return float(np.interp(np.log1p(age), positions, [0.0, *self.loss]))

    def mean_loss(self, period: int) -> float:
        """Return the mean loss over one period.

        Example:
            >>> round(Drift(ages=(1, 10), loss=(0.1, 0.1)).mean_loss(2), 3)
            0.05
        """
        # An assignment has the ages 0 to period - 1.
        return float(np.mean([self.loss_at(age) for age in range(period)]))

    at = FormerMember("loss_at")
    of_period = FormerMember("mean_loss")

    def period(self, most: float = 0.1, *, periods: Sequence[int] = PERIODS) -> int:
        """Return the longest period with a mean loss of at most ``most``; the shortest if there is none.

        Example:
            >>> Drift(ages=(8, 64), loss=(0.0, 0.5)).period(0.1, periods=(5, 50, 500))
            5
        """
        fitting_periods = [period for period in sorted(periods) if self.mean_loss(period) <= most]
        return fitting_periods[-1] if fitting_periods else min(periods)

    def to_frame(self) -> DataFrame:
        """Return a table of ``age`` and ``loss``."""
        import pandas as pd

        return pd.DataFrame({"age": self.ages, "loss": self.loss})


def drift(assigner: OfflineAssigner, settings: Assigned, cost: LinkCost, *, transport: str) -> Drift:
    """Evaluate the assignment of every traced epoch on the ranges of all later ones.

    Args:
        assigner: offline assigner of the trace.
        settings: λ, group size and bit-widths.
        cost: θ and γ of every pair.
        transport: ``direct`` or ``ring``.
    """
    epochs = assigner.trace.epochs
    assignments = [assigner.assign(settings, cost, index=index, transport=transport) for index in range(len(epochs))]
    excess: dict[int, list[float]] = {}
    # Both assignments are evaluated on the later ranges, so that only their age differs.
    for start, end in itertools.combinations(range(len(epochs)), 2):
        stale_value = _objective(assigner, settings, cost, assignments[start], end, transport)
        fresh_value = _objective(assigner, settings, cost, assignments[end], end, transport)
        excess.setdefault(epochs[end] - epochs[start], []).append(
            stale_value / fresh_value - 1 if fresh_value > 0 else 0.0
        )
    ages = tuple(sorted(excess))
    # Assignments are optimal up to their gap, so a mean excess may be a little below 0.
    return Drift(ages=ages, loss=tuple(max(0.0, float(np.mean(excess[age]))) for age in ages))


def _objective(
    assigner: OfflineAssigner, settings: Assigned, cost: LinkCost, widths: Widths, index: int, transport: str
) -> float:
    """Return the normalised objective of bit-widths at a traced epoch, summed over layers and directions."""
    variance, sent_bytes = assigner.variance(widths, index), assigner.sent_bytes(widths)
    total = 0.0
    for place, problem in assigner.problems(settings, cost, index=index, transport=transport).items():
        seconds = exchange_s(cost, sent_bytes[place], transport="ring" if transport == "ring" else "direct")
        total += problem.objective(variance[place], seconds)  # in [0, 1] per problem: equal weights
    return total
