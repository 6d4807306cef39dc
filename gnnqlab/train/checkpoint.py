"""Checkpoints: one file that a crash cannot tear, in the layout of safetensors, and never a pickle.

``checkpoints/epoch-N.safetensors`` holds what training needs to go on with epoch N as if nothing had happened:
parameters, Adam's averages, the state of what adapts, and facts as JSON. There is no random state to keep, because
all noise is a function of seed and epoch. A file is written under another name, flushed to the disk and then renamed,
and holds a hash of its tensors, so a reader finds the newest whole one.

The layout: 8 bytes of header length, a JSON header ``{name: {dtype, shape, data_offsets}, "__metadata__": {...}}``,
and the tensors one behind the other (https://github.com/huggingface/safetensors).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gnnqlab.atomic import replacing

__all__ = ["FOLDER", "Checkpoint", "Checkpoints", "newest_checkpoint", "read_checkpoint", "write_checkpoint"]

FOLDER = "checkpoints"
_FORMAT = "gnnqlab checkpoint 2"
_EARLIER = ("gnnqlab checkpoint 1",)
_KEEP = 2
_DTYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "U8": torch.uint8}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_MOST_HEADER = 64 << 20


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
    header: dict[str, Any] = {}
    parts, offset = [], 0
    for name, tensor in checkpoint.tensors.items():
        part = tensor.detach().cpu().contiguous()
        size = part.numel() * part.element_size()
        header[name] = {
            "dtype": _NAMES[part.dtype],
            "shape": list(part.shape),
            "data_offsets": [offset, offset + size],
        }
        parts.append(part.flatten().view(torch.uint8).numpy().data)
        offset += size
    digest = hashlib.sha256()
    for view in parts:
        digest.update(view)
    facts = json.dumps({**checkpoint.facts, "epoch": checkpoint.epoch})
    header["__metadata__"] = {"format": _FORMAT, "facts": facts, "sha256": digest.hexdigest()}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as partial, open(partial, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for view in parts:
            file.write(view)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(path.parent)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and check a checkpoint; no code of the file runs, whatever it holds.

    Raises:
        ValueError: if the file is torn, changed, or no checkpoint.
        RuntimeError: if an earlier version of gnnqlab wrote it.
    """
    content = memoryview(path.read_bytes())
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(len(content) - 8, _MOST_HEADER):
        raise ValueError(f"a checkpoint must be whole, got a torn file {path}")
    try:
        header = json.loads(bytes(content[8 : 8 + length]))
        described = header.pop("__metadata__")
        facts = json.loads(described["facts"])
        epoch = facts.pop("epoch")
        body = content[8 + length :]
        tensors = {name: _tensor(body, entry) for name, entry in header.items()}
        whole = described["format"] == _FORMAT and isinstance(epoch, int) and isinstance(facts, dict)
        whole = whole and hashlib.sha256(body).hexdigest() == described["sha256"]
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError, RecursionError) as error:
        raise ValueError(f"a checkpoint must be as gnnqlab writes it, got {path}: {error}") from error
    if described["format"] in _EARLIER:
        raise RuntimeError(
            f"a checkpoint must be of the format {_FORMAT!r}, got {described['format']!r} in {path}; go on with the "
            "version of gnnqlab that wrote it, or launch a new run"
        )
    if not whole:
        raise ValueError(f"a checkpoint must be as gnnqlab wrote it, got a changed or torn file {path}")
    return Checkpoint(epoch, tensors, facts)


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


def _tensor(body: memoryview, entry: Any) -> Tensor:
    dtype, shape, (start, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
    if not (isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= len(body)):
        raise ValueError("a tensor lies outside the file")
    if not all(isinstance(side, int) and side >= 0 for side in shape):
        raise ValueError("a shape is no list of sizes")
    if math.prod(shape) * dtype.itemsize != end - start:
        raise ValueError("a tensor and its shape disagree")
    if start == end:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(body[start:end]), dtype=dtype).view(shape)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
