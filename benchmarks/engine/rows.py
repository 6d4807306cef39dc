"""The form in which all measurements answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["cells", "row"]


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
    """Return one row; it is reached if the ratio is at least the goal.

    Args:
        case, metric, rival: with ``contestant`` the identity of the row; none of them has a measured number in it.
        value, unit, rival_value, ratio, goal: the numbers; the detail of a row without a value says why.
        contestant: name of a system or a partitioner, where a case has several.
        detail: measured text behind the metric, for instance a spread.
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
        "reached": None if goal is None or ratio is None else ratio >= goal,
        **more,
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
