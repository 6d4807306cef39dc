"""Records of a run up to an epoch: the ones that remain when a training continues from a checkpoint.

Standard library only, because a guard uses it.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

__all__ = ["preceding_epoch", "trim_records"]

_OF_RANK = ("records", "traffic", "memory", "timeline")
_OF_RUN = ("assignments.jsonl", "decisions.jsonl")


def preceding_epoch(line: dict[str, Any]) -> int:
    """Return the epoch after which a line was written; assignments and decisions name the first epoch of their use.

    Example:
        >>> preceding_epoch({"epoch": 4, "loss": 0.5}), preceding_epoch({"epoch": 4, "what": "bits"})
        (4, 3)
    """
    first_epoch = line.get("from_epoch", line["epoch"] if "what" in line else line["epoch"] + 1)
    return int(first_epoch) - 1


def trim_records(folder: Path, rank: int, epoch: int) -> None:
    """Remove the records of this epoch and later ones, which a killed training has left, before they are written again.

    Files are truncated in place, because this worker may have opened them already.

    Args:
        folder: the run folder.
        rank: this worker, whose records are trimmed; rank 0 also trims those of the run.
        epoch: the next epoch to train.
    """
    names = [f"{kind}-rank{rank}.jsonl" for kind in _OF_RANK]
    for name in (*names, *(_OF_RUN if rank == 0 else ())):
        with contextlib.suppress(FileNotFoundError), open(folder / name, "r+b") as file:
            lines = file.readlines()
            num_bytes = length = sum(map(len, lines))
            while lines and not _is_before(lines[-1], epoch):
                length -= len(lines.pop())
            if length < num_bytes:
                file.truncate(length)


def _is_before(line: bytes, epoch: int) -> bool:
    """Return True for a complete line that belongs to an earlier epoch."""
    try:
        return line.endswith(b"\n") and preceding_epoch(json.loads(line)) < epoch
    except (ValueError, KeyError, TypeError):
        return False
