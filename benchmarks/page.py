"""Stored measurements as Markdown: the page of results with its charts, the index of stored tables, and all rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.summary.chart import Dot, dot_chart
from benchmarks.summary.claims import FAULTS, FIDELITY, MEMORY
from benchmarks.summary.group import Group
from benchmarks.summary.measures import Line, line, machine_of
from benchmarks.summary.quality import ACCURACY, BYTES
from benchmarks.summary.speed import SPEED

__all__ = ["END", "START", "all_tables", "files", "index", "page", "put_between", "summary"]

Tables = Mapping[str, Mapping[str, Any]]
GROUPS = (SPEED, ACCURACY, BYTES, MEMORY, FIDELITY, FAULTS)

START, END = "<!-- gnnqlab bench results --readme README.md -->", "<!-- end of what the command writes -->"
"""Marks before and behind a table of systems in another file."""

_MADE = """Made by `gnnqlab bench results --page docs/results.md` from the tables in `gnnqlab/results`; do not edit it
by hand."""
_HEAD = f"""# Results

{_MADE} [All stored tables](results_index.md) are listed with their dates, machines and commands.

* The machines are shared and have two cores: trust ratios, which compare two measurements of one run.
* *Value* is one measured number in the given unit; "× as fast" above 1 means that the named system is faster.
* *Goal* is the value to reach, and *reached* is yes or **missed**; lines without a goal are for information.
* *Source* links to the stored table and names its command, the processor with its instruction set, and the date.
"""
_INDEX = f"""# Stored tables of measurements

{_MADE} Each table is a JSON file with one row per measurement, and the same as Markdown; `gq.results.bench_results()`
returns all rows as one data frame. [Results](results.md) shows a selection.
"""


def files(tables: Tables, path: Path) -> dict[Path, str]:
    """Return the texts of the page, its charts and its index by their paths.

    Args:
        tables: by name, as :func:`gnnqlab.results.load` returns them.
        path: of the page; charts are in a folder of the same name, and the index is next to it.
    """
    folder = path.with_suffix("")
    texts = {path: page(tables, charts=folder.name), path.with_name("results_index.md"): index(tables)}
    return texts | {folder / f"{name}.svg": chart for name, chart in _charts(tables).items()}


def page(tables: Tables, *, charts: str = "results") -> str:
    """Return the page of results.

    Args:
        tables: by name, as :func:`gnnqlab.results.load` returns them.
        charts: folder of the charts, as seen from the page.
    """
    lines = {
        # group -> blocks of lines
        group.name: [[line(each, tables) for each in block.measures] for block in group.blocks]
        for group in GROUPS
    }
    rows = [["group", "goals reached", "goals missed"]]
    for group in GROUPS:
        reached_count, missed_count = _goals(each for block in lines[group.name] for each in block)
        rows.append(
            [f"[{group.title}](#{group.title.lower().replace(' ', '-')})", str(reached_count), _missed(missed_count)]
        )
    sections = [_section(group, lines[group.name], charts) for group in GROUPS]
    return "\n".join([_HEAD, _table(rows), "", *sections])


# no chart without numbers


def _section(group: Group, blocks: Sequence[Sequence[Line]], charts: str) -> str:
    parts = [f"## {group.title}", ""]
    if _dots(group, blocks):
        parts += [f"![{group.chart.title}: {group.chart.axis}]({charts}/{group.name}.svg)", ""]
    for block, lines in zip(group.blocks, blocks, strict=True):
        parts += [f"### {block.title}", "", block.text, "", _block(lines), ""]
    return "\n".join(parts)


def _block(lines: Sequence[Line]) -> str:
    # a column of intervals only if a line has one
    has_interval = any(each.shown is not None and each.shown.half is not None for each in lines)
    interval = ["± (95 %)"] if has_interval else []
    rows = [["measure", "value", *interval, "unit", "goal", "reached", "source"]]
    for entry in lines:
        number = entry.shown
        if number is None:
            rows.append([entry.text, "not stored", *[""] * len(interval), "", "", "", entry.source])
            continue
        margin = ["" if number.half is None else _number(number.half)] if has_interval else []
        outcome = {True: "yes", False: "**missed**", None: ""}[entry.reached]
        rows.append([entry.text, _number(number.value), *margin, number.unit, number.goal, outcome, entry.source])
    return _table(rows)


def _charts(tables: Tables) -> dict[str, str]:
    """Return the charts by group; a group without numbers has none."""
    charts = {}
    for group in GROUPS:
        dots = _dots(group, [[line(each, tables) for each in block.measures] for block in group.blocks])
        if dots:
            chart = group.chart
            charts[group.name] = dot_chart(chart.title, chart.axis, dots, reference=chart.reference)
    return charts


def _dots(group: Group, blocks: Sequence[Sequence[Line]]) -> list[Dot]:
    dots = []
    for entry in (entry for lines in blocks for entry in lines if entry.measure.series and entry.shown is not None):
        assert entry.shown is not None
        name, series = entry.measure.name or entry.text, entry.measure.series
        value, margin = entry.shown.value, entry.shown.half or 0.0
        if group.chart.of_goal:
            if entry.ratio is None or entry.goal is None:  # without a ratio there is no dot on an axis of goals
                continue
            # distance from the goal, 1: exactly reached
            value, margin, series = entry.ratio / entry.goal, 0.0, "goal reached" if entry.reached else "goal missed"
        dots.append(Dot(name=name, series=series, value=value, half=margin))
    return dots


def index(tables: Tables) -> str:
    """Return the list of stored tables, and of measurements without one."""
    from benchmarks.registry import BENCHES

    rows = [["table", "date", "machine", "rows", "goals reached", "goals missed", "commands"]]
    for name, table in tables.items():  # one row per stored table
        machine = f"{machine_of(table)}, {table['machine']['cores']} cores, PyTorch {table['machine']['torch']}"
        commands = "<br>".join(f"`{command}`" for command in table["command"].split(": ")[-1].split("; "))
        outcomes = [row.get("reached") for row in table["rows"]]
        rows.append([
            f"[{name}](../gnnqlab/results/{name}.md)", table["date"][:10], machine,
            str(len(outcomes)), str(outcomes.count(True)), _missed(outcomes.count(False)), commands,
        ])  # fmt: skip
    stored_names = {word for table in tables.values() for word in _measurement_names(table["command"])}
    # measurements that no stored command made
    missing_names = ", ".join(f"`gnnqlab bench {name}`" for name in sorted(set(BENCHES) - stored_names))
    tail = f"Measurements without a stored table: {missing_names}. `--keep NAME` stores one." if missing_names else ""
    return "\n".join([_INDEX, _table(rows), "", tail, ""])


def _measurement_names(commands: str) -> list[str]:
    words = commands.replace(";", " ").split()
    return [name for word, name in pairwise(words) if word == "bench"]  # the word after "bench"


def _goals(lines: Iterable[Line]) -> tuple[int, int]:
    outcomes = [each.reached for each in lines]
    return outcomes.count(True), outcomes.count(False)


def _missed(count: int) -> str:
    return f"**{count}**" if count else "0"


def _number(value: float) -> str:
    """Return a number in three or four digits."""
    if isinstance(value, int):
        return str(value)
    size = abs(value)
    text = f"{value:.2f}" if size < 10 else f"{value:.1f}" if size < 100 else f"{value:.0f}"
    return text.replace("-0.00", "0.00").replace("-", "\N{MINUS SIGN}")  # no "-0.00", and a typographic minus


def _table(lines: Sequence[Sequence[str]]) -> str:
    """Return lines of cells as a table of Markdown; the first has the names of the columns."""
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]  # a bar would end the cell
    cells.insert(1, ["---"] * len(cells[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def all_tables(tables: Tables) -> str:
    """Return every row of every stored table, for the terminal."""
    return "\n".join(_table_text(name, table) for name, table in tables.items())


def _table_text(name: str, table: Mapping[str, Any]) -> str:
    from benchmarks.engine.rows import cells
    from benchmarks.registry import BENCHES, format_rows

    machine = table["machine"]
    conditions = [
        table["device"],
        f"{machine['cores']} cores",
        f"instruction set {machine.get('instruction_set', 'not recorded')}",
        f"PyTorch {machine['torch']}",
    ]
    rows = list(table["rows"])
    formatted_rows = format_rows(name, rows) if name in BENCHES else None
    if formatted_rows is None:  # the measurement's own layout, if it has one
        formatted_rows = cells(rows) if all("figure" in row for row in rows) else rows
    commands = ", ".join(f"`{line}`" for line in table["command"].split("; "))
    return f"""## {name}

{table["date"][:10]}, {", ".join(conditions)}: {commands}

{_markdown(formatted_rows)}
"""


def _markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a Markdown table, with one column per name in any of them."""
    if not rows:
        return "No rows."
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return _table([columns, *([str(row.get(name, "")) for name in columns] for row in rows)])


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the systems relative to Vanilla as Markdown; names with a ``+`` are relative to ``vanilla+``.

    A cell holds the speed-up of a whole training, the speed-up until Vanilla's accuracy, and the difference of the test
    score in points with half its 95 % interval. If some seeds did not reach the accuracy, it holds how many did.

    Args:
        rows: rows of the stored table ``systems``, see :func:`benchmarks.studies.systems.table`.

    Raises:
        ValueError: if a case has no row of the baseline.
    """
    cases: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["contestant"]] = row  # case -> contestant -> row
    names = list(dict.fromkeys(name for lines in cases.values() for name in lines))
    table = []
    # names with a "+" last
    for name in (name for has_services in (False, True) for name in names if name.endswith("+") == has_services):
        system_cases = {case: lines for case, lines in cases.items() if name in lines}
        # bytes relative to Vanilla's
        byte_shares = [
            lines[name]["bytes_per_epoch"] / lines["vanilla"]["bytes_per_epoch"] for lines in system_cases.values()
        ]
        cells = {
            f"{lines[name]['graph']}, {lines[name]['model']}": _cell(case, lines, name)
            for case, lines in system_cases.items()
        }
        table.append({"system": f"`{name}`", **cells, "bytes": _range(byte_shares)})
    return _markdown(table)


def _cell(case: str, lines: Mapping[str, Mapping[str, Any]], name: str) -> str:
    rival_name = "vanilla+" if name.endswith("+") else "vanilla"
    if rival_name not in lines:
        raise ValueError(f"{name} is compared with {rival_name}, which {case!r} lacks; measure it with the others")
    system_row, rival = lines[name], lines[rival_name]
    return (
        # seconds of Vanilla over those of the system
        f"{rival['value'] / system_row['value']:.2f} ×, {_time_to_accuracy_text(system_row, rival)}, "
        f"{system_row['points']:+.1f} ± {system_row['half_interval']:.1f}"
    )


def _time_to_accuracy_text(system_row: Mapping[str, Any], rival: Mapping[str, Any]) -> str:
    if math.isnan(system_row["to_target_s"]):  # no seed reached the accuracy
        return "never"  # compared only if all seeds of both reached it
    if system_row["reached_by"] < system_row["seeds"] or rival["reached_by"] < rival["seeds"]:
        return f"{system_row['reached_by']} of {system_row['seeds']}"
    return f"{rival['to_target_s'] / system_row['to_target_s']:.2f} ×"


def _range(shares: Sequence[float]) -> str:
    low, high = min(shares), max(shares)
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"


def put_between(text: str, table: str) -> str:
    """Replace the text between the two marks with ``table``.

    Raises:
        ValueError: if the marks are not there once each and in this order.
    """
    head, start, remainder = text.partition(START)
    _, end, tail = remainder.partition(END)
    if not start or not end or START in tail or END in head:
        # each mark exactly once
        raise ValueError(f"the page must have the lines {START!r} and {END!r} once each, in this order; add them")
    return f"{head}{START}\n{table}\n{END}{tail}"
