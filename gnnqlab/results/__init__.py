"""Tables of measurements that are kept: one JSON file each, with date, device and command, and the same as Markdown."""

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
"""The package's own tables, which are part of the repository."""

_SAME = ("case", "contestant", "metric", "rival")
"""Columns that are the same in two rows of the same measurement."""
_KEYS = ("contestant", "metric", "graph", "model", "workers", "link")
"""Columns of a row whose text is a part of its case or figure."""
_WHERE = ("processor", "cores", "gpu")
"""What of a machine decides its figures."""


def keep(part: str, rows: Sequence[dict[str, Any]], *, command: str, folder: Path | str = HERE) -> Path:
    """Write a table as ``PART.json`` and ``PART.md``.

    Args:
        part: its name, for instance ``gpu-train``.
        rows: dictionaries of plain values; they need not have the same keys.
        command: the line that repeats the measurement.
        folder: the package's own by default, which is part of the repository.

    Returns:
        Path of the JSON file.
    """
    from gnnqlab.train.records.provenance import machine

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = machine()
    return _write(
        folder / f"{part}.json",
        {
            "part": part,
            "date": _now(),
            "device": found["gpu"] or found["processor"],
            "command": command,
            "machine": found,
            "rows": list(rows),
        },
    )


def join(part: str, rows: Sequence[dict[str, Any]], *, command: str, folder: Path | str = HERE) -> Path:
    """Put rows into a kept table; each row then says when and by which command it was measured.

    Rows of the same case, contestant, metric and rival take the place of the old ones; the others are added behind.

    Args:
        part, rows, command, folder: as for :func:`keep`, which is what happens if there is no such table yet.

    Raises:
        ValueError: if what is there was measured on another machine.

    Example:
        ``join("accuracy", measure("accuracy")["rows"], command="gnnqlab bench accuracy")``
    """
    from gnnqlab.train.records.provenance import machine

    path = Path(folder) / f"{part}.json"
    if not path.exists():
        return keep(part, rows, command=command, folder=folder)
    require_joinable(part, folder=folder)
    table = json.loads(path.read_text())
    said = {"date": table["date"], "command": table["command"]}
    new = {_key(row): {**row, "date": _now(), "command": command} for row in rows}
    if len(new) < len(rows):
        raise ValueError(f"rows of a table must differ in one of {_SAME}, got {len(rows) - len(new)} twice")
    old = {_key(row): {**said, **row} for row in table["rows"]}
    joined = list({**old, **new}.values())
    commands = "; ".join(dict.fromkeys(row["command"] for row in joined))
    return _write(path, {**table, "date": _now(), "command": commands, "machine": machine(), "rows": joined})


def require_joinable(part: str, *, folder: Path | str = HERE) -> None:
    """Refuse to join what this machine measures to a table of another one.

    Raises:
        ValueError: if there is a table of that name, and it was measured on another machine.
    """
    from gnnqlab.train.records.provenance import machine

    path = Path(folder) / f"{part}.json"
    if not path.exists():
        return
    there, here = json.loads(path.read_text())["machine"], machine()
    if any(there[name] != here[name] for name in _WHERE):
        raise ValueError(
            f"rows of one table must come from one machine, got {[here[name] for name in _WHERE]} for {part!r} of "
            f"{[there[name] for name in _WHERE]}; keep them under another name"
        )


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the identity of a row: its columns, or its figure if it was kept before rows had a metric."""
    return (*(row.get(name) for name in _SAME), None if "metric" in row else row.get("figure"))


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _write(path: Path, table: dict[str, Any]) -> Path:
    head = json.dumps({**table, "rows": []}, indent=1).removesuffix("[]\n}")
    rows = ",\n  ".join(map(json.dumps, table["rows"]))  # a line for each, so that tables can be compared line by line
    write_text(path, f"{head}[\n  {rows}\n ]\n}}\n")
    write_text(path.with_suffix(".md"), markdown(table))
    return path


def load(folder: Path | str = HERE) -> dict[str, dict[str, Any]]:
    """Return the kept tables by name: ``part``, ``date``, ``device``, ``command``, ``machine`` and ``rows`` each."""
    tables = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("[!.]*.json"))]
    return {table["part"]: table for table in tables}


def bench_results(folder: Path | str = HERE) -> pd.DataFrame:
    """Return every kept row, with ``part``, ``date``, ``device`` and ``command`` in front; empty if nothing was kept.

    ``device`` is the name of the GPU, or of the processor where there was none. Of a joined table each row has the date
    and the command of its own measurement.

    Example:
        >>> list(bench_results().columns[:4])
        ['part', 'date', 'device', 'command']
    """
    import pandas as pd

    said = ("part", "date", "device", "command")
    heads = [({name: table[name] for name in said}, table["rows"]) for table in load(folder).values()]
    rows = [head | row | {name: head[name] for name in ("part", "device")} for head, table in heads for row in table]
    return pd.DataFrame(rows, columns=None if rows else list(said))


def markdown(table: dict[str, Any]) -> str:
    """Return a table for reading."""
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
