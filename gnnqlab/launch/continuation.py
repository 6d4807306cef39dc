"""Going on from a checkpoint: a new run with the old one's past."""

from __future__ import annotations

import dataclasses
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gnnqlab.launch import folder as files
from gnnqlab.launch.local import launch
from gnnqlab.launch.machines import other_machines
from gnnqlab.launch.run import LIVE, Run
from gnnqlab.train.checkpoint import FOLDER, newest_checkpoint
from gnnqlab.train.json_lines import read_lines

__all__ = ["resume"]

_HISTORY = ("records-rank*.jsonl", "traffic-rank*.jsonl", "assignments.jsonl", "decisions.jsonl")


def resume(
    run: Run | Path | str, *, epochs: int | None = None, root: Path | str | None = None, wait: bool = False
) -> Run:
    """Go on from the newest whole checkpoint of a run that has ended, as a new run.

    The new run has the records of the old one up to the checkpoint. With the same number of workers, the same threads
    and the same partition it goes on bit for bit as the old one would have, until bit-widths are assigned from times
    that were measured anew.

    Args:
        run: the run, or its folder.
        epochs: epochs in all, if there shall be more than the run was launched with.
        root: folder in which the new run's own folder is made; by default, where the old one is.
        wait: whether to return only when the run has ended.

    Raises:
        ValueError: if there is no checkpoint, or nothing left to train.
        RuntimeError: if the run is still under way.
    """
    old = run if isinstance(run, Run) else Run(run)
    if (status := old.status) in LIVE:
        raise RuntimeError(f"run {old.id} must have ended to be resumed, got status {status}; wait for it or stop it")
    found = newest_checkpoint(old.folder)
    if found is None:
        raise ValueError(
            f"run {old.id} has no checkpoint to go on from; launch runs with checkpoint_every=10, for instance"
        )
    config = old.config
    config = dataclasses.replace(
        config, train=dataclasses.replace(config.train, epochs=config.train.epochs if epochs is None else epochs)
    )
    if found.epoch >= config.train.epochs:
        raise ValueError(
            f"run {old.id} has trained {found.epoch} epochs already, got epochs {config.train.epochs}; "
            "ask for more with epochs=..."
        )
    if others := other_machines(old.folder):
        warnings.warn(
            f"run {old.id} trained on {1 + len(others)} machines and goes on here, on this one, with all its "
            f"{config.workers} workers",
            stacklevel=2,
        )
    return launch(config, root=root or old.folder.parent, wait=wait, prepare=_past(old, found.epoch))


def _past(old: Run, epoch: int) -> Callable[[Path], None]:
    """Return what copies the past of a run, up to an epoch, into the folder of a new one."""

    def copy(folder: Path) -> None:
        (folder / FOLDER).mkdir()
        for path in (old.folder / FOLDER).glob("epoch-*.safetensors"):
            shutil.copyfile(path, folder / FOLDER / path.name)
        if (old.folder / "control.json").exists():
            shutil.copyfile(old.folder / "control.json", folder / "control.json")
        for pattern in _HISTORY:
            for path in old.folder.glob(pattern):
                kept = [line for line in read_lines(path) if _written_after(line) < epoch]
                text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in kept)
                (folder / path.name).write_text(text)
        files.append_event(folder, "resumed", of=old.id, epoch=epoch)

    return copy


def _written_after(line: dict[str, Any]) -> int:
    """Return the epoch after which a line was written: assignments and decisions say from when on they hold."""
    first = line.get("from_epoch", line["epoch"] if "what" in line else line["epoch"] + 1)
    return int(first) - 1
