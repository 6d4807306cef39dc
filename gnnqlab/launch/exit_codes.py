"""How the workers of torchrun ended, told by the process that collects them. Standard library only.

A worker is torchrun's child, and once torchrun has collected it only the newest kernels (Linux 6.15) still tell the
guard how it ended. So the agent says it, through a pipe, in the same moment: no disk lies between, and nothing of what
torchrun does next (it ends the other workers, and only then writes its log) has to be waited for.
"""

import os

__all__ = ["VARIABLE", "ExitCodes", "report_exit_codes"]

VARIABLE = "GNNQLAB_COLLECTED"
"""Environment variable: descriptor of the pipe's end that the agent writes to."""


class ExitCodes:
    """The guard's end of the pipe.

    Attributes:
        told: the other end, for the agent alone.
        ends: pid to wait status of what has been collected so far.
    """

    def __init__(self) -> None:
        self._reading, self.told = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.ends: dict[int, int] = {}
        self._begun = b""

    def read(self) -> dict[int, int]:
        """What is known by now."""
        try:
            while some := os.read(self._reading, 4096):
                self._begun += some
        except BlockingIOError:
            pass
        *lines, self._begun = self._begun.split(b"\n")
        self.ends.update((int(pid), int(status)) for pid, status in map(bytes.split, lines))
        return self.ends


def report_exit_codes() -> None:
    """Tell the guard of every child that this process collects from now on; nothing without a guard.

    To be called before :mod:`subprocess` is imported, which keeps the function that it collects with.
    """
    given = os.environ.pop(VARIABLE, None)
    if given is None:
        return
    descriptor, own, collect = int(given), os.getpid(), os.waitpid

    def waitpid(pid: int, options: int) -> tuple[int, int]:
        ended, status = collect(pid, options)
        if ended and os.getpid() == own:  # a forked worker's children are no workers
            try:
                os.write(descriptor, b"%d %d\n" % (ended, status))
            except OSError:  # the guard is gone, and this process with it
                pass
        return ended, status

    os.waitpid = waitpid
