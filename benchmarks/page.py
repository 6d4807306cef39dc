"""Kept measurements for people: one page with all of them, and README's table of systems."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["END", "START", "page", "put_between", "summary"]

START, END = "<!-- gnnqlab bench results --readme README.md -->", "<!-- end of what the command writes -->"
"""Marks before and behind the table in README."""

_HEAD = """# Figures

Made by `gnnqlab bench results --page docs/figures.md` from the tables in `gnnqlab/results`; not edited by hand.
Machines differ and are shared: trust the ratios, which come from one run each. A ratio above 1 means that ours is
better; a goal that was missed says NO.
"""


def page(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page as Markdown.

    Args:
        tables: by name, as :func:`gnnqlab.results.load` returns them.
    """
    return "\n".join([_HEAD, *(_section(name, table) for name, table in tables.items())])


def _section(name: str, table: Mapping[str, Any]) -> str:
    from benchmarks.engine.rows import cells
    from benchmarks.registry import BENCHES, shown

    machine = table["machine"]
    measured_on = [
        table["device"],
        f"{machine['cores']} cores",
        f"instruction set {machine.get('instruction_set', 'not recorded')}",
        f"PyTorch {machine['torch']}",
    ]
    rows = list(table["rows"])
    own = shown(name, rows) if name in BENCHES else None
    if own is None:
        own = cells(rows) if all("figure" in row for row in rows) else rows
    commands = ", ".join(f"`{line}`" for line in table["command"].split("; "))
    return f"""## {name}

{table["date"][:10]}, {", ".join(measured_on)}: {commands}

{_markdown(own)}
"""


def _markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a table of Markdown, a column for each name that any of them has."""
    if not rows:
        return "No rows."
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[str(row.get(name, "")).replace("|", "\\|") for name in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [columns, ["---"] * len(columns), *cells])


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
        cases.setdefault(row["case"], {})[row["contestant"]] = row
    names = list(dict.fromkeys(name for of in cases.values() for name in of))
    table = []
    for name in (name for served in (False, True) for name in names if name.endswith("+") == served):
        there = {case: of for case, of in cases.items() if name in of}
        sent = [of[name]["bytes_per_epoch"] / of["vanilla"]["bytes_per_epoch"] for of in there.values()]
        found = {f"{of[name]['graph']}, {of[name]['model']}": _cell(case, of, name) for case, of in there.items()}
        table.append({"system": f"`{name}`", **found, "bytes": _range(sent)})
    return _markdown(table)


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
