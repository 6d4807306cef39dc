"""Processes of this machine, from ``/proc``: state, descendants and termination.

Standard library only (the guard uses it). A process is identified by its pid *and* its start time, so a pid that the
system has reused is never mistaken for the old process.
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
    "is_alive",
    "is_asleep",
    "become_subreaper",
    "collect",
    "die_with_parent",
    "end",
    "exit_status",
    "open_pidfd",
    "parse_pid_and_start",
    "place",
    "read",
    "received_bytes",
    "start_time",
    "tree",
]

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # of <linux/prctl.h>
_PIDFD_INFO = struct.Struct("<QQ11Ii")  # mask, cgroup, pids and user ids, exit code
# _IOWR(0xFF, 11, struct pidfd_info), of <linux/pidfd.h>
_PIDFD_GET_INFO = 3 << 30 | _PIDFD_INFO.size << 16 | 0xFF << 8 | 11
_PIDFD_INFO_EXIT = 1 << 3


class Process(NamedTuple):
    """Entries of ``/proc/PID/stat``; ``cpu`` and ``start`` in clock ticks, ``code`` only for an ended process."""

    pid: int
    state: str
    parent: int
    cpu: int
    start: int
    code: int


def read(pid: int) -> Process | None:
    """Return the ``/proc`` entries of a process, or ``None`` if it does not exist."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # the name before may contain spaces and brackets
    except OSError:
        return None
    return Process(
        pid,
        fields[0].decode(),
        int(fields[1]),
        int(fields[11]) + int(fields[12]),  # in user and in kernel mode
        int(fields[19]),
        int(fields[49]) if len(fields) > 49 else 0,  # exit_code, the last field
    )


def received_bytes(pid: int) -> int | None:
    """Return the bytes received by the emulated host of a process over its link; ``None`` for other processes."""
    try:
        if os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:  # no emulated host
            return None
        with open(f"/proc/{pid}/net/dev") as file:
            lines = file.readlines()[2:]  # after two lines of headings
    except OSError:
        return None
    interfaces = (line.partition(":") for line in lines)
    return sum(int(numbers.split()[0]) for name, _, numbers in interfaces if name.strip() != "lo")


def start_time(pid: int) -> int:
    """Return the start time in clock ticks since boot, 0 if there is no such process."""
    process = read(pid)
    return process.start if process else 0


def parse_pid_and_start(text: str) -> tuple[int, int]:
    """Return the pid and the start time in a text ``PID:START``.

    Example:
        >>> parse_pid_and_start("17:2301")
        (17, 2301)
    """
    pid, start = map(int, text.split(":"))
    return pid, start


def is_alive(pid: int, start: int) -> bool:
    """Return True if exactly this process still runs; a zombie does not."""
    process = read(pid)
    return process is not None and process.start == start and process.state not in "ZX"


def is_asleep(pid: int, start: int) -> bool:
    """Return True if exactly this process lives and all its threads sleep."""
    process = read(pid)
    if process is None or process.start != start:
        return False
    try:
        threads = [read(int(name)) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return False
    # D: sleeps until a device has answered. A thread that has just ended (None) means that the process is working.
    return all(thread is not None and thread.state in "SD" for thread in threads)


def open_pidfd(pid: int, start: int) -> int | None:
    """Return a descriptor that becomes readable when exactly this process ends; ``None`` if not supported."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    if is_alive(pid, start):  # checked after opening: if the pid was reused before, the start time differs
        return descriptor
    os.close(descriptor)
    return None


def exit_status(pid: int, start: int, pidfd: int | None) -> int | None:
    """Return the wait status of an ended process, also of another's child, even if it was reaped (Linux 6.15)."""
    process = read(pid)
    if process is not None and process.start == start and process.state == "Z":
        return process.code
    if pidfd is None:
        return None
    try:
        request = _PIDFD_INFO.pack(_PIDFD_INFO_EXIT, *([0] * 13))
        mask, *_, code = _PIDFD_INFO.unpack(fcntl.ioctl(pidfd, _PIDFD_GET_INFO, request))
    except OSError:
        return None
    return int(code) if mask & _PIDFD_INFO_EXIT else None


def tree(root: int) -> list[Process]:
    """Return all living descendants of a process, parents before children."""
    children: dict[int, list[Process]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (process := read(int(name))) is not None:
            children.setdefault(process.parent, []).append(process)
    descendants: list[Process] = []
    pending_pids = [root]
    while pending_pids:
        for child in children.get(pending_pids.pop(), []):
            pending_pids.append(child.pid)
            descendants.append(child)
    return descendants


def place() -> dict[str, str]:
    """Return host, boot and pid namespace: pids are comparable only if these are equal."""
    identity = {"host": os.uname().nodename}
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            identity["boot"] = file.read().strip()
        identity["pids"] = os.readlink("/proc/self/ns/pid")
    except OSError:
        pass
    return identity


def become_subreaper() -> None:
    """Make orphaned descendants children of this process instead of process 1."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Make the kernel end this process with SIGKILL as soon as the thread that started it has ended."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise RuntimeError(f"prctl({option}) must be allowed, got errno {number}: {os.strerror(number)}")


def end(root: int, *, grace_s: float, limit_s: float = 10.0, spare: Collection[int] = ()) -> list[Process]:
    """End every descendant of ``root`` except ``spare``: first with SIGTERM, then with SIGKILL, until none is left.

    Descendants are found by parent, not by group or session, because torchrun gives each worker its own session.

    Returns:
        Processes that still exist after ``limit_s`` (blocked in the kernel), usually none.
    """
    start_s = time.monotonic()
    warned_pids: set[int] = set()
    while True:
        # Searched again in every round, because a process can start others until it ends.
        collect()
        survivors = [process for process in tree(root) if process.state not in "ZX" and process.pid not in spare]
        elapsed = time.monotonic() - start_s
        if not survivors or elapsed > limit_s:
            return survivors
        for process in survivors:
            if elapsed >= grace_s:
                _send(process.pid, signal.SIGKILL)
            elif process.pid not in warned_pids:
                warned_pids.add(process.pid)
                _send(process.pid, signal.SIGTERM)
                _send(process.pid, signal.SIGCONT)  # a stopped process cannot handle SIGTERM
        time.sleep(0.01)


def collect() -> dict[int, int]:
    """Reap ended children, so that no zombie remains; return pid -> wait status."""
    statuses = {}
    try:
        while (result := os.waitpid(-1, os.WNOHANG))[0]:  # 0: children remain, but none has ended
            statuses[result[0]] = result[1]
    except ChildProcessError:  # no children left
        pass
    return statuses


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # it has ended, and its pid may be in use again
        pass
