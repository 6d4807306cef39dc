"""Readable tables of a comparison: one row per run, or one per group of runs that differ in their seed only.

The best cell of each column is known, for bold text. A run whose score is below the baseline's by more than
``MARGIN`` is marked in words, and none of its cells is best: faster epochs that learn less are no gain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gnnqlab.study.result import MARGIN
from gnnqlab.study.tables import GROUP, format_value, summarize
from gnnqlab.terminal import aligned, is_styled
from gnnqlab.train.loop.scores import FURTHER_SCORES
from gnnqlab.units import human_bytes

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["ReadableTable", "run_table", "seed_summary", "seed_table"]

NOTE = "note"
"""Column of words about a score below the baseline's."""


@dataclass(frozen=True)
class ReadableTable:
    """Cells as text."""

    cells: DataFrame
    best: frozenset[tuple[int, str]]
    """Position of the row and name of the column of the best cells."""

    @property
    def notes(self) -> dict[str, str]:
        """Words about each row whose score is below the baseline's."""
        return {row: words for row, words in self.cells.get(NOTE, {}).items() if words}

    def fitted(self, width: int) -> str:
        """Return the table as text, with notes below it; columns that do not fit into ``width`` are named instead."""
        columns = [name for name in self.cells.columns if name != NOTE]
        rows = [[str(row), *map(str, values)] for row, values in zip(self.cells.index, self.cells[columns].to_numpy())]
        bold = [(row, columns.index(name) + 1) for row, name in self.best if name in columns] if is_styled() else []
        titles = [str(self.cells.index.name or ""), *columns]
        table = aligned(titles, rows, width=width, right=range(1, len(titles)), bold=bold)
        return "\n".join([table, *(f"{row} {words}" for row, words in self.notes.items())])


class _Metric(NamedTuple):
    """Metric over seeds: its name, its column in ``comparison_frame``, its unit, and the direction of better values."""

    name: str
    column: str
    unit: str
    factor: float = 1.0
    better: int = 0
    """1 if larger is better, -1 if smaller is, 0 for neither."""


def _metrics(frame: DataFrame, score: str, target: float, baseline: str) -> list[_Metric]:
    further = [name for name in FURTHER_SCORES.values() if name in frame]
    to_target = f"to {100 * target:.1f} %"
    return [
        _Metric(f"test {score}", score, "%", 100, 1),
        _Metric(f"{score} − {baseline}", "difference", "points", 100),
        *(_Metric(f"test {name}", name, "%", 100, 1) for name in further),
        _Metric("total", "train_s", "s", 1, -1),
        _Metric("speed-up", "faster", "×", 1, 1),
        *([] if math.isnan(target) else [_Metric(to_target, "to_target_s", "s", 1, -1)]),
        *([] if math.isnan(target) else [_Metric(f"speed-up {to_target}", "faster_to_target", "×", 1, 1)]),
        _Metric("median epoch", "epoch_s", "ms", 1000, -1),
        _Metric("sent per epoch", "bytes_per_epoch", "B", 1, -1),
        _Metric("less sent", "fewer_bytes", "×", 1, 1),
    ]


def seed_summary(frame: DataFrame, *, score: str, target: float, baseline: str) -> DataFrame:
    """Return means over seeds with 95 % intervals, and differences from the baseline over the same seeds.

    Args:
        frame: one row per run, as returned by ``comparison_frame``.
        score: its column of the test score.
        target: validation score of the time to accuracy; NaN for none.
        baseline: label of the baseline's group.

    Returns:
        As :meth:`gnnqlab.study.Study.summary`: one row per group and metric, with ``system`` the label of the group.
    """
    import pandas as pd

    rows = [
        {
            **dict.fromkeys(GROUP, ""),
            "system": run["group"],
            "seed": run["seed"],
            "metric": metric.name,
            "value": metric.factor * _number(run[metric.column]),
            "unit": metric.unit,
        }
        for run in frame.to_dict("records")
        for metric in _metrics(frame, score, target, baseline)
    ]
    return summarize(pd.DataFrame(rows), [], {"system": baseline, "services": ""})


def seed_table(frame: DataFrame, *, score: str, target: float, baseline: str) -> ReadableTable:
    """Return one row per group, ``mean ± half interval`` in each cell; arguments as for :func:`seed_summary`."""
    import pandas as pd

    summary = seed_summary(frame, score=score, target=target, baseline=baseline)
    metrics = {metric.name: metric for metric in _metrics(frame, score, target, baseline)}
    difference = f"{score} − {baseline}"
    names = list(dict.fromkeys(frame["group"]))
    counts = frame["group"].value_counts()
    notes = _notes(
        {row.system: (row.mean, row.half_interval) for row in summary[summary["metric"] == difference].itertuples()},
        f"{baseline}'s {score}",
    )
    varied = _varied(frame)
    cells: dict[str, dict[str, str]] = {name: {} for name in names}
    numbers: dict[str, dict[str, float]] = {name: {} for name in names}
    for row in summary.to_dict("records"):
        name, metric = row["system"], metrics[row["metric"]]
        numbers[name][metric.name] = metric.better * row["mean"] if metric.better else math.nan
        text = _cell(row["mean"], row["half_interval"], metric.unit)
        if metric.column == "to_target_s" and row["seeds"] < counts[name]:
            text = f"{text}, {row['seeds']} of {counts[name]} seeds" if row["seeds"] else "not reached"
        cells[name][metric.name] = "" if name == baseline and metric.name == difference else text
    first = frame.groupby("group", sort=False)[varied].first()
    table = pd.DataFrame(
        [
            {**{column: first.at[name, column] for column in varied}, "seeds": counts[name], **cells[name]}
            | ({NOTE: notes.get(name, "")} if notes else {})
            for name in names
        ],
        index=pd.Index(names, name="system"),
    )
    return ReadableTable(table, _best([numbers[name] for name in names], [name not in notes for name in names]))


def run_table(frame: DataFrame, *, score: str, target: float, baseline: str) -> ReadableTable:
    """Return one row per run; arguments as for :func:`seed_summary`."""
    table = frame[_varied(frame)].copy()
    table[f"test {score}"] = [f"{100 * value:.2f} %" for value in frame[score]]
    for label in (name for name in FURTHER_SCORES.values() if name in frame):
        table[f"test {label}"] = [f"{100 * value:.2f} %" for value in frame[label]]
    table["total"] = [_with_speedup(*pair) for pair in zip(frame["train_s"], frame["faster"])]
    to_target = f"to {100 * target:.1f} %"
    if not math.isnan(target):
        times = zip(frame["to_target_s"], frame["faster_to_target"])  # NaN for a run that did not reach the target
        table[to_target] = [_with_speedup(*pair) for pair in times]
    table["median epoch"] = [f"{1000 * seconds:.3g} ms" for seconds in frame["epoch_s"]]
    table["sent per epoch"] = [human_bytes(count) for count in frame["bytes_per_epoch"]]
    table["of which scales, zero-points"] = [human_bytes(count) for count in frame["bytes_params"].astype(float)]
    table["less sent"] = [
        f"{ratio:.1f} ×" if ratio > 0 else "" for ratio in frame["fewer_bytes"]
    ]  # NaN if all sent nothing
    differences = {name: (100 * _number(value), math.nan) for name, value in frame["difference"].items()}
    notes = _notes(differences, f"{baseline}'s {score}")
    if notes:
        table[NOTE] = [notes.get(name, "") for name in table.index]
    better = {f"test {score}": (score, 1), "total": ("train_s", -1), to_target: ("to_target_s", -1),
              "median epoch": ("epoch_s", -1), "sent per epoch": ("bytes_per_epoch", -1)}  # fmt: skip
    numbers = [
        {name: sign * _number(run[column]) for name, (column, sign) in better.items()}
        for run in frame.to_dict("records")
    ]
    return ReadableTable(table, _best(numbers, [name not in notes for name in table.index]))


def _varied(frame: DataFrame) -> list[str]:
    """Return the settings that differ between runs: those that all share need no column."""
    return [name for name in ("workers", "epochs") if frame[name].nunique() > 1]


def _notes(differences: Mapping[str, tuple[float, float]], reference: str) -> dict[str, str]:
    """Return words about scores below the baseline's, by row; the margin is that of the time to accuracy.

    Args:
        differences: mean difference in points and the half-width of its interval, by row; NaN if not known.
        reference: the baseline's score in words.

    Example:
        >>> _notes({"a": (-20.0, 1.0), "b": (-0.6, 2.0), "c": (-0.4, 0.1)}, "vanilla's accuracy")
        {'a': "misses vanilla's accuracy by 20.00 points", 'b': "may miss vanilla's accuracy: -0.60 ± 2.00 points"}
    """
    notes = {}
    for name, (mean, half) in differences.items():
        if not mean < -100 * MARGIN:  # also if it is NaN
            continue
        # With an interval that includes zero, other seeds could turn the order around.
        is_certain = math.isnan(half) or mean + half < 0
        text = format_value(mean, half, "points")
        notes[name] = f"misses {reference} by {-mean:.2f} points" if is_certain else f"may miss {reference}: {text}"
    return notes


def _best(numbers: Iterable[Mapping[str, float]], may_win: Iterable[bool]) -> frozenset[tuple[int, str]]:
    """Return the cells with the largest number of their column, among rows that may be best."""
    rows = [(place, row) for place, (row, is_candidate) in enumerate(zip(numbers, may_win)) if is_candidate]
    if len(rows) < 2:
        return frozenset()
    largest: dict[str, float] = {}
    for _, row in rows:
        for name, value in row.items():
            if not math.isnan(value):
                largest[name] = max(value, largest.get(name, -math.inf))
    return frozenset((place, name) for place, row in rows for name, value in row.items() if value == largest.get(name))


def _cell(mean: float, half: float, unit: str) -> str:
    if math.isnan(mean):
        return ""
    if unit == "B":
        return human_bytes(mean) + (f" ± {human_bytes(half)}" if half > 0 else "")  # messages of fixed bits: no spread
    return format_value(mean, half, unit, sign="+" if unit == "points" else "")


def _with_speedup(seconds: float, speedup: float) -> str:
    """Return seconds and the speed-up relative to the baseline in words."""
    if math.isnan(seconds):
        return "not reached"
    return f"{seconds:.3g} s" + ("" if math.isnan(speedup) else f", {speedup:.2f} ×")


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
