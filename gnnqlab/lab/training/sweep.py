"""A sweep: runs, the settings in which they differ and what each came to; and which setting mattered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gnnqlab.lab.training.differing import Differing, differing

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["OUTCOMES", "Outcome", "Sweep", "explained"]

_FEWEST = 4


class Outcome(NamedTuple):
    """What a run came to, as figures show it."""

    word: str
    unit: str
    by: float
    """From the number kept to the unit shown."""
    short: str
    """Word and unit where there is little room."""

    @property
    def title(self) -> str:
        """The word with its unit."""
        return f"{self.word} ({self.unit})"


OUTCOMES = {
    "train_s": Outcome("total time", "s", 1.0, "total (s)"),
    "bytes_sent": Outcome("sent an epoch", "kB", 1e-3, "sent (kB)"),
    "score": Outcome("test score", "%", 100.0, "test (%)"),
}
"""By their names in a run's row."""


class Sweep:
    """Runs that have ended, by settings and outcomes.

    Args:
        settings: of each run, as `settings_of` returns them.
        outcomes: of each run, by the names of `OUTCOMES`; what is not known is ``None`` or NaN.
        names: of the runs.

    Raises:
        ValueError: if there are fewer than two runs, or they differ in nothing but their seed.
    """

    def __init__(
        self, settings: Sequence[Mapping[str, Any]], outcomes: Sequence[Mapping[str, Any]], names: Sequence[str]
    ) -> None:
        if len(settings) < 2:
            raise ValueError(
                f"a sweep needs at least two finished runs, got {len(settings)}; launch some, or tick more"
            )
        self.factors: list[Differing] = differing(settings)
        if not self.factors:
            raise ValueError(
                f"runs of a sweep must differ in a setting, got {len(settings)} that differ in their seed at most"
            )
        self.names = tuple(names)
        self.outcomes = {
            name: [math.nan if one.get(name) is None else float(one[name]) for one in outcomes] for name in OUTCOMES
        }

    def to_frame(self) -> DataFrame:
        """Return a row a run: the settings that differ in words, and the outcomes in the units of figures."""
        import pandas as pd

        columns: dict[str, list[Any]] = {one.name: [one.words[place] for place in one.places] for one in self.factors}
        for name, outcome in OUTCOMES.items():
            columns[outcome.title] = [outcome.by * value for value in self.outcomes[name]]
        return pd.DataFrame(columns, index=pd.Index(self.names, name="run"))

    def mattered(self) -> DataFrame:
        """Return what each setting explains of each outcome, the setting that explains most of the score first.

        Returns:
            A row a setting and outcome: ``setting, along, outcome, levels, runs`` and those of `explained`,
            ``share, chance, p``; NaN where every run has a value of its own. Outcomes that are the same in all runs
            are left out.

        Raises:
            ValueError: if fewer than four runs have ended, or no setting has a value that two runs share.
        """
        import pandas as pd

        if len(self.names) < _FEWEST:
            raise ValueError(
                f"which setting mattered needs at least {_FEWEST} finished runs, got {len(self.names)}: of fewer, any "
                "setting explains most of what differs; launch more seeds or settings"
            )
        rows = []
        for name, outcome in OUTCOMES.items():
            values = self.outcomes[name]
            known = [number for number, value in enumerate(values) if math.isfinite(value)]
            if len(known) < _FEWEST or len({values[number] for number in known}) == 1:
                continue
            for one in self.factors:
                places = [one.places[number] for number in known]
                share, chance, p = explained(places, [values[number] for number in known])
                rows.append(
                    (one.name, ", ".join(one.along), outcome.word, len(set(places)), len(known), share, chance, p)
                )
        columns = ["setting", "along", "outcome", "levels", "runs", "share", "chance", "p"]
        table = pd.DataFrame(rows, columns=columns)
        if not table["share"].notna().any():
            raise ValueError(
                "which setting mattered needs settings with a value that two runs share, and outcomes that differ, got "
                f"none in {len(self.names)} runs; launch each setting with two seeds"
            )
        score = table[table["outcome"] == OUTCOMES["score"].word].set_index("setting")["share"]
        best = table["setting"].map(score).fillna(-1.0)
        return table.assign(best=best).sort_values("best", ascending=False, kind="stable").drop(columns="best")


def explained(places: Sequence[int], values: Sequence[float]) -> tuple[float, float, float]:
    """Return which share of the variance of some numbers lies between groups, what chance alone gives, and its p.

    With n numbers in k groups, ``η² = Σ_g n_g (m_g - m)² / Σ_i (x_i - m)²``; groups that mean nothing have
    ``(k - 1) / (n - 1)`` on average. p is that of ``F = η² (n - k) / ((1 - η²) (k - 1))``, the one-way analysis of
    variance: how often groups that mean nothing would have a share as large (Fisher, 1925, chapter VII).

    Args:
        places: the group of each number.
        values: the numbers, in any unit.

    Returns:
        ``η²``, ``(k - 1) / (n - 1)`` and p; NaN where all are in one group, each is in a group of its own, or all
        numbers are the same.

    Example:
        >>> explained([0, 0, 1, 1], [1.0, 3.0, 5.0, 7.0])[:2]  # 16 of 20; 1 of 3
        (0.8, 0.3333333333333333)
    """
    groups: dict[int, list[float]] = {}
    for place, value in zip(places, values, strict=True):
        groups.setdefault(place, []).append(value)
    count, levels = len(values), len(groups)
    mean = math.fsum(values) / max(count, 1)
    whole = math.fsum((value - mean) ** 2 for value in values)
    if not 1 < levels < count or whole == 0:
        return math.nan, math.nan, math.nan
    within = math.fsum((value - math.fsum(group) / len(group)) ** 2 for group in groups.values() for value in group)
    chance = (levels - 1) / (count - 1)
    if within <= 1e-12 * whole:  # as of bytes, which the seed does not change
        return 1.0, chance, 0.0
    from scipy.special import fdtrc

    share = 1.0 - within / whole
    return (
        share,
        chance,
        float(fdtrc(levels - 1, count - levels, share / (levels - 1) * (count - levels) * whole / within)),
    )
