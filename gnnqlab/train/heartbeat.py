"""Heartbeat of a training process: phase and epoch of each rank, readable by other processes, even after its death.

Every rank owns one small file, mapped into memory: a constant header (identity of the process), a live section that
every change of phase overwrites (phase and its start time), and space for one error. The space is allocated when the
file is created, so a rank can report both even on a full disk. Standard library only, because the guard reads
these files.
"""

import mmap
import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gnnqlab.train.fault import Fault

__all__ = ["PHASES", "WAITING", "Heartbeat", "HeartbeatReader", "Pulse", "read_warning"]

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
"""Phases of a rank, with their descriptions in error messages."""

WAITING = frozenset({"init", "wait", "reduce"})
"""Phases in which a rank may be blocked by another rank."""

_BYTES, _ERROR_END = 9216, 8192  # of the file; end of the error, behind which is the warning
_HEADER = struct.Struct("<8sIIqq")  # magic, rank, node, pid, start time of the process
# counter, epoch, time in ns, limit in s, length of the last epoch in s, steps of this epoch and of the last one, phase,
# counter again (torn if unequal)
_LIVE = struct.Struct("<QqqddQQ16sQ")
_ERROR = _WARNING = struct.Struct("<I")  # length of the text that follows
_LIVE_AT, _ERROR_AT = 64, 256  # byte offsets: 32 bytes of header, 80 of the live section
_MAGIC = b"GNNQ-HB3"
_CODES = {name: name.encode() for name in PHASES}


class Pulse(NamedTuple):
    """One reading of a heartbeat.

    ``epoch`` is -1 before the first one, ``limit_s`` is 0 if the phase has no limit. ``epoch_s`` is the duration of the
    last complete epoch, 0 before there is one: the rank measures it, because a reader can miss whole epochs. ``step``
    counts the phases begun in this epoch, and ``steps`` those of the epoch before, 0 if unknown.
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
    """Writer of a heartbeat, one per rank.

    Args:
        path: the file, or ``None`` for a training without a guard.
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
                # Writing to a hole of a mapped file raises SIGBUS, not an exception, once the disk is full.
                os.posix_fallocate(descriptor, 0, _BYTES)
                self._buffer = mmap.mmap(descriptor, _BYTES)
            finally:
                os.close(descriptor)
        self.phase("start")
        # The magic is written last: a reader that finds it can rely on a complete header.
        _HEADER.pack_into(self._buffer, 0, b"", rank, node, os.getpid(), _own_start_time())
        self._buffer[: len(_MAGIC)] = _MAGIC
        # Last: a fault in the phase `start` must leave a readable header.
        self._fault = Fault.from_environment(rank, path)
        if self._fault is not None:
            self._fault.inject("start", -1)

    @property
    def current(self) -> tuple[str, int]:
        """Phase and epoch of this rank (epoch -1 before the first one)."""
        return self._name, self._epoch

    def phase(self, name: str, epoch: int | None = None, limit_s: float | None = None) -> None:
        """Record the start of a phase; takes about 1 µs.

        Args:
            name: one of ``PHASES``.
            epoch: the epoch that begins; by default unchanged.
            limit_s: seconds this phase may take, if it can be longer than an epoch (partitioning, evaluation of
                a large graph); by default the guard's own rule applies.

        Raises:
            ValueError: if the name is unknown.
        """
        code = _CODES.get(name)
        if code is None:
            raise ValueError(f"a phase must be one of {', '.join(PHASES)}, got {name!r}")
        # Monotonic: comparable between the processes of a machine, and never set back.
        now_ns = time.monotonic_ns()
        if epoch is not None and epoch != self._epoch:
            if self._epoch >= 0:
                self._epoch_s, self._steps = (now_ns - self._epoch_ns) / 1e9, self._step
            self._epoch, self._epoch_ns, self._step = epoch, now_ns, 0
        self._count += 1
        self._step += 1
        self._name = name
        beat = (self._count, self._epoch, now_ns, limit_s or 0.0, self._epoch_s, self._step, self._steps)
        # Not pack_into, which writes zeros first: a reader would take them for epoch 0 at time 0.
        self._buffer[_LIVE_AT : _LIVE_AT + _LIVE.size] = _LIVE.pack(*beat, code, self._count)
        if self._fault is not None:
            self._fault.inject(name, self._epoch)

    def fail(self, text: bytes) -> None:
        """Store one error (JSON) for the guard; needs neither disk space nor a system call."""
        text = text[: _ERROR_END - _ERROR_AT - _ERROR.size]  # the space is fixed
        start = _ERROR_AT + _ERROR.size
        self._buffer[start : start + len(text)] = text
        _ERROR.pack_into(self._buffer, _ERROR_AT, len(text))  # last, so that a reader never gets half a text

    def warn(self, text: str) -> None:
        """Store a warning in place of the one before, or none; needs neither disk space nor a system call."""
        encoded = text.encode(errors="backslashreplace")[: _BYTES - _ERROR_END - _WARNING.size]
        start = _ERROR_END + _WARNING.size
        _WARNING.pack_into(self._buffer, _ERROR_END, 0)
        self._buffer[start : start + len(encoded)] = encoded
        _WARNING.pack_into(self._buffer, _ERROR_END, len(encoded))


class HeartbeatReader:
    """Reader of a heartbeat; needs no system call after the file is mapped."""

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as file:
            self._buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # earlier versions had no warning

    @classmethod
    def open(cls, path: Path) -> "HeartbeatReader | None":
        """Return a reader, or ``None`` until the rank has written its header."""
        try:
            reader = cls(path)
        except (OSError, ValueError):  # missing, or still empty
            return None
        if reader._buffer[: len(_MAGIC)] != _MAGIC:
            reader.close()
            return None
        return reader

    def close(self) -> None:
        self._buffer.close()

    def read(self) -> Pulse:
        """Return the rank's present phase and epoch."""
        _, rank, node, pid, start_time = _HEADER.unpack_from(self._buffer, 0)
        # A lock would let a dead writer block the reader; instead, unequal counters reveal a write in progress.
        for _ in range(100):
            fields = _LIVE.unpack_from(self._buffer, _LIVE_AT)
            count, epoch, time_ns, limit_s, epoch_s, step, steps, code, end_count = fields
            if count == end_count:
                break
        phase = code.rstrip(b"\0").decode()
        return Pulse(rank, node, pid, start_time, count, epoch, time_ns, limit_s, epoch_s, phase, step, steps)

    def error(self) -> bytes | None:
        """Return the error stored by the rank, if any."""
        (length,) = _ERROR.unpack_from(self._buffer, _ERROR_AT)
        start = _ERROR_AT + _ERROR.size
        return bytes(self._buffer[start : start + length]) if length else None

    def warning(self) -> str:
        """Return the present warning of the rank; empty if there is none."""
        if len(self._buffer) < _BYTES:
            return ""
        (length,) = _WARNING.unpack_from(self._buffer, _ERROR_END)
        start = _ERROR_END + _WARNING.size
        return bytes(self._buffer[start : start + length]).decode(errors="replace")


def read_warning(folder: Path) -> str:
    """Return the present warnings of the ranks of a run, also after their end; empty if there are none."""
    readers = [HeartbeatReader.open(path) for path in sorted((folder / "heartbeat").glob("rank*"))]
    texts = []
    for reader in filter(None, readers):
        texts.append(reader.warning())
        reader.close()
    return "; ".join(filter(None, texts))


def _own_start_time() -> int:
    """Return the start time of this process in clock ticks since boot; with the pid it identifies a process."""
    try:
        with open("/proc/self/stat", "rb") as file:
            # Field 22. The command name, in brackets, may hold brackets and spaces itself: start after the last one.
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0
