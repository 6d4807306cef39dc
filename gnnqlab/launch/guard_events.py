"""Events that a guard waits for: signals, and ends of the launching process and of workers. Standard library only."""

import os
import select
import signal
from collections.abc import Callable

from gnnqlab.launch.signals import GRACEFUL
from gnnqlab.run import processes

__all__ = ["GuardEvents"]


class GuardEvents:
    """Wait for the next event, or for the next poll of the ranks.

    Args:
        launcher: pid and start time of the process whose end ends the run, if any.
        watch_stdin: True if the end of standard input is the end of that process.
    """

    def __init__(self, *, launcher: tuple[int, int] | None, watch_stdin: bool) -> None:
        self._launcher, self._watch_stdin = launcher, watch_stdin
        self._poll = select.poll()
        self._wake = -1

    def catch_signals(self, receive: Callable[[int], None]) -> None:
        """Call ``receive`` with every signal from now on."""
        self._wake, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)  # a signal writes a byte, which ends the poll
        self._poll.register(self._wake, select.POLLIN)
        if self._watch_stdin:
            self._poll.register(0, select.POLLIN)
        for number in GRACEFUL:
            signal.signal(number, lambda received, _frame: receive(received))
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a signal without a handler would not end the poll

    def watch_launcher(self) -> None:
        """End a wait at the moment in which the launching process ends."""
        if self._launcher is not None:
            self.wake_at(processes.open_pidfd(*self._launcher))

    def wake_at(self, pidfd: int | None) -> None:
        """End a wait when a process ends; without a pidfd its end is detected at the next poll."""
        if pidfd is not None:
            self._poll.register(pidfd, select.POLLIN)

    def wait(self, seconds: float) -> None:
        """Return after an event, at the latest after these seconds."""
        for descriptor, _ in self._poll.poll(seconds * 1000):
            if descriptor == self._wake:
                os.read(self._wake, 64)
            elif descriptor != 0:
                self._poll.unregister(descriptor)  # the pidfd of a dead process would stay readable and end every poll

    def launcher_has_ended(self) -> bool:
        """Return True if the process whose end ends the run has ended."""
        if self._launcher is not None and not processes.is_alive(*self._launcher):
            return True
        if not self._watch_stdin:
            return False
        probe = select.poll()
        probe.register(0, select.POLLIN)
        # POLLHUP: the write end is closed, because the launching process has ended.
        return any(event & (select.POLLHUP | select.POLLERR) for _, event in probe.poll(0))
