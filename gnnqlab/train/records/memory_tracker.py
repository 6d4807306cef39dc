"""Memory tracker: bytes of live tensors by purpose during an epoch, which a process's peak memory does not separate.

Every storage is added when an operator allocates it, and removed when its last tensor is freed. For each epoch it
records the bytes of every purpose at the moment of the highest total, and the peak of each purpose.
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
"""Purposes of tensors: weights with gradients and the optimizer's moments; matrices of the graph and their parts, and
row indices; this worker's rows saved for backward; its other rows, including features and labels; halo rows with their
gradients, and the contents of caches; message buffers."""

MEMORY_COLUMNS = ("epoch", "rank", "purpose", "bytes", "peak_bytes")
"""Columns of ``run.memory``: ``bytes`` of a purpose at the moment of the highest total, and the purpose's own peak in
the epoch."""


class MemoryTracker(TorchDispatchMode, Observer):
    """Tracker of the bytes of live tensors by purpose; active as a context manager, in the thread that entered it.

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
        """Present bytes of each purpose."""
        self.peaks = dict.fromkeys(PURPOSES, 0)
        """Peak bytes of each purpose."""
        self.at_peak = dict.fromkeys(PURPOSES, 0)
        """Bytes of each purpose at the moment of the highest total."""
        self._most = 0
        self._entries: dict[int, tuple[str, int]] = {}
        self._fixed: set[int] = set()
        self._finalizers: list[weakref.finalize[..., Any]] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: otherwise PyTorch imports its compiler, 800 modules, at the first tracked operator."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for output in tree_leaves(result):
            if type(output) is Tensor:
                self.enter(output)
        return result

    def enter(self, tensor: Tensor, purpose: str | None = None, *, fixed: bool = False) -> None:
        """Count a tensor's storage once, for a purpose; by default uint8 counts as message buffer, the rest as rows.

        Args:
            tensor: the tensor; a purpose given in a later call replaces the present one.
            purpose: one of ``PURPOSES``.
            fixed: True to retain that purpose even if autograd saves the tensor.
        """
        storage = tensor.untyped_storage()  # views share a storage, so it is counted once
        key, size = id(storage), storage.nbytes()
        entry = self._entries.get(key)
        if entry is None:
            first_purpose = purpose or ("buffers" if tensor.dtype == torch.uint8 else "rows")
            self._entries[key] = first_purpose, size
            self._add(first_purpose, size)
            # The id of a storage can be reused only after it is freed, when this removes its entry.
            self._finalizers.append(weakref.finalize(storage, self._remove, key))
        elif purpose is not None and entry[0] != purpose and key not in self._fixed:
            self._entries[key] = purpose, entry[1]
            self._add(entry[0], -entry[1])
            self._add(purpose, entry[1])
        if fixed:
            self._fixed.add(key)

    def on_tensor_allocated(self, event: TensorAllocated) -> None:
        self.enter(event.tensor, event.purpose)

    def on_tensor_saved(self, event: TensorSaved) -> None:
        # Halo rows, weights and buffers retain their purpose when autograd saves them.
        if self._entries.get(id(event.tensor.untyped_storage()), ("rows", 0))[0] == "rows":
            self.enter(event.tensor, "kept")

    def close(self) -> None:
        """Stop tracking; the counts remain."""
        for finalizer in self._finalizers:
            finalizer.detach()  # storages freed from now on must not change the counts
        self._finalizers.clear()

    def _remove(self, key: int) -> None:
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
    """Record the memory of epoch 1 and of every n-th epoch of one worker in ``memory-rankR.jsonl``, one line each."""

    def __init__(self, folder: Path, rank: int, trainer: Trainer, every: int) -> None:
        self._path, self._rank, self._trainer, self._every = folder / f"memory-rank{rank}.jsonl", rank, trainer, every
        self._open: tuple[ExitStack, MemoryTracker] | None = None
        self._epoch = 0

    def begin(self, epoch: int) -> None:
        """Start tracking if this epoch is recorded."""
        if self._every <= 0 or epoch == 0 or not (epoch == 1 or epoch % self._every == 0):  # epoch 0 includes set-up
            return
        self._epoch, self._open = epoch, counting(self._trainer)

    def figures(self) -> dict[str, Any]:
        """Write the counts, including those of the evaluation, to their own file; add nothing to the epoch's record."""
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
    """Start a tracker of a trainer's present and new tensors; close the returned stack to stop it."""
    ledger, stack = MemoryTracker(), ExitStack()
    for purpose, tensors in persistent_tensors(trainer).items():  # tensors allocated before no operator will report
        for tensor in tensors:
            ledger.enter(tensor, purpose, fixed=True)
    # Closed in reverse order: no operator is observed any more when the finalizers are detached.
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
