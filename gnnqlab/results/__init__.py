"""Stored tables of measurements: one JSON file each, with date, device and command, and a Markdown copy."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.atomic import write_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HERE", "bench_results", "require_joinable", "join", "keep", "load", "markdown"]

HERE = Path(__file__).parent
"""Folder of the package's own tables, which are part of the repository."""

_SAME = ("case", "contestant", "metric", "rival")
"""Columns that identify a measurement."""
_KEYS = ("contestant", "metric", "graph", "model", "workers", "link")
"""Columns omitted in Markdown, since the row's case or figure contains their text."""
_WHERE = ("processor", "cores", "gpu")
"""Properties of a machine that its measurements depend on."""


def keep(part: str, rows: Sequence[dict[str, Any]], *, command: str, folder: Path | str = HERE) -> Path:
    """Write a table as ``PART.json`` and ``PART.md``.

    Args:
        part: name of the table, for instance ``gpu-train``.
        rows: dictionaries of plain values; their keys may differ.
        command: command line that repeats the measurement.
        folder: target folder; by default that of the package, which is part of the repository.

    Returns:
        Path of the JSON file.
    """
    from gnnqlab.train.records.provenance import machine

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    machine_facts = machine()
    return _write(
        folder / f"{part}.json",
        {
            "part": part,
            "date": _now(),
            "device": machine_facts["gpu"] or machine_facts["processor"],
            "command": command,
            "machine": machine_facts,
            "rows": list(rows),
        },
    )


def join(part: str, rows: Sequence[dict[str, Any]], *, command: str, folder: Path | str = HERE) -> Path:
    """Merge rows into a stored table; each row then has the date and command of its measurement.

    Rows replace old ones with the same case, contestant, metric and rival; the others are appended.

    Args:
        part, rows, command, folder: as for :func:`keep`, which is called if there is no such table yet.

    Raises:
        ValueError: if the stored table was measured on another machine.

    Example:
        ``join("accuracy", measure("accuracy")["rows"], command="gnnqlab bench accuracy")``
    """
    from gnnqlab.train.records.provenance import machine

    path = Path(folder) / f"{part}.json"
    if not path.exists():
        return keep(part, rows, command=command, folder=folder)
    require_joinable(part, folder=folder)
    table = json.loads(path.read_text())
    origin = {"date": table["date"], "command": table["command"]}
    new_rows = {_key(row): {**row, "date": _now(), "command": command} for row in rows}
    if len(new_rows) < len(rows):
        raise ValueError(f"rows of a table must differ in one of {_SAME}, got {len(rows) - len(new_rows)} twice")
    old_rows = {_key(row): {**origin, **row} for row in table["rows"]}
    all_rows = list({**old_rows, **new_rows}.values())
    commands = "; ".join(dict.fromkeys(row["command"] for row in all_rows))
    return _write(path, {**table, "date": _now(), "command": commands, "machine": machine(), "rows": all_rows})


def require_joinable(part: str, *, folder: Path | str = HERE) -> None:
    """Check that a stored table, if there is one, was measured on this machine.

    Raises:
        ValueError: if it was measured on another machine.
    """
    from gnnqlab.train.records.provenance import machine

    path = Path(folder) / f"{part}.json"
    if not path.exists():
        return
    stored_facts, own_facts = json.loads(path.read_text())["machine"], machine()
    if any(stored_facts[name] != own_facts[name] for name in _WHERE):
        raise ValueError(
            f"rows of one table must come from one machine, got {[own_facts[name] for name in _WHERE]} for {part!r} of "
            f"{[stored_facts[name] for name in _WHERE]}; keep them under another name"
        )


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the identity of a row: its identifying columns, and the figure of an old row without metric."""
    return (*(row.get(name) for name in _SAME), None if "metric" in row else row.get("figure"))


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _write(path: Path, table: dict[str, Any]) -> Path:
    head = json.dumps({**table, "rows": []}, indent=1).removesuffix("[]\n}")
    rows = ",\n  ".join(map(json.dumps, table["rows"]))  # one row per line, for readable diffs
    write_text(path, f"{head}[\n  {rows}\n ]\n}}\n")
    write_text(path.with_suffix(".md"), markdown(table))
    return path


def load(folder: Path | str = HERE) -> dict[str, dict[str, Any]]:
    """Load the stored tables by name: ``part``, ``date``, ``device``, ``command``, ``machine`` and ``rows`` each."""
    tables = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("[!.]*.json"))]
    return {table["part"]: table for table in tables}


def bench_results(folder: Path | str = HERE) -> pd.DataFrame:
    """Return all stored rows in one table, with ``part``, ``date``, ``device`` and ``command`` as first columns.

    ``device`` is the name of the GPU, or of the processor without one. Rows of a merged table have the date and the
    command of their own measurement.

    Example:
        >>> list(bench_results().columns[:4])
        ['part', 'date', 'device', 'command']
    """
    import pandas as pd

    first_columns = ("part", "date", "device", "command")
    heads = [({name: table[name] for name in first_columns}, table["rows"]) for table in load(folder).values()]
    rows = [head | row | {name: head[name] for name in ("part", "device")} for head, table in heads for row in table]
    return pd.DataFrame(rows, columns=None if rows else list(first_columns))


def markdown(table: dict[str, Any]) -> str:
    """Format a table as Markdown."""
    rows = table["rows"]
    columns = list(dict.fromkeys(name for row in rows for name in row if "metric" not in row or name not in _KEYS))
    head = [f"# {table['part']}", "", f"{table['date']}, {table['device']}, `{table['command']}`", ""]
    if not rows:
        return "\n".join([*head, "No rows.", ""])
    lines = [columns, ["---"] * len(columns), *([_cell(row.get(name)) for name in columns] for row in rows)]
    return "\n".join([*head, *("| " + " | ".join(cells) + " |" for cells in lines), ""])


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|")
