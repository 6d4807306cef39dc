"""Tables of measurements that are kept: one JSON file each, with date, device and command, and the same as Markdown."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["bench_results", "keep", "load", "markdown"]

HERE = Path(__file__).parent


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
    from gnnqlab.bench.registry import machine

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = machine()
    table = {
        "part": part,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": found["gpu"] or found["processor"],
        "command": command,
        "machine": found,
        "rows": list(rows),
    }
    path = folder / f"{part}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(table, indent=1) + "\n")
    partial.replace(path)
    path.with_suffix(".md").write_text(markdown(table))
    return path


def load(folder: Path | str = HERE) -> dict[str, dict[str, Any]]:
    """Return the kept tables by name: ``part``, ``date``, ``device``, ``command``, ``machine`` and ``rows`` each."""
    tables = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]
    return {table["part"]: table for table in tables}


def bench_results(folder: Path | str = HERE) -> pd.DataFrame:
    """Return every kept row, with ``part``, ``date``, ``device`` and ``command`` in front; empty if nothing was kept.

    ``device`` is the name of the GPU, or of the processor where there was none.

    Example:
        >>> list(bench_results().columns[:4])
        ['part', 'date', 'device', 'command']
    """
    import pandas as pd

    said = ("part", "date", "device", "command")
    heads = [({name: table[name] for name in said}, table["rows"]) for table in load(folder).values()]
    rows = [head | row | head for head, table in heads for row in table]
    return pd.DataFrame(rows, columns=None if rows else list(said))


def markdown(table: dict[str, Any]) -> str:
    """Return a table for reading."""
    rows = table["rows"]
    columns = list(dict.fromkeys(name for row in rows for name in row))
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
