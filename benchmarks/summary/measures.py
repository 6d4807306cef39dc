"""Rows of stored tables as lines of the page: the shown number of each row, its goal, and its source."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Line", "Measure", "Shown", "bytes_sent", "difference", "line", "machine_of", "points", "ratio",
    "time_to_accuracy", "value",
]  # fmt: skip

Row = Mapping[str, Any]
_LIMITS = ("at most", "promised", "allowed")
"""Rivals that are upper limits of the value."""
Show = Callable[[Row, Sequence[Row], str], "Shown"]
"""Makes the shown number from a row, all rows of its table, and the unit that the measure names."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The number of a line, in one unit with its goal."""

    value: float
    unit: str
    half: float | None = None
    """Half the width of the 95 % interval."""
    goal: str = ""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One line of the page: a row of a stored table, found by regular expressions that match whole columns."""

    text: str
    """Name of the line; ``{count}`` is replaced by the number of rows from which the worst is taken."""
    part: str
    """Name of the stored table."""
    show: Show
    unit: str = ""
    case: str = ".*"
    contestant: str = ".*"
    metric: str = ".*"
    rival: str = ".*"
    worst: bool = False
    """Take the row with the lowest ratio of several; otherwise exactly one row must match."""
    series: str = ""
    """Series of the chart of the group; lines without one are not drawn."""
    name: str = ""
    """Row of the chart; by default the text."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A measure with its number; without one if its table is not stored."""

    measure: Measure
    text: str
    shown: Shown | None = None
    ratio: float | None = None
    goal: float | None = None
    reached: bool | None = None
    source: str = ""


def line(measure: Measure, tables: Mapping[str, Mapping[str, Any]]) -> Line:
    """Look up the row of a measure.

    Raises:
        ValueError: if its table is stored and has no such row, or several.
    """
    table = tables.get(measure.part)
    if table is None:
        return Line(measure=measure, text=measure.text, source=f"`gnnqlab bench {measure.part} --keep {measure.part}`")
    columns = {name: re.compile(getattr(measure, name)) for name in ("case", "contestant", "metric", "rival")}
    rows = [
        row for row in table["rows"]
        if all(pattern.fullmatch(row[name] or "") for name, pattern in columns.items())
    ]  # fmt: skip
    if not rows or (len(rows) > 1 and not measure.worst):
        raise ValueError(
            f"{measure.text!r} must be one row of the stored table {measure.part!r}, got {len(rows)}; correct its "
            "case, contestant, metric or rival in benchmarks/summary"
        )
    row = min(rows, key=lambda row: row["ratio"]) if measure.worst else rows[0]
    shown_number = measure.show(row, table["rows"], measure.unit)
    goal, is_reached = (row["goal"], row["reached"]) if shown_number.goal else (None, None)
    text = measure.text.format(count=len(rows))
    return Line(
        measure=measure, text=text, shown=shown_number, ratio=row["ratio"], goal=goal, reached=is_reached,
        source=_source(measure.part, table, row),
    )  # fmt: skip


def ratio(row: Row, rows: Sequence[Row], unit: str) -> Shown:
    """Show the ratio to the rival; above 1 is better."""
    return Shown(value=row["ratio"], unit=unit, goal="" if row["goal"] is None else f"≥ {_short(row['goal'])}")


def value(row: Row, rows: Sequence[Row], unit: str) -> Shown:
    """Show the measured value, and the goal in its unit."""
    return Shown(value=row["value"], unit=unit or row["unit"], goal=_limit(row))


def points(row: Row, rows: Sequence[Row], unit: str) -> Shown:
    """Show the difference of two scores over the same seeds; the goal is the largest loss that is allowed."""
    goal = ""
    if row["goal"] is not None:
        # The ratio of such rows is the allowed loss over the measured one.
        goal = f"≥ \N{MINUS SIGN}{abs(row['points']) * row['ratio'] / row['goal']:.1f}"
    return Shown(value=row["points"], unit="points", half=row["half_interval"], goal=goal)


def difference(row: Row, rows: Sequence[Row], unit: str) -> Shown:
    """Show the difference of two mean scores in percent; the goal is a share of the rival's score."""
    goal = "" if row["goal"] is None else f"≥ {_signed((row['goal'] - 1) * row['rival_value'])}"
    return Shown(value=row["value"] - row["rival_value"], unit="points", goal=goal)


def bytes_sent(row: Row, rows: Sequence[Row], unit: str) -> Shown:
    """Show the bytes of an epoch relative to those of the rival in the same case."""
    (rival,) = [each for each in rows if each["case"] == row["case"] and each["contestant"] == row["rival"]
                and each.get("bytes_per_epoch") is not None]  # fmt: skip
    return Shown(value=row["bytes_per_epoch"] / rival["bytes_per_epoch"], unit="of Vanilla's")


def time_to_accuracy(row: Row, rows: Sequence[Row], unit: str) -> Shown:
    """Show the speed-up until Vanilla's accuracy, or how many seeds reached it if not all did."""
    if row["reached_by"] < row["seeds"]:
        return Shown(value=row["reached_by"], unit=f"of {row['seeds']} seeds")
    return Shown(value=row["faster_to_target"], unit="× as fast")


def _limit(row: Row) -> str:
    """Return the value at which the ratio of a row equals its goal."""
    if row["goal"] is None:
        return ""
    measured_value, rival, stored_ratio = row["value"], row["rival_value"], row["ratio"]
    if row["rival"] in _LIMITS and row["unit"] != "share":  # a promised share is a lower limit
        return f"≤ {_short(rival / row['goal'])}"
    if rival and math.isclose(measured_value / rival, stored_ratio, rel_tol=0.01):
        return f"≥ {_short(row['goal'] * rival)}"
    if measured_value and math.isclose(rival / measured_value, stored_ratio, rel_tol=0.01):
        return f"≤ {_short(rival / row['goal'])}"
    return f"≥ {_short(row['goal'] * measured_value / stored_ratio)}"


def _source(part: str, table: Mapping[str, Any], row: Row) -> str:
    command = " ".join(row.get("command", table["command"]).split(": ")[-1].split()[:3])
    date = row.get("date", table["date"])[:10]
    return f"[`{command}`](../gnnqlab/results/{part}.md), {machine_of(table)}, {date}"


def machine_of(table: Mapping[str, Any]) -> str:
    """Return processor and instruction set in a few characters."""
    name = table["device"].replace("(R)", "").replace(" Processor", "")
    instruction_set = (table["machine"].get("instruction_set") or "").upper().replace("AVX512", "AVX-512")
    return f"{name}, {instruction_set}" if instruction_set else name


def _short(number: float) -> str:
    return f"{number:.3g}"


def _signed(number: float) -> str:
    return f"{number:.1f}".replace("-", "\N{MINUS SIGN}")
