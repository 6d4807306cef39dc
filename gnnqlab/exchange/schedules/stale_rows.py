"""Checkpoints of the rows of the last epoch, which a schedule with stale rows uses in the next one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from torch import Tensor

from gnnqlab.adaptive import Adaptive, State
from gnnqlab.message.channels.stored_rows import StoredRows
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.worker_context import WorkerContext

__all__ = ["StaleRowsCheckpoint"]

_MEAN = "mean"


class _Pipeline(Protocol):
    means: dict[ExchangeKey, Tensor]

    def rows_to_store(self) -> dict[ExchangeKey, StoredRows]: ...
    def restore(self, rows: Mapping[ExchangeKey, StoredRows]) -> None: ...


class StaleRowsCheckpoint(Adaptive):
    """Callback without decisions that saves pending rows and their moving means in checkpoints.

    Args:
        pipeline: runner with the rows.
        worker: context of this worker.
    """

    name = "stale-rows"
    decides: ClassVar[bool] = False

    def __init__(self, pipeline: _Pipeline, worker: WorkerContext) -> None:
        self._pipeline, self._worker = pipeline, worker

    def state(self) -> State:
        """Return the state after all messages in flight were received; collective."""
        if self._worker.workers == 1:
            return State()
        own = {
            f"{self._prefix(key)}/{name}": tensor
            for key, rows in self._pipeline.rows_to_store().items()
            for name, tensor in rows.tensors().items()
        }
        return State(own=own | {f"{self._prefix(key)}/{_MEAN}": mean for key, mean in self._pipeline.means.items()})

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        stored: dict[ExchangeKey, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            layer, direction, round_, rank, part = name.split("/")
            if int(rank) == self._worker.rank:
                stored.setdefault(ExchangeKey(int(layer), direction, int(round_)), {})[part] = tensor
        means = {key: parts.pop(_MEAN) for key, parts in stored.items() if _MEAN in parts}
        device = self._worker.device
        self._pipeline.means.update({key: mean.to(device, copy=True) for key, mean in means.items()})
        # Rows that are sent once in the whole run are not stored: the next epoch sends them again.
        self._pipeline.restore({key: StoredRows.from_tensors(parts, device) for key, parts in stored.items() if parts})

    def _prefix(self, key: ExchangeKey) -> str:
        """Return a name that is unique among all workers: layer/direction/round/rank."""
        return "/".join(map(str, (*key, self._worker.rank)))
