"""The form in which all measurements answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["cells", "row"]


def row(
    case: str,
    figure: str,
    value: float | None,
    unit: str,
    rival: str,
    rival_value: float | None,
    ratio: float | None,
    goal: float | None = None,
) -> dict[str, Any]:
    """Return one row; it is reached if the ratio is at least the goal. The figure of one without a value says why."""
    reached = None if goal is None or ratio is None else ratio >= goal
    return {
        "case": case,
        "figure": figure,
        "value": value,
        "unit": unit,
        "rival": rival,
        "rival_value": rival_value,
        "ratio": ratio,
        "goal": goal,
        "reached": reached,
    }


def cells(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return measurements as a person reads them, a row each."""

    def number(value: Any) -> str:
        return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)

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
