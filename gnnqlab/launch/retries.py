"""Restarts of a run after a failure, from its newest checkpoint: their number, pauses and end. For the guard.

Each restart is a new torchrun: its own restarts (``--max-restarts``) fail with Gloo, because workers find addresses of
the earlier attempt in the shared store. Standard library only.
"""

import shutil
from pathlib import Path

from gnnqlab.run import folder as files

__all__ = ["Retries", "clear_attempt", "clear_rank"]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0


class Retries:
    """Rule that decides after each failure if the run starts again.

    Args:
        most: largest number of restarts.

    Example:
        >>> retries = Retries(3)
        >>> retries.pause_s(7), retries.pause_s(9), retries.pause_s(9)
        (1.0, 2.0, None)
        >>> retries.refusal
        'it fails for the second time in epoch 9'
    """

    def __init__(self, most: int) -> None:
        self.most, self.num_used = most, 0
        self.refusal = ""
        """Reason of the last ``None``; empty for a run without restarts."""
        self._failed_epochs: set[int] = set()

    def pause_s(self, epoch: int) -> float | None:
        """Count a failure; return the seconds to wait before the restart, ``None`` if the run must fail.

        Args:
            epoch: epoch of the failure; -1 before the first.
        """
        if self.most == 0:
            return None
        if epoch in self._failed_epochs:  # the same would happen again
            self.refusal = "it fails for the second time " + (
                "before its first epoch" if epoch < 0 else f"in epoch {epoch}"
            )
            return None
        if self.num_used == self.most:
            self.refusal = f"its {self.most} restart(s) are used"
            return None
        self._failed_epochs.add(epoch)
        self.num_used += 1
        return min(_FIRST_PAUSE_S * 2.0 ** (self.num_used - 1), _LONGEST_PAUSE_S)


def clear_attempt(folder: Path, attempt: int) -> None:
    """Remove the heartbeats and temporary files of an attempt that has ended, and rename its error reports.

    Args:
        folder: the run folder.
        attempt: number of the attempt, 1 for the first; part of the new names.
    """
    for path in (folder / "heartbeat").glob("rank*"):
        path.unlink(missing_ok=True)
    for path in (folder / "errors").glob("rank*"):
        path.rename(path.with_name(f"attempt{attempt}-{path.name}"))
    for path in (folder / "tmp").iterdir():
        if path.name == files.RESERVE:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def clear_rank(folder: Path, rank: int) -> None:
    """Remove the heartbeat and the error reports of one rank of an attempt that has ended.

    Args:
        folder: the run folder.
        rank: the rank, which starts again; the files of others may belong to the new attempt.
    """
    for path in (folder / "heartbeat" / f"rank{rank}", *(folder / "errors").glob(f"rank{rank}.*")):
        path.unlink(missing_ok=True)
