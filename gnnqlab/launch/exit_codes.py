"""Exit statuses of torchrun's workers, reported to the guard through a pipe. Standard library only.

A worker is torchrun's child, and once torchrun has reaped it only the newest kernels (Linux 6.15) still give the guard
its exit status. So the agent writes it to a pipe at the same moment: this needs no disk, and the guard need not wait
for torchrun's next steps (it ends the other workers, and only then writes its log).
"""

import os

__all__ = ["VARIABLE", "ExitCodes", "report_exit_codes"]

VARIABLE = "GNNQLAB_COLLECTED"
"""Environment variable: file descriptor of the pipe's write end, for the agent."""


class ExitCodes:
    """Pipe with the exit statuses: the guard reads, the agent writes."""

    def __init__(self) -> None:
        # Not blocking: the guard polls, and a full pipe must not stop the agent.
        self._reading, self.write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        """File descriptors: the read end, and the write end, which only the agent inherits."""
        self.ends: dict[int, int] = {}
        """Pid -> wait status of the processes reaped so far."""
        self._partial = b""

    def read(self) -> dict[int, int]:
        """Return the wait statuses received so far, by pid."""
        try:
            while piece := os.read(self._reading, 4096):
                self._partial += piece
        except BlockingIOError:
            pass
        *lines, self._partial = self._partial.split(b"\n")  # the last line may be incomplete
        self.ends.update((int(pid), int(status)) for pid, status in map(bytes.split, lines))
        return self.ends


def report_exit_codes() -> None:
    """Report every child that this process reaps from now on to the guard; do nothing without a guard.

    Must be called before :mod:`subprocess` is imported, which stores its own reference to ``os.waitpid``.
    """
    value = os.environ.pop(VARIABLE, None)
    if value is None:
        return
    descriptor, own_pid, collect = int(value), os.getpid(), os.waitpid

    def waitpid(pid: int, options: int) -> tuple[int, int]:
        child, status = collect(pid, options)
        # Below PIPE_BUF bytes a write to a pipe is never divided.
        if child and os.getpid() == own_pid:  # not in a forked worker, whose children are not workers
            try:
                os.write(descriptor, b"%d %d\n" % (child, status))
            except OSError:  # the guard is gone, and this process with it
                pass
        return child, status

    os.waitpid = waitpid
