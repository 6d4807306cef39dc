"""The protocol of recorders: the training loop of a worker calls them, and they keep figures in the run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gnnqlab.message.channels.incoming import MessageRecord

__all__ = ["EndedEpoch", "Recorder"]


@dataclass(frozen=True)
class EndedEpoch:
    """One epoch of one worker after training, evaluation and the figures of all recorders."""

    epoch: int
    loss: float
    record: dict[str, Any]
    """The line of ``records-rankR.jsonl``."""
    arrivals: Sequence[MessageRecord]
    """The messages that this worker received in the epoch."""


class Recorder:
    """Record one subject of a worker's training; every method does nothing by default.

    The loop calls the methods of all recorders in the order of their list: ``begin``, ``trained``, ``figures`` and
    ``ended`` once an epoch, ``close`` after the last one.
    """

    def begin(self, epoch: int) -> None:
        """Prepare for an epoch; the clock of the epoch starts afterwards."""

    def trained(self, epoch: int) -> None:
        """Read what must not count the evaluation; the model was updated, and is not evaluated yet."""

    def figures(self) -> dict[str, Any]:
        """Return the entries of the epoch's record, after the evaluation."""
        return {}

    def ended(self, epoch: EndedEpoch) -> None:
        """Write what belongs to an epoch."""

    def close(self) -> None:
        """Write what belongs to the whole training, and close files."""
