"""Stored measurements as Markdown: a page with all of them, and the table of systems in README."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["END", "START", "page", "put_between", "summary"]

START, END = "<!-- gnnqlab bench results --readme README.md -->", "<!-- end of what the command writes -->"
"""Marker lines before and after the table in README."""

_HEAD = """# Figures

Made by `gnnqlab bench results --page docs/figures.md` from the tables in `gnnqlab/results`; not edited by hand.
Machines differ and are shared: trust the ratios, which come from one run each. A ratio above 1 means that ours is
better; a goal that was missed says NO.
"""


def page(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page as Markdown.

    Args:
        tables: name -> table, result of :func:`gnnqlab.results.load`.
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
    """Return rows as a Markdown table, with one column per name in any of them."""
    if not rows:
        return "No rows."
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[str(row.get(name, "")).replace("|", "\\|") for name in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [columns, ["---"] * len(columns), *cells])


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Compare the systems with Vanilla in a Markdown table; those with every service with Vanilla with every service.

    A cell has the speed-up of the whole training, the speed-up until Vanilla's accuracy, and the difference of test
    scores in points with half its 95 % interval. If not every seed reached the accuracy, it has their number instead.

    Args:
        rows: rows of the stored table ``systems``, see :func:`benchmarks.studies.systems.table`.

    Raises:
        ValueError: if a case has no row of Vanilla.
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
        raise ValueError(f"{name} is compared with {rival_name}, which {case!r} lacks; measure it with the others")
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
    """Return ``text`` with ``table`` between the two marker lines, instead of the old content.

    Raises:
        ValueError: if the marker lines do not occur once each, in this order.
    """
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end or START in after or END in before:
        raise ValueError(f"the page must have the lines {START!r} and {END!r} once each, in this order; add them")
    return f"{before}{START}\n{table}\n{END}{after}"
