"""Signals to the processes of a run: agent and workers forward them to the guard. Standard library only.

A queue, a user or a container runtime may send its signal to any process of a run, or to all at once. The guard alone
decides: it requests that all workers end after the present epoch, with a checkpoint (``launch/interruption.py``).
"""

import os
import signal
import threading

from gnnqlab.run import processes

__all__ = ["GRACEFUL", "GUARD", "STACKS", "forward_to_guard", "restore_in_children"]

GRACEFUL = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals after which a run ends with its present epoch."""
STACKS = signal.SIGRTMIN + 1
"""Signal at which a rank writes its stacks: a real-time signal, because queues send SIGUSR1 and SIGUSR2."""
GUARD = "GNNQLAB_GUARD"
"""Environment variable: ``PID:START`` of the guard, for agent and workers."""


def forward_to_guard() -> None:
    """Forward the signals of ``GRACEFUL`` from this process to its guard; do nothing without a guard.

    They are blocked and read by a thread, which also works while the main thread waits in C++, and which gets the
    sender: a signal from the guard or from torchrun, which end a worker in this way, has its default effect. Must be
    called before the process has other threads, because threads inherit the blocked signals.
    """
    guard = os.environ.get(GUARD)
    if guard is None:
        return
    pid, start = map(int, guard.split(":"))
    signal.pthread_sigmask(signal.SIG_BLOCK, GRACEFUL)
    senders = (pid, os.getppid())
    threading.Thread(target=_forward, args=(pid, start, senders), name="signals", daemon=True).start()


def restore_in_children() -> None:
    """Make the processes that this one forks from now on handle signals as usual.

    A child would inherit the blocked signals, so that the terminate() of a pool of processes had no effect.
    """
    os.register_at_fork(after_in_child=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, GRACEFUL))


def _forward(guard_pid: int, guard_start: int, enders: tuple[int, int]) -> None:
    while True:
        received = signal.sigwaitinfo(GRACEFUL)
        if received.si_pid in enders:
            # Only this thread receives the signal: it is blocked in all others.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, GRACEFUL)
            os.kill(os.getpid(), received.si_signo)
        elif processes.is_alive(guard_pid, guard_start):
            os.kill(guard_pid, received.si_signo)
