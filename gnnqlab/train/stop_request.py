"""Request that all workers of a run end after the present epoch, as a file in the run folder. Standard library only.

A guard writes it after a signal. Rank 0 looks for it once per epoch, and a flag in the gradient all-reduce announces it
(``train/control.py``), so all workers end after the same epoch.
"""

import json
from pathlib import Path

from gnnqlab.atomic import write_text

__all__ = ["STOP", "request_stop", "requested_by"]

STOP = "stop-after-epoch"
"""Name of the file: JSON with the signal."""


def request_stop(folder: Path, number: int) -> None:
    """Write the request.

    Args:
        folder: the run folder.
        number: the signal that is the reason.

    Raises:
        OSError: if it cannot be written.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> request_stop(folder, 15)
        >>> requested_by(folder)
        15
    """
    write_text(folder / STOP, json.dumps({"signal": number}))


def requested_by(folder: Path) -> int | None:
    """Return the signal of the request in a run folder, ``None`` without one."""
    try:
        number = json.loads((folder / STOP).read_text())["signal"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return number if isinstance(number, int) else None
