"""Failure reports: errors of ranks, their order and wording. Standard library only, pure functions."""

import dataclasses
import errno
import os
import re
import signal as signals
from collections.abc import Sequence
from typing import Any

from gnnqlab.train.heartbeat import PHASES

__all__ = ["WorkerError", "crash_site", "is_consequence", "order", "place_of", "quote_errno", "signal_name"]

# Errors of Gloo, NCCL and stores, in lower case, if the process at the other end has ended.
_TRANSPORT = (
    "connection closed by peer",
    "connection reset by peer",
    "connection refused",
    "connection was closed",
    "connection was likely closed",
    "connectfullmesh failed",
    "broken pipe",
    "socket closed",
    "socket timeout",
    "timed out waiting",
    "wait timeout after",
    "remote process exited",
    "failed to recv",
    "failed to send",
    "recvvalue failed",
)


# Texts of the system for exhausted resources, which a process without a report of its own writes to its log.
_ERRNO_TEXTS = tuple(
    os.strerror(number)
    for number in (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EAGAIN, errno.EADDRINUSE)
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerError:
    """Error of one rank."""

    rank: int
    """Number of the worker; -1 for another process (torchrun, the guard)."""
    cause: str
    """One sentence without a full stop: rank, error, epoch and phase."""
    signal: int | None = None
    """Signal that ended or stopped the rank, if any."""
    phase: str
    """Phase of the rank, one of ``gnnqlab.train.heartbeat.PHASES``."""
    epoch: int
    """Epoch of the rank; -1 before the first."""
    traceback: str = ""
    """Python stack or stacks, if available."""
    consequence: bool = False
    """True if the error is a consequence of the death of another rank."""
    monotonic_ns: int = 0
    """Time of the error, on the monotonic clock of its machine."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "WorkerError":
        known_names = {field.name for field in dataclasses.fields(cls)}
        # A report of another version may have further fields.
        return cls(**{name: item for name, item in value.items() if name in known_names})


def is_consequence(text: str) -> bool:
    """Return True if an error text only reports a broken connection to another worker.

    Example:
        >>> is_consequence("[pair.cc:553] Connection closed by peer [127.0.0.1]:34567")
        True
        >>> is_consequence("cora cannot be downloaded: [Errno 111] Connection refused")
        False
    """
    lower_text = re.sub(r"\[errno \d+\] [a-z ]*", "", text.lower())  # of Python's sockets, such as a download's
    return any(pattern in lower_text for pattern in _TRANSPORT)


def quote_errno(log: str) -> str:
    r"""Return the first line of a log that reports an exhausted resource or a taken port; empty if there is none.

    Example:
        >>> quote_errno("Traceback\n  x()\nOSError: [Errno 24] Too many open files: '/dev/null'\n")
        "OSError: [Errno 24] Too many open files: '/dev/null'"
    """
    lines = (line.strip() for line in log.splitlines())
    return next((line[:300] for line in lines if any(text in line for text in _ERRNO_TEXTS)), "")


def order(errors: Sequence[WorkerError]) -> list[WorkerError]:
    """Return the errors with the root cause first: own errors before consequences, each in the order of time."""
    # False sorts before True; times are comparable, because all ranks of one guard share a clock.
    return sorted(errors, key=lambda error: (error.consequence, error.monotonic_ns))


def place_of(phase: str, epoch: int) -> str:
    """Return epoch and phase as text, for instance ``in epoch 12 while computing``.

    Example:
        >>> place_of("load", -1)
        'while loading the graph'
    """
    activity = f"while {PHASES.get(phase, phase)}"
    return activity if epoch < 0 else f"in epoch {epoch} {activity}"


def crash_site(trace: str) -> str:
    r"""Return file, line and function of the innermost frame of a crash recorded by faulthandler; empty if none.

    Example:
        >>> crash_site('Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n'
        ...            '  File "/home/me/gnnqlab/kernels/native.py", line 88 in __call__')
        'kernels/native.py:88 (__call__)'
    """
    # Stacks that a rank wrote earlier, when it did not crash, come before.
    crash = trace.rpartition("Fatal Python error: ")[2] if "Fatal Python error: " in trace else ""
    frame = re.search(r'Current thread .*\n  File "([^"]+)", line (\d+) in (.*)', crash)
    return "" if frame is None else f"{'/'.join(frame[1].split('/')[-2:])}:{frame[2]} ({frame[3]})"


def signal_name(number: int) -> str:
    """Return the name of a signal, for instance ``SIGKILL`` for 9; a signal without a name is shown as its number."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
