"""Check a run folder for missing records of workers. Standard library only."""

from __future__ import annotations

from pathlib import Path

__all__ = ["missing_ranks_error"]


def missing_ranks_error(folder: Path, workers: int, *, ended: bool) -> str:
    """Return an error text that names the workers without records; empty if none is missing or no worker has trained.

    Args:
        folder: the run folder.
        workers: P.
        ended: True after training. During it a worker's file may be empty, but exists before the first record of any
            other worker.
    """
    sizes = [_size(folder / f"records-rank{rank}.jsonl") for rank in range(workers)]
    has_records = any(size > 0 for size in sizes) or (ended and (folder / "facts.json").exists())
    ranks = [rank for rank, size in enumerate(sizes) if has_records and (size < 0 or (ended and size == 0))]
    if not ranks:
        return ""
    return (
        f"a run must have the records of its {workers} workers, got none of rank(s) {', '.join(map(str, ranks))} in "
        f"{folder}; machines of one run must share its folder"
    )


def _size(path: Path) -> int:
    """Return the size of a file in bytes; -1 if it does not exist."""
    try:
        return path.stat().st_size
    except OSError:
        return -1
