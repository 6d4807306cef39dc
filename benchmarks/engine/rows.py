"""Rows of all result tables, and paired comparisons of scores over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gnnqlab.theory.intervals import interval

__all__ = [
    "MIN_POINTS",
    "PairedDifference",
    "cells",
    "seed_count_text",
    "half_interval",
    "paired_difference",
    "require_among",
    "row",
    "score_row",
]

MIN_POINTS = 0.01
"""Lower bound for a difference of scores in a denominator, in points: a ratio to less has no meaning."""


def require_among(option: str, names: Iterable[Any], known: Iterable[Any], *, least: int = 0) -> None:
    """Raise an error if an option of a measurement has an unknown name.

    Args:
        option: name of the option.
        names: its names.
        known: all that it may have.
        least: number of names that it must have.

    Raises:
        ValueError: with the unknown names.

    Example:
        >>> require_among("models", ["gcn", "gin"], ["gat", "gcn"])
        Traceback (most recent call last):
        ValueError: models must be among ['gat', 'gcn'], got ['gin']; leave --models out for the default
    """
    names, known = list(names), list(known)
    unknown_names = sorted(set(names) - set(known))
    if unknown_names or len(names) < least:
        found = unknown_names or "none"
        raise ValueError(f"{option} must be among {known}, got {found}; leave --{option} out for the default")


def row(
    case: str,
    metric: str,
    value: float | None,
    unit: str,
    rival: str,
    rival_value: float | None,
    ratio: float | None,
    goal: float | None = None,
    *,
    contestant: str = "",
    detail: str = "",
    **more: Any,
) -> dict[str, Any]:
    """Return one row; its goal is reached if the ratio is at least the goal.

    Args:
        case, metric, rival: identity of the row, with ``contestant``; they contain no measured number.
        value, unit, rival_value, ratio, goal: the numbers; for a row without a value, ``detail`` has the reason.
        contestant: name of a system or a partitioner, if a case has several.
        detail: measured text after the metric, for instance a range.
        **more: further columns.

    Example:
        >>> found = row("digits", "epoch", 2.0, "s", "vanilla", 3.0, 1.5, contestant="x", detail=" (1.9 to 2.1 s)")
        >>> found["figure"], found["contestant"], found["metric"]
        ('x: epoch (1.9 to 2.1 s)', 'x', 'epoch')
    """
    return {
        "case": case,
        "figure": ": ".join(filter(None, (contestant, metric))) + detail,
        "contestant": contestant,
        "metric": metric,
        "value": value,
        "unit": unit,
        "rival": rival,
        "rival_value": rival_value,
        "ratio": ratio,
        "goal": goal,
        "reached": None if goal is None or ratio is None else ratio >= goal,  # None without a goal or a ratio
        **more,
    }


def cells(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return measurements as formatted text, one row each."""

    def number(value: Any) -> str:
        return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)  # four digits

    return [
        {
            "case": row["case"],
            "figure": row["figure"],
            "ours": f"{number(row['value'])} {row['unit']}",
            "beside": f"{row['rival']} {number(row['rival_value'])}",
            "ratio": number(row["ratio"]),
            "goal": number(row["goal"]),
            "reached": {True: "yes", False: "NO", None: ""}[row["reached"]],
        }
        for row in rows
    ]


@dataclass(frozen=True)
class PairedDifference:
    """Mean of paired differences and half its 95 % confidence interval, both in points (hundredths of a score)."""

    points: float
    half: float

    @property
    def is_certain(self) -> bool:
        """True if the interval excludes zero."""
        return abs(self.points) > self.half

    @property
    def loss_at_most(self) -> float:
        """Largest loss in the interval, in points: minus its lower end, negative for a certain gain."""
        return self.half - self.points  # lower end of the interval, with the opposite sign

    def __str__(self) -> str:
        return f"{self.points:+.2f} ± {self.half:.2f} points"


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> PairedDifference:
    """Compare scores of the same seeds, in [0, 1].

    Example:
        >>> str(paired_difference([0.90, 0.92, 0.91], [0.90, 0.91, 0.90]))
        '+0.67 ± 1.43 points'
    """
    points = [100 * (score - rival) for score, rival in zip(ours, theirs, strict=True)]  # score in [0, 1] -> points
    return PairedDifference(statistics.fmean(points), half_interval(points))


def seed_count_text(seeds: int, first_seed: int = 0) -> str:
    """Return the text for a number of seeds in the name of a case.

    Example:
        >>> seed_count_text(5), seed_count_text(5, 10)
        ('5 seed(s)', '5 seed(s) from 10')
    """
    return f"{seeds} seed(s)" + (f" from {first_seed}" if first_seed else "")


def half_interval(values: Sequence[float]) -> float:
    """Return half the 95 % confidence interval of a mean, by Student's t; infinite for one value.

    Example:
        >>> round(half_interval([1.0, 3.0]), 1)  # t for one degree of freedom is 12.7, the standard error 1
        12.7
    """
    return interval(values)[1] if len(values) > 1 else float("inf")


def score_row(
    case: str,
    name: str,
    ours: Sequence[float],
    rival: str,
    theirs: Sequence[float],
    *,
    ratio: float | None = None,  # one value has no interval
    goal: float | None = None,
    more: str = "",
    detail: str | None = None,
) -> dict[str, Any]:
    """Return the row of a test score compared with a rival's, with ``points`` and ``half_interval`` of the difference.

    Args:
        case, name: case and contestant of the row.
        ours, theirs: scores in [0, 1] of the same seeds.
        rival: contestant with the scores ``theirs``.
        ratio: ratio of the row; by default that of the means.
        goal: least ratio.
        more: text after the difference.
        detail: text after the metric; by default the difference and ``more``.
    """
    difference, mean, rival_mean = paired_difference(ours, theirs), statistics.fmean(ours), statistics.fmean(theirs)
    return row(
        case,
        "test score",
        100 * mean,
        "%",  # score -> percent
        rival,
        100 * rival_mean,
        mean / rival_mean if ratio is None else ratio,
        goal,
        contestant=name,
        detail=f", {difference}{more}" if detail is None else detail,
        points=difference.points,
        half_interval=difference.half,
    )
