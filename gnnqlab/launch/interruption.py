"""Orderly end of a run after a signal: the present epoch ends, then checkpoint and model are written. For the guard.

The guard writes a request to the run folder (``train/stop_request.py``), and all workers end after the same epoch.
Standard library only.
"""

import time
from collections.abc import Callable
from pathlib import Path

from gnnqlab.run.failure_report import signal_name
from gnnqlab.train.records.json_lines import read_lines
from gnnqlab.train.stop_request import request_stop

__all__ = ["Interruption", "resume_advice", "was_interrupted"]

_REPEAT_S = 5.0
"""Time in which further signals belong to the first: a queue sends one to every process, and all forward it, on a busy
machine with a delay. A second Ctrl-C needs no such time: the launching process calls :meth:`Run.stop`."""
_LIMIT_S = 60.0


class Interruption:
    """Signals that a guard has received, and the time that the run still has.

    Args:
        clock: returns monotonic seconds.

    Example:
        >>> seconds = iter([0.0, 0.1, 9.0])
        >>> stop = Interruption(lambda: next(seconds))
        >>> stop.receive(15), stop.receive(15), stop.is_repeated
        (None, None, False)
        >>> stop.receive(2), stop.number, stop.is_repeated
        (None, 15, True)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first_s = 0.0
        self.number: int | None = None
        """The first signal."""
        self.is_repeated = False
        """True if a later signal ends the run at once."""
        self.is_requested = False
        """True once the workers can find the request."""

    def receive(self, number: int) -> None:
        """Count a signal; called by a signal handler."""
        now_s = self._clock()
        if self.number is None:
            self.number, self._first_s = number, now_s
        elif now_s - self._first_s >= _REPEAT_S:
            self.is_repeated = True

    def request(self, folder: Path) -> bool:
        """Write the request for the workers, once; return False if it cannot be written."""
        if not self.is_requested:
            assert self.number is not None
            try:
                request_stop(folder, self.number)
            except OSError:  # a full disk: no checkpoint could be written either
                return False
            self.is_requested = True
        return True

    def exceeded_s(self, median_epoch_s: float) -> float | None:
        """Return the limit for the orderly end in seconds if it has passed, else ``None``.

        Args:
            median_epoch_s: the usual duration of an epoch, 0 if unknown.
        """
        limit_s = max(_LIMIT_S, 10 * median_epoch_s)
        return limit_s if self._clock() - self._first_s > limit_s else None


def was_interrupted(folder: Path, epoch: int, epochs: int) -> bool:
    """Return True if workers that ended after ``epoch`` followed a request, rather than reaching their last epoch."""
    events = folder / "events.jsonl"
    is_early_stop = events.exists() and any(event.get("event") == "stopped early" for event in read_lines(events))
    return epoch + 1 < epochs and not is_early_stop


def resume_advice(folder: Path, number: int, epoch: int) -> str:
    """Return the cause of an end after a signal, with the command that resumes the run if it has a checkpoint.

    Args:
        folder: the run folder.
        number: the signal.
        epoch: the last complete epoch; -1 before the first.
    """
    place = "before the end of its first epoch" if epoch < 0 else f"at epoch {epoch}"
    has_checkpoint = any(folder.glob("checkpoints/epoch-*.safetensors"))
    way = f"resume with gnnqlab train --resume {folder}" if has_checkpoint else "it has no checkpoint, launch it again"
    return f"interrupted by {signal_name(number)} {place}; {way}"
