"""Heartbeat of a training process: where each rank is, readable by another process at any time, even after death.

Every rank owns one small file, mapped into memory: a header that never changes (who am I), a line that every change
of phase rewrites (what am I doing since when), and room for one error. The room is set aside when the file is made,
so a rank can still say why it failed on a full disk. Standard library only, because the guard reads these files.
"""

import mmap
import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gnnqlab.train.fault import Fault

__all__ = ["PHASES", "WAITING", "Heartbeat", "HeartbeatReader", "Pulse"]

PHASES: Mapping[str, str] = {
    "start": "starting",
    "load": "loading the graph",
    "partition": "partitioning the graph",
    "init": "joining the process group",
    "compute": "computing",
    "encode": "encoding messages",
    "wait": "waiting for boundary messages",
    "reduce": "summing gradients over the workers",
    "evaluate": "evaluating",
    "checkpoint": "writing a checkpoint",
    "save": "writing the model",
    "done": "already finished",
}
"""Every phase a rank can be in, with the words an error message uses for it."""

WAITING = frozenset({"init", "wait", "reduce"})
"""Phases in which a rank may stand still because of another rank."""

_BYTES = 8192
_HEADER = struct.Struct("<8sIIqq")  # magic, rank, node, pid, start time of the process
# counter, epoch, time in ns, limit in s, length of the last epoch in s, steps of this epoch and of the last one, phase,
# counter again (torn if unequal)
_LIVE = struct.Struct("<QqqddQQ16sQ")
_ERROR = struct.Struct("<I")  # length of the JSON text that follows
_LIVE_AT, _ERROR_AT = 64, 256
_MAGIC = b"GNNQ-HB3"
_CODES = {name: name.encode() for name in PHASES}


class Pulse(NamedTuple):
    """One reading of a heartbeat.

    ``epoch`` is -1 before the first one, ``limit_s`` is 0 where the phase set none. ``epoch_s`` is what the last
    complete epoch took, 0 before there is one: the rank times it, since a reader can miss whole epochs. ``step`` counts
    the phases that were begun in this epoch, and ``steps`` those of the epoch before, 0 where that is not known.
    """

    rank: int
    node: int
    pid: int
    start_time: int
    beats: int
    epoch: int
    time_ns: int
    limit_s: float
    epoch_s: float
    phase: str
    step: int = 0
    steps: int = 0


class Heartbeat:
    """The writing side, one per rank.

    Args:
        path: the file, or ``None`` for a training that no guard watches.
        rank: number of this worker.
        node: number of this machine in a run over several.

    Example:
        >>> heartbeat = Heartbeat(None)
        >>> heartbeat.phase("compute", epoch=3)
        >>> heartbeat.current
        ('compute', 3)
    """

    def __init__(self, path: Path | None, rank: int = 0, *, node: int = 0) -> None:
        self._count, self._epoch, self._name = 0, -1, "start"
        self._epoch_ns, self._epoch_s = 0, 0.0
        self._step, self._steps = 0, 0
        self._fault: Fault | None = None
        self._buffer: mmap.mmap | bytearray
        if path is None:
            self._buffer = bytearray(_BYTES)
        else:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                # A hole in the file would become a SIGBUS, not an exception, on a disk that is full by then.
                os.posix_fallocate(descriptor, 0, _BYTES)
                self._buffer = mmap.mmap(descriptor, _BYTES)
            finally:
                os.close(descriptor)
        self.phase("start")
        # The magic comes last: a reader that sees it sees a complete header.
        _HEADER.pack_into(self._buffer, 0, b"", rank, node, os.getpid(), _own_start_time())
        self._buffer[: len(_MAGIC)] = _MAGIC
        self._fault = Fault.from_environment(rank, path)
        if self._fault is not None:
            self._fault.strike("start", -1)

    @property
    def current(self) -> tuple[str, int]:
        """The phase and the epoch this rank is in (epoch -1 before the first one)."""
        return self._name, self._epoch

    def phase(self, name: str, epoch: int | None = None, limit_s: float | None = None) -> None:
        """Say what comes now; about 1 µs.

        Args:
            name: one of ``PHASES``.
            epoch: the epoch that begins; the last one stays if it is not given.
            limit_s: seconds this phase may take, where it is wider than an epoch (partitioning, evaluation of
                a large graph); the guard's own rule holds if it is not given.

        Raises:
            ValueError: if the name is unknown.
        """
        code = _CODES.get(name)
        if code is None:
            raise ValueError(f"a phase must be one of {', '.join(PHASES)}, got {name!r}")
        now_ns = time.monotonic_ns()
        if epoch is not None and epoch != self._epoch:
            if self._epoch >= 0:
                self._epoch_s, self._steps = (now_ns - self._epoch_ns) / 1e9, self._step
            self._epoch, self._epoch_ns, self._step = epoch, now_ns, 0
        self._count += 1
        self._step += 1
        self._name = name
        beat = (self._count, self._epoch, now_ns, limit_s or 0.0, self._epoch_s, self._step, self._steps)
        _LIVE.pack_into(self._buffer, _LIVE_AT, *beat, code, self._count)
        if self._fault is not None:
            self._fault.strike(name, self._epoch)

    def fail(self, text: bytes) -> None:
        """Leave one error (JSON) for the guard; needs neither disk space nor a system call."""
        text = text[: _BYTES - _ERROR_AT - _ERROR.size]
        start = _ERROR_AT + _ERROR.size
        self._buffer[start : start + len(text)] = text
        _ERROR.pack_into(self._buffer, _ERROR_AT, len(text))  # last, so that a reader never sees half a text


class HeartbeatReader:
    """The reading side; costs no system call after the file is mapped."""

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as file:
            self._buffer = mmap.mmap(file.fileno(), _BYTES, access=mmap.ACCESS_READ)

    @classmethod
    def open(cls, path: Path) -> "HeartbeatReader | None":
        """The reader, or ``None`` while the rank has not written its header yet."""
        try:
            reader = cls(path)
        except (OSError, ValueError):  # not there, or still empty
            return None
        if reader._buffer[: len(_MAGIC)] != _MAGIC:
            reader.close()
            return None
        return reader

    def close(self) -> None:
        self._buffer.close()

    def read(self) -> Pulse:
        """The rank's present position."""
        _, rank, node, pid, start_time = _HEADER.unpack_from(self._buffer, 0)
        for _ in range(100):
            live = _LIVE.unpack_from(self._buffer, _LIVE_AT)
            count, epoch, time_ns, limit_s, epoch_s, step, steps, code, again = live
            if count == again:
                break
        phase = code.rstrip(b"\0").decode()
        return Pulse(rank, node, pid, start_time, count, epoch, time_ns, limit_s, epoch_s, phase, step, steps)

    def error(self) -> bytes | None:
        """The error the rank left, if any."""
        (length,) = _ERROR.unpack_from(self._buffer, _ERROR_AT)
        start = _ERROR_AT + _ERROR.size
        return bytes(self._buffer[start : start + length]) if length else None


def _own_start_time() -> int:
    """Start time of this process in clock ticks since boot: with the pid, it names a process for good."""
    try:
        with open("/proc/self/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0
