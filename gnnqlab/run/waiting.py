"""Signals and interrupts of a process that waits for its run. Standard library only."""

import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType

from gnnqlab.errors import RunInterrupted
from gnnqlab.run.guard_process import signal_guard

__all__ = ["WaitingSignals", "background_advice", "forward", "in_notebook"]

_NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_UNCHANGED = (signal.SIG_DFL, signal.default_int_handler)
"""Handlers of a program that handles no signals itself; it keeps its own ones, and ignored signals stay ignored."""
_REPEAT_S = 1.0
"""Time in which further signals belong to the first: GNU timeout, for instance, sends two."""


class WaitingSignals:
    """Context manager that collects the signals of this process while it waits for a run.

    Without it a signal would end this process, and the run with it, before its epoch is complete.

    Args:
        first: called by :meth:`follow` with the first signal.
        second: called by :meth:`follow` after another one.
        is_active: False to leave all signals as they are.
        clock: returns monotonic seconds.
    """

    def __init__(
        self,
        first: Callable[[int], None],
        second: Callable[[], object],
        *,
        is_active: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._first, self._second, self._clock = first, second, clock
        # Python sets handlers in the main thread only.
        self._is_active = is_active and threading.current_thread() is threading.main_thread()
        self._earlier: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self._received: list[tuple[int, float]] = []
        self._num_followed = 0

    @property
    def number(self) -> int | None:
        """The first signal, ``None`` without one."""
        return self._received[0][0] if self._received else None

    def follow(self) -> None:
        """Call ``first`` or ``second`` for signals received since the last call."""
        pending = self._received[self._num_followed :]
        for number, time_s in pending:
            self._num_followed += 1
            if self._num_followed == 1:
                self._first(number)
            elif time_s - self._received[0][1] >= _REPEAT_S:
                self._second()

    def raise_end(self, cause: str) -> None:
        """Raise the end of this program if a signal was received, which has ended the run.

        Args:
            cause: of the end of the run.
        """
        number = self.number
        if number == signal.SIGINT:
            raise KeyboardInterrupt(cause)
        if number is not None:
            print(f"gnnqlab: {cause}", file=sys.stderr, flush=True)  # Python prints nothing for a SystemExit
            raise RunInterrupted(number, cause)

    def __enter__(self) -> "WaitingSignals":
        for number in _NUMBERS if self._is_active else ():
            handler = signal.getsignal(number)
            if handler in _UNCHANGED:
                self._earlier[number] = handler
                signal.signal(number, self._receive)
        return self

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self._received.append((number, self._clock()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)


def in_notebook() -> bool:
    """Return True in the kernel of a notebook, False in a program that has only imported ipykernel."""
    module = sys.modules.get("ipykernel.kernelapp")
    return module is not None and bool(module.IPKernelApp.initialized())


def forward(folder: Path, number: int) -> None:
    """Forward a signal to the guard of a run, which ends the run after the present epoch, and print this."""
    print(
        f"{signal.Signals(number).name}: run {folder.name} ends after the present epoch, with a checkpoint; a second "
        "signal ends it at once",
        file=sys.stderr,
        flush=True,
    )
    signal_guard(folder, number)


def background_advice(folder: Path) -> str:
    """Return the text of an interrupt that has ended the waiting for a run, and not the run."""
    return (
        f"run {folder.name} goes on in the background; run.wait() attaches again, run.stop() ends it "
        f"(run = gq.Run({str(folder)!r}))"
    )
