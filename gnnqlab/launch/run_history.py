"""Copy checkpoints and records of a run to the run that resumes it. Standard library only, because a guard uses it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from gnnqlab.run import folder as files
from gnnqlab.train.records.history import preceding_epoch
from gnnqlab.train.records.json_lines import read_lines

__all__ = ["carry_over", "checkpoints"]

_UNTIL = ("records-rank*.jsonl", "traffic-rank*.jsonl", "assignments.jsonl", "decisions.jsonl")


def carry_over(old: Path, new: Path, epoch: int, *, loss_text: str = "") -> None:
    """Copy the checkpoints of a run, and its records before an epoch; do nothing if they were copied before.

    A command for several machines may be started again, when the new run already has later records.

    Args:
        old: folder of the run to resume.
        new: folder of the run that continues with this epoch.
        epoch: first epoch that is not copied.
        loss_text: for another number of workers, the sentence about state and records that do not continue. Records
            are not copied then: sums over workers need the same workers in every epoch.
    """
    events = new / "events.jsonl"
    # This event is written last, so an interrupted copy is repeated.
    if events.exists() and any(event.get("event") == "resumed" for event in read_lines(events)):
        return
    for path in [*checkpoints(old), *old.glob("control.json"), *old.glob("annotation.json")]:
        target = new / path.relative_to(old)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, target)
    for pattern in () if loss_text else _UNTIL:
        for path in old.glob(pattern):
            lines = [line for line in read_lines(path) if preceding_epoch(line) < epoch]
            # In the format of JsonLines, without spaces, on which read_ends() relies.
            (new / path.name).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    files.append_event(new, "resumed", of=old.name, epoch=epoch, **({"text": loss_text} if loss_text else {}))


def checkpoints(folder: Path) -> list[Path]:
    """Return a run's checkpoint files, complete or not; see ``train/checkpoints/checkpoint.py``."""
    return sorted(folder.glob("checkpoints/epoch-*.safetensors"))
