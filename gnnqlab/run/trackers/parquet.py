"""``run.export("parquet")``: records of a run as a Parquet file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnnqlab.run.run_data import RunData

__all__ = ["export_parquet"]


def export_parquet(run: RunData) -> Path:
    """Write ``run.records`` as ``records.parquet`` in the run folder; a later call replaces the file.

    Args:
        run: the run, which may still train.

    Returns:
        The file: one row per epoch and worker, with the run's settings as JSON in the metadata ``gnnqlab.settings``.

    Raises:
        RuntimeError: if the package pyarrow is not installed.

    Example:
        ``pandas.read_parquet(run.export("parquet"))``
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise RuntimeError(
            f"export to Parquet needs the package pyarrow, got {error}; run pip install pyarrow"
        ) from error
    table = pyarrow.Table.from_pandas(run.records, preserve_index=False)
    settings = {b"gnnqlab.settings": json.dumps(run.settings).encode()}
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), **settings})
    path, new_path = run.folder / "records.parquet", run.folder / "records.parquet.new"
    pyarrow.parquet.write_table(table, new_path)
    new_path.replace(path)  # a reader gets the old or the new file, never a part
    return path
