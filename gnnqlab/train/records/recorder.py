"""Base class of recorders, which the training loop of a worker calls to record measurements in the run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gnnqlab.message.channels.incoming import MessageRecord

__all__ = ["EndedEpoch", "Recorder"]


@dataclass(frozen=True)
class EndedEpoch:
    """Results of one worker's epoch after training, evaluation and the figures of all recorders."""

    epoch: int
    loss: float
    record: dict[str, Any]
    """The line of ``records-rankR.jsonl``."""
    arrivals: Sequence[MessageRecord]
    """The messages that this worker received in the epoch."""


class Recorder:
    """Recorder of one subject of a worker's training; every method does nothing by default.

    The loop calls the methods of all recorders in the order of their list: ``begin``, ``measure``, ``figures`` and
    ``write`` once per epoch, ``close`` after the last one.
    """

    def begin(self, epoch: int) -> None:
        """Prepare for an epoch, before its timer starts."""

    def measure(self, epoch: int) -> None:
        """Read measurements that must exclude the evaluation; called after the optimizer step and before evaluation."""

    def figures(self) -> dict[str, Any]:
        """Return entries of the epoch's record; called after the evaluation."""
        return {}

    def write(self, epoch: EndedEpoch) -> None:
        """Write the data of an epoch."""

    def close(self) -> None:
        """Write the data of the whole training, and close files."""
