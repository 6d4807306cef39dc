"""Trainings of a grid, each kept in the folder of a study, so that a table of hundreds can stop and continue."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from gnnqlab.study import Case, RunResult, Study

__all__ = ["Results", "mean_of", "train_each"]

Results = dict[Case, dict[str, list[RunResult]]]
"""Results by case and line, the same seeds in the same order."""


def train_each(systems: Any, *, seeds: int, first_seed: int = 0, **grid: Any) -> Results:
    """Train every cell of a grid that has no result yet, and return all results.

    Args:
        systems: as :class:`gnnqlab.Study` takes them; their names are the lines of a table.
        seeds: number of trainings of each line.
        first_seed: of these.
        **grid: further arguments of :class:`gnnqlab.Study`: ``graphs``, ``folder`` and so on.

    Raises:
        ValueError: if there is no seed.
        RuntimeError: if a training failed; the others were trained before.
    """
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    return Study(systems=systems, seeds=range(first_seed, first_seed + seeds), **grid).run().results()


def mean_of(trainings: Sequence[RunResult], value: str) -> float:
    """Return the mean of a field over trainings."""
    return statistics.fmean(getattr(one, value) for one in trainings)
