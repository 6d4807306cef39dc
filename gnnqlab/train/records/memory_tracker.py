"""Bytes of live tensors by purpose, as an epoch makes and frees them: what a process's highest mark cannot tell apart.

Every storage is entered when an operator makes it, and struck out when the last tensor on it is gone. Of all moments of
an epoch the one with the most bytes is kept, purpose by purpose, and the most that each purpose ever had.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gnnqlab.observe import Observer, TensorAllocated, TensorSaved
from gnnqlab.train.records.json_lines import JsonLines, read_lines
from gnnqlab.train.records.persistent_tensors import persistent_tensors
from gnnqlab.train.records.recorder import Recorder

if TYPE_CHECKING:
    import pandas as pd

    from gnnqlab.train.loop.trainer import Trainer

__all__ = ["MEMORY_COLUMNS", "PURPOSES", "MemoryTracker", "MemoryFile", "read_memory"]

PURPOSES = ("weights", "adjacency", "kept", "rows", "halo", "buffers")
"""What tensors are there for: weights with gradients and the optimizer's moments; matrices of the graph and their
parts, and where rows are; what autograd keeps of this worker's rows for the backward pass; its other rows, features and
labels among them; rows of other workers and their gradients, and all that a cache holds; bytes of messages."""

MEMORY_COLUMNS = ("epoch", "rank", "purpose", "bytes", "peak_bytes")
"""Columns of ``run.memory``: ``bytes`` of a purpose at the moment at which all purposes together had the most, and the
most that it ever had in the epoch."""


class MemoryTracker(TorchDispatchMode, Observer):
    """Counts the bytes of live tensors by purpose while it is open, in the thread that opened it.

    Example:
        >>> ledger = MemoryTracker()
        >>> with ledger:
        ...     x = torch.ones(4, 8) + 1.0
        >>> ledger.peaks["rows"]
        256
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = dict.fromkeys(PURPOSES, 0)
        """Bytes now."""
        self.peaks = dict.fromkeys(PURPOSES, 0)
        """The most bytes of each purpose."""
        self.at_peak = dict.fromkeys(PURPOSES, 0)
        """Bytes at the moment with the most of all purposes together."""
        self._most = 0
        self._entries: dict[int, tuple[str, int]] = {}
        self._fixed: set[int] = set()
        self._struck: list[weakref.finalize[..., Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for made in tree_leaves(result):
            if type(made) is Tensor:
                self.enter(made)
        return result

    def enter(self, tensor: Tensor, purpose: str | None = None, *, fixed: bool = False) -> None:
        """Count a tensor's memory once, for a purpose; by default bytes are those of messages, the rest rows.

        Args:
            tensor: what to count; a purpose given later takes it over.
            purpose: one of ``PURPOSES``.
            fixed: whether it stays with that purpose even if autograd keeps it.
        """
        storage = tensor.untyped_storage()
        key, size = id(storage), storage.nbytes()
        known = self._entries.get(key)
        if known is None:
            said = purpose or ("buffers" if tensor.dtype == torch.uint8 else "rows")
            self._entries[key] = said, size
            self._add(said, size)
            self._struck.append(weakref.finalize(storage, self._strike, key))
        elif purpose is not None and known[0] != purpose and key not in self._fixed:
            self._entries[key] = purpose, known[1]
            self._add(known[0], -known[1])
            self._add(purpose, known[1])
        if fixed:
            self._fixed.add(key)

    def on_tensor_allocated(self, event: TensorAllocated) -> None:
        self.enter(event.tensor, event.purpose)

    def on_tensor_saved(self, event: TensorSaved) -> None:
        if self._entries.get(id(event.tensor.untyped_storage()), ("rows", 0))[0] == "rows":
            self.enter(event.tensor, "kept")

    def close(self) -> None:
        """Count no longer; what was counted stays."""
        for struck in self._struck:
            struck.detach()
        self._struck.clear()

    def _strike(self, key: int) -> None:
        purpose, size = self._entries.pop(key)
        self._fixed.discard(key)
        self._add(purpose, -size)

    def _add(self, purpose: str, size: int) -> None:
        self.live[purpose] += size
        self.peaks[purpose] = max(self.peaks[purpose], self.live[purpose])
        total = sum(self.live.values())
        if total > self._most:
            self._most, self.at_peak = total, dict(self.live)


class MemoryFile(Recorder):
    """Records the memory of epoch 1 and of every n-th one on one worker: ``memory-rankR.jsonl`` has a line for each."""

    def __init__(self, folder: Path, rank: int, trainer: Trainer, every: int) -> None:
        self._path, self._rank, self._trainer, self._every = folder / f"memory-rank{rank}.jsonl", rank, trainer, every
        self._open: tuple[ExitStack, MemoryTracker] | None = None
        self._epoch = 0

    def begin(self, epoch: int) -> None:
        """Start to count if this epoch is one to record."""
        if self._every <= 0 or epoch == 0 or not (epoch == 1 or epoch % self._every == 0):
            return
        self._epoch, self._open = epoch, counting(self._trainer)

    def figures(self) -> dict[str, Any]:
        """Write the counts, the evaluation's among them; the record of the epoch has none of them."""
        if self._open is None:
            return {}
        (stack, ledger), self._open = self._open, None
        stack.close()
        rows = [[purpose, ledger.at_peak[purpose], ledger.peaks[purpose]] for purpose in PURPOSES]
        lines = JsonLines(self._path)
        lines.write({"epoch": self._epoch, "rank": self._rank, "rows": rows})
        lines.close()
        return {}


def counting(trainer: Trainer) -> tuple[ExitStack, MemoryTracker]:
    """Return the ledger of a trainer, counting what there is already and what comes; close the stack to end."""
    ledger, stack = MemoryTracker(), ExitStack()
    for purpose, tensors in persistent_tensors(trainer).items():
        for tensor in tensors:
            ledger.enter(tensor, purpose, fixed=True)
    stack.callback(ledger.close)
    stack.enter_context(trainer.observers.joined_by(ledger))
    stack.enter_context(ledger)
    return stack, ledger


def read_memory(folder: Path) -> pd.DataFrame:
    """Return one row per epoch recorded, worker and purpose; see ``MEMORY_COLUMNS``."""
    import pandas as pd

    rows: Iterable[tuple[Any, ...]] = (
        (line["epoch"], line["rank"], *row)
        for path in sorted(folder.glob("memory-rank*.jsonl"))
        for line in read_lines(path)
        for row in line["rows"]
    )
    frame = pd.DataFrame(list(rows), columns=list(MEMORY_COLUMNS))
    return frame.sort_values(["epoch", "rank"], ignore_index=True, kind="stable")
