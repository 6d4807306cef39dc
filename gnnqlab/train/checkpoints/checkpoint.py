"""Checkpoints: one file that a crash cannot tear, in the layout of safetensors, and never a pickle.

``checkpoints/epoch-N.safetensors`` holds what training needs to go on with epoch N as if nothing had happened:
parameters, Adam's averages, the state of what adapts, and facts as JSON. There is no random state to keep, because
all noise is a function of seed and epoch. A file is written under another name, flushed to the disk and then renamed,
and holds a hash of its tensors (``tensor_file.py``), so a reader finds the newest whole one.
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

__all__ = ["FOLDER", "Checkpoint", "Checkpoints", "newest_checkpoint", "read_checkpoint", "write_checkpoint"]

FOLDER = "checkpoints"
_FORMAT = "gnnqlab checkpoint 2"
_EARLIER = ("gnnqlab checkpoint 1",)
_KEEP = 2


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where training stood between two epochs."""

    epoch: int
    """The epoch to go on with."""
    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    """Plain JSON."""


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; a crash leaves the whole file or none.

    Raises:
        OSError: if the disk is full or cannot be written; nothing is left behind then.
    """
    facts = json.dumps({**checkpoint.facts, "epoch": checkpoint.epoch})
    write_tensors(path, checkpoint.tensors, {"format": _FORMAT, "facts": facts})


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and check a checkpoint; no code of the file runs, whatever it holds.

    Raises:
        ValueError: if the file is torn, changed, or no checkpoint.
        RuntimeError: if an earlier version of gnnqlab wrote it.
    """
    found = read_tensors(path, what="checkpoint")
    try:
        form, facts = found.metadata["format"], json.loads(found.metadata["facts"])
        epoch = facts.pop("epoch")
        whole = form == _FORMAT and isinstance(epoch, int) and found.intact is True
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"a checkpoint must be as gnnqlab writes it, got {path}: {error}") from error
    if form in _EARLIER:
        raise RuntimeError(
            f"a checkpoint must be of the format {_FORMAT!r}, got {form!r} in {path}; go on with the "
            "version of gnnqlab that wrote it, or launch a new run"
        )
    if not whole:
        raise ValueError(f"a checkpoint must be as gnnqlab wrote it, got a changed or torn file {path}")
    return Checkpoint(epoch, found.tensors, facts)


def newest_checkpoint(run: Path) -> Checkpoint | None:
    """Return the newest whole checkpoint of a run folder, or ``None``; says on standard output what it passed over."""
    for path in sorted((run / FOLDER).glob("epoch-*.safetensors"), reverse=True):
        try:
            return read_checkpoint(path)
        except (OSError, ValueError) as error:
            print(f"{error}; the one before is taken", flush=True)
    return None


class Checkpoints:
    """Writes checkpoints in a thread, one at a time, and keeps the newest two.

    Args:
        run: the run folder.
    """

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[None] | None = None

    def save(self, epoch: int, tensors: Mapping[str, Tensor], facts: dict[str, Any]) -> str | None:
        """Copy the state and write it meanwhile.

        Returns:
            Why the last one could not be written, if it could not: training goes on without it.
        """
        failure = self.finish()
        copies = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
        self._writing = self._thread.submit(self._write, Checkpoint(epoch, copies, facts))
        return failure

    def finish(self) -> str | None:
        """Return when nothing is being written any more, with the reason if the last one failed."""
        if self._writing is None:
            return None
        failure, self._writing = self._writing.exception(), None
        if failure is not None and not isinstance(failure, OSError):
            raise failure
        return None if failure is None else f"checkpoint failed: {failure.strerror or failure}"

    def _write(self, checkpoint: Checkpoint) -> None:
        self._folder.mkdir(exist_ok=True)
        write_checkpoint(self._folder / f"epoch-{checkpoint.epoch:06d}.safetensors", checkpoint)
        for old in sorted(self._folder.glob("epoch-*.safetensors"))[:-_KEEP]:
            old.unlink(missing_ok=True)
