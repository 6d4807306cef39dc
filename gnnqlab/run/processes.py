"""Processes of this machine as ``/proc`` shows them: who is alive, who descends from whom, and how to end them all.

Standard library only (the guard uses it). A process is named by its pid *and* its start time, so a number that the
system has given to somebody else in the meantime is never taken for ours.
"""

import ctypes
import fcntl
import os
import signal
import struct
import time
from collections.abc import Collection
from typing import NamedTuple

__all__ = [
    "Process",
    "alive",
    "become_subreaper",
    "collect",
    "die_with_parent",
    "end",
    "exit_status",
    "open_pidfd",
    "place",
    "read",
    "received",
    "start_time",
    "tree",
]

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PIDFD_INFO = struct.Struct("<QQ11Ii")  # mask, cgroup, pids and user ids, exit code
_PIDFD_GET_INFO = 3 << 30 | _PIDFD_INFO.size << 16 | 0xFF << 8 | 11
_PIDFD_INFO_EXIT = 1 << 3


class Process(NamedTuple):
    """One line of ``/proc/PID/stat``; ``cpu`` and ``start`` in clock ticks, ``code`` only for one that has ended."""

    pid: int
    state: str
    parent: int
    cpu: int
    start: int
    code: int


def read(pid: int) -> Process | None:
    """What ``/proc`` says of a process, or ``None`` if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return Process(
        pid,
        fields[0].decode(),
        int(fields[1]),
        int(fields[11]) + int(fields[12]),
        int(fields[19]),
        int(fields[49]) if len(fields) > 49 else 0,
    )


def received(pid: int) -> int | None:
    """Bytes that have come over the wire to the emulated host of a process; ``None`` for one on no such host."""
    try:
        if os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:
            return None
        with open(f"/proc/{pid}/net/dev") as file:
            lines = file.readlines()[2:]
    except OSError:
        return None
    counted = (line.partition(":") for line in lines)
    return sum(int(numbers.split()[0]) for name, _, numbers in counted if name.strip() != "lo")


def start_time(pid: int) -> int:
    """Start time in clock ticks since boot, 0 if there is no such process."""
    found = read(pid)
    return found.start if found else 0


def alive(pid: int, start: int) -> bool:
    """Whether exactly this process still runs; one that has ended and waits to be collected does not."""
    found = read(pid)
    return found is not None and found.start == start and found.state not in "ZX"


def open_pidfd(pid: int, start: int) -> int | None:
    """A descriptor that becomes readable when exactly this process ends; ``None`` where that cannot be had."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    if alive(pid, start):
        return descriptor
    os.close(descriptor)
    return None


def exit_status(pid: int, start: int, pidfd: int | None) -> int | None:
    """Wait status of an ended process that may be another's child, even if that one has collected it (Linux 6.15)."""
    found = read(pid)
    if found is not None and found.start == start and found.state == "Z":
        return found.code
    if pidfd is None:
        return None
    try:
        asked = _PIDFD_INFO.pack(_PIDFD_INFO_EXIT, *([0] * 13))
        mask, *_, code = _PIDFD_INFO.unpack(fcntl.ioctl(pidfd, _PIDFD_GET_INFO, asked))
    except OSError:
        return None
    return int(code) if mask & _PIDFD_INFO_EXIT else None


def tree(root: int) -> list[Process]:
    """All living descendants of a process, parents before children."""
    children: dict[int, list[Process]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := read(int(name))) is not None:
            children.setdefault(found.parent, []).append(found)
    descendants: list[Process] = []
    pending = [root]
    while pending:
        for child in children.get(pending.pop(), []):
            pending.append(child.pid)
            descendants.append(child)
    return descendants


def place() -> dict[str, str]:
    """What makes a pid comparable: the same host, boot and pid namespace."""
    found = {"host": os.uname().nodename}
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            found["boot"] = file.read().strip()
        found["pids"] = os.readlink("/proc/self/ns/pid")
    except OSError:
        pass
    return found


def become_subreaper() -> None:
    """Descendants whose parent dies become children of this process instead of process 1."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """The kernel ends this process with SIGKILL as soon as the thread that started it is gone."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise RuntimeError(f"prctl({option}) must be allowed, got errno {number}: {os.strerror(number)}")


def end(root: int, *, grace_s: float, limit_s: float = 10.0, spare: Collection[int] = ()) -> list[Process]:
    """End every descendant of ``root`` but ``spare``: first gently, then with SIGKILL, until none is left.

    Never by group, session or name: torchrun gives each worker a session of its own.

    Returns:
        Those that are still there after ``limit_s`` (stuck in the kernel), usually none.
    """
    began = time.monotonic()
    warned: set[int] = set()
    while True:
        collect()
        left = [process for process in tree(root) if process.state not in "ZX" and process.pid not in spare]
        elapsed = time.monotonic() - began
        if not left or elapsed > limit_s:
            return left
        for process in left:
            if elapsed >= grace_s:
                _send(process.pid, signal.SIGKILL)
            elif process.pid not in warned:
                warned.add(process.pid)
                _send(process.pid, signal.SIGTERM)
                _send(process.pid, signal.SIGCONT)
        time.sleep(0.01)


def collect() -> dict[int, int]:
    """Collect ended children, so that no zombie stays: pid to wait status."""
    ended = {}
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    except ChildProcessError:
        pass
    return ended


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass
