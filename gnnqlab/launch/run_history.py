"""The past of a run, put into the folder of one that goes on from it. Standard library only: a guard does it too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from gnnqlab.run import folder as files
from gnnqlab.train.records.json_lines import read_lines

__all__ = ["carry_over", "checkpoints"]

_UNTIL = ("records-rank*.jsonl", "traffic-rank*.jsonl", "assignments.jsonl", "decisions.jsonl")


def carry_over(old: Path, new: Path, epoch: int) -> None:
    """Copy the checkpoints of a run, and what it recorded before an epoch; nothing if that was done before.

    A line for several machines may be started again, and the run has a past of its own by then.

    Args:
        old: its folder.
        new: that of the run which goes on with this epoch.
        epoch: the first that is not copied.
    """
    events = new / "events.jsonl"
    if events.exists() and any(event.get("event") == "resumed" for event in read_lines(events)):  # which is said last
        return
    for path in [*checkpoints(old), *old.glob("control.json")]:
        there = new / path.relative_to(old)
        there.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, there)
    for pattern in _UNTIL:
        for path in old.glob(pattern):
            kept = [line for line in read_lines(path) if _written_after(line) < epoch]
            (new / path.name).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in kept))
    files.append_event(new, "resumed", of=old.name, epoch=epoch)


def checkpoints(folder: Path) -> list[Path]:
    """Return a run's checkpoints, whole or not; see ``train/checkpoints/checkpoint.py``."""
    return sorted(folder.glob("checkpoints/epoch-*.safetensors"))


def _written_after(line: dict[str, Any]) -> int:
    """Return the epoch after which a line was written: assignments and decisions say from when on they hold."""
    first = line.get("from_epoch", line["epoch"] if "what" in line else line["epoch"] + 1)
    return int(first) - 1
