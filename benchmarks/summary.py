"""README's table: every system in one line, graph by graph, from the kept table ``systems``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.page import markdown_table

__all__ = ["END", "START", "put_between", "summary"]

START, END = "<!-- gnnqlab bench results --readme README.md -->", "<!-- end of what the command writes -->"
"""What stands before and behind the table in README."""
_CASE = re.compile(
    r"(?P<graph>[^,]+), (?P<model>[^,]+), (?P<workers>\d+) workers over (?P<link>[^,]+), (?P<epochs>\d+)"
)


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the systems beside Vanilla as Markdown: those with every service beside Vanilla with every service.

    A cell holds how many times as fast a whole training is, how many times sooner it has Vanilla's accuracy, and the
    points of its test score beside Vanilla's with half their 95 % interval. Who did not get there with every seed says
    with how many.

    Args:
        rows: of the kept table ``systems``, as :func:`benchmarks.studies.systems.table` makes them.

    Raises:
        ValueError: if a case has no line of Vanilla to be held against.
    """
    cases: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["figure"]] = row
    names = list(dict.fromkeys(name for lines in cases.values() for name in lines))
    table = []
    for name in (name for served in (False, True) for name in names if name.endswith("+") == served):
        cells = {_head(case): _cell(case, lines, name) for case, lines in cases.items() if name in lines}
        sent = [
            lines[name]["bytes_per_epoch"] / lines["vanilla"]["bytes_per_epoch"]
            for lines in cases.values()
            if name in lines
        ]
        table.append({"system": f"`{name}`", **cells, "bytes": _range(sent)})
    return markdown_table(table)


def _head(case: str) -> str:
    """``cora, gcn, 2 workers over 414mbit, 150 epochs, ...`` as ``cora, gcn``."""
    found = _CASE.match(case)
    return f"{found['graph']}, {found['model']}" if found else case


def _cell(case: str, lines: Mapping[str, Mapping[str, Any]], name: str) -> str:
    rival_name = "vanilla+" if name.endswith("+") else "vanilla"
    if rival_name not in lines:
        raise ValueError(f"{name} is held against {rival_name}, which {case!r} lacks; measure it with the others")
    mine, rival = lines[name], lines[rival_name]
    return (
        f"{rival['value'] / mine['value']:.2f} ×, {_sooner(mine, rival)}, "
        f"{mine['points']:+.1f} ± {mine['half_interval']:.1f}"
    )


def _sooner(mine: Mapping[str, Any], rival: Mapping[str, Any]) -> str:
    if math.isnan(mine["to_target_s"]):
        return "never"
    if mine["reached_by"] < mine["seeds"] or rival["reached_by"] < rival["seeds"]:
        return f"{mine['reached_by']} of {mine['seeds']}"
    return f"{rival['to_target_s'] / mine['to_target_s']:.2f} ×"


def _range(shares: Sequence[float]) -> str:
    low, high = min(shares), max(shares)
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"


def put_between(text: str, table: str) -> str:
    """Return ``text`` with ``table`` between the two marks, in place of what stood there.

    Raises:
        ValueError: if the marks do not stand there, once each and in this order.
    """
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end or START in after or END in before:
        raise ValueError(f"the page must have the lines {START!r} and {END!r} once each, in this order; add them")
    return f"{before}{START}\n{table}\n{END}{after}"
