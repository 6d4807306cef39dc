"""Tables of observers in a run folder: ``tables/<Class>-rank<R>.jsonl``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from gnnqlab.atomic import write_text
from gnnqlab.observe import Observers

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["read_tables", "write_tables"]


def write_tables(folder: Path, observers: Observers) -> None:
    """Write the tables of one worker's observers, one row per line; no file for an empty table."""
    for observer in observers.all:
        lines = [json.dumps({"rank": observers.rank, **row}) for row in observer.table()]
        if lines:
            (folder / "tables").mkdir(exist_ok=True)
            name = f"{type(observer).__name__}-rank{observers.rank}.jsonl"
            write_text(folder / "tables" / name, "\n".join(lines) + "\n")


def read_tables(folder: Path) -> dict[str, DataFrame]:
    """Return the tables of a run by the name of the observer's class, with the rows of all ranks.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as run:
        ...     (Path(run) / "tables").mkdir()
        ...     _ = (Path(run) / "tables" / "Bytes-rank0.jsonl").write_text('{"rank": 0, "bytes": 64}')
        ...     read_tables(Path(run))["Bytes"].to_dict("records")
        [{'rank': 0, 'bytes': 64}]
    """
    import pandas as pd

    records: dict[str, list[dict[str, object]]] = {}
    for path in sorted((folder / "tables").glob("*-rank*.jsonl")):
        name = path.stem.rpartition("-rank")[0]
        records.setdefault(name, []).extend(json.loads(line) for line in path.read_text().splitlines())
    return {name: pd.DataFrame(rows) for name, rows in records.items()}
