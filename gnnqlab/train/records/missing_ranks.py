"""Whose records a run folder holds. Standard library only."""

from __future__ import annotations

from pathlib import Path

__all__ = ["without_records"]


def without_records(folder: Path, workers: int, *, ended: bool) -> str:
    """Return what is wrong with a folder that lacks the records of some workers, in a sentence; empty if none lacks.

    None lacks where nobody has trained.

    Args:
        folder: the run folder.
        workers: P.
        ended: whether training is over. Until then a worker's file may be empty, but is there before the first record
            of any other.
    """
    sizes = [_size(folder / f"records-rank{rank}.jsonl") for rank in range(workers)]
    trained = any(size > 0 for size in sizes) or (ended and (folder / "facts.json").exists())
    lacking = [rank for rank, size in enumerate(sizes) if trained and (size < 0 or (ended and size == 0))]
    if not lacking:
        return ""
    return (
        f"a run must have the records of its {workers} workers, got none of rank(s) {', '.join(map(str, lacking))} in "
        f"{folder}; machines of one run must share its folder"
    )


def _size(path: Path) -> int:
    """Return a file's bytes; -1 if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return -1
