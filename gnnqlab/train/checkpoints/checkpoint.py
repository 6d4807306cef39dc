"""Checkpoints: files in safetensors layout, written atomically, and never pickles.

``checkpoints/epoch-N.safetensors`` holds everything needed to continue with epoch N bit for bit: parameters, Adam's
moments, the state of callbacks, and facts as JSON. There is no generator state to save, because all noise is a function
of seed and epoch. A file is written under a temporary name, flushed to disk and then renamed, and holds a hash of its
tensors (``tensor_file.py``), so a reader finds the newest complete one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from gnnqlab.train.checkpoints.tensor_file import read_tensors, write_tensors
from gnnqlab.train.writable import write_failure

__all__ = ["FOLDER", "Checkpoint", "Checkpoints", "newest_checkpoint", "read_checkpoint", "write_checkpoint"]

FOLDER = "checkpoints"
_FORMAT = "gnnqlab checkpoint 2"
_EARLIER = ("gnnqlab checkpoint 1",)
_KEEP = 2  # the newest may turn out to be damaged; then the one before is used


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """State of a training between two epochs."""

    epoch: int
    """Next epoch to train."""
    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    """Plain JSON."""


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically: a crash leaves a complete file or none.

    Raises:
        OSError: if the disk is full or cannot be written; no partial file remains.
    """
    facts = json.dumps({**checkpoint.facts, "epoch": checkpoint.epoch})
    write_tensors(path, checkpoint.tensors, {"format": _FORMAT, "facts": facts})


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and validate a checkpoint; no code in the file is executed.

    Raises:
        ValueError: if the file is incomplete, modified, or not a checkpoint.
        RuntimeError: if an earlier version of gnnqlab wrote it.
    """
    contents = read_tensors(path, what="checkpoint")
    try:
        form, facts = contents.metadata["format"], json.loads(contents.metadata["facts"])
        epoch = facts.pop("epoch")
        # `is True`: a file without a hash (None) is refused too.
        is_complete = form == _FORMAT and isinstance(epoch, int) and contents.intact is True
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"a checkpoint must have the format of gnnqlab, got {path}: {error}") from error
    # Not a ValueError: newest_checkpoint() would skip the file and resume from an older one, or not at all.
    if form in _EARLIER:
        raise RuntimeError(
            f"a checkpoint must have the format {_FORMAT!r}, got {form!r} in {path}; resume with the "
            "version of gnnqlab that wrote it, or launch a new run"
        )
    if not is_complete:
        raise ValueError(f"a checkpoint must be as gnnqlab wrote it, got a modified or incomplete file {path}")
    return Checkpoint(epoch, contents.tensors, facts)


def newest_checkpoint(run: Path) -> Checkpoint | None:
    """Return the newest complete checkpoint of a run folder, or ``None``; print the errors of damaged ones."""
    # Epoch numbers are zero-padded: the order of names is the order of epochs.
    for path in sorted((run / FOLDER).glob("epoch-*.safetensors"), reverse=True):
        try:
            return read_checkpoint(path)
        except (OSError, ValueError) as error:
            print(f"{error}; using the one before", flush=True)
    return None


class Checkpoints:
    """Writer of checkpoints in a thread, one at a time; it retains the newest two.

    Args:
        run: the run folder.
    """

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        # One thread, and save() waits for the file before it: at most one copy of the state is in memory.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[None] | None = None

    def save(self, epoch: int, tensors: Mapping[str, Tensor], facts: dict[str, Any]) -> str | None:
        """Copy the state and write it in the thread.

        Returns:
            The reason if the checkpoint before could not be written; training continues without it.
        """
        failure = self.finish()
        # Copied before returning: the next step updates the tensors in place.
        copies = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
        self._writing = self._thread.submit(self._write, Checkpoint(epoch, copies, facts))
        return failure

    def finish(self) -> str | None:
        """Wait until the last checkpoint is written; return the reason if it failed."""
        if self._writing is None:
            return None
        failure, self._writing = self._writing.exception(), None
        # A full disk costs a checkpoint; any other exception is a bug, and ends the run.
        if failure is not None and not isinstance(failure, OSError):
            raise failure
        return None if failure is None else f"checkpoint failed: {write_failure(failure, self._folder)}"

    def _write(self, checkpoint: Checkpoint) -> None:
        self._folder.mkdir(exist_ok=True)
        write_checkpoint(self._folder / f"epoch-{checkpoint.epoch:06d}.safetensors", checkpoint)
        # Only after the new file is complete: a crash in between leaves the earlier files.
        for old_path in sorted(self._folder.glob("epoch-*.safetensors"))[:-_KEEP]:
            old_path.unlink(missing_ok=True)
