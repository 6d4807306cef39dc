"""Faults on purpose: a test hook that makes one rank die, hang or slow down at a chosen phase and epoch.

The environment variable ``GNNQLAB_FAULT`` holds JSON, for instance
``{"kind": "kill", "rank": 1, "phase": "wait", "epoch": 3, "delay": 0.01}``. Nothing happens without it.
"""

import json
import os
import signal
import threading
import time
from pathlib import Path

__all__ = ["KINDS", "Fault"]

KINDS = ("kill", "stop", "segv", "exit", "raise", "slow", "sleep")
"""SIGKILL, SIGSTOP, SIGSEGV, exit with code 3, an exception, ``delay`` seconds of work, an endless sleep."""


class Fault:
    """One fault that strikes once.

    Args:
        kind: one of ``KINDS``.
        phase: name of the phase it strikes in.
        epoch: epoch it strikes in, or ``None`` for the first time the phase comes up.
        delay: seconds after the phase began; for ``slow``, how long the work takes.
        stamp: file that receives the moment of the fault (monotonic ns), to measure how soon it is noticed.
    """

    def __init__(
        self, *, kind: str, phase: str, epoch: int | None = None, delay: float = 0.0, stamp: Path | None = None
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"the kind of a fault must be one of {', '.join(KINDS)}, got {kind!r}")
        self.kind, self.phase, self.epoch, self.delay, self.stamp = kind, phase, epoch, delay, stamp
        self._struck = False

    @classmethod
    def from_environment(cls, rank: int, heartbeat: Path | None) -> "Fault | None":
        """The fault meant for this rank, or ``None``."""
        text = os.environ.get("GNNQLAB_FAULT")
        if not text:
            return None
        given = json.loads(text)
        if given.get("rank", 0) != rank:
            return None
        return cls(
            kind=given["kind"],
            phase=given["phase"],
            epoch=given.get("epoch"),
            delay=given.get("delay", 0.0),
            stamp=None if heartbeat is None else heartbeat.with_name(f"fault-rank{rank}"),
        )

    def strike(self, phase: str, epoch: int) -> None:
        """Do the deed if its time has come."""
        if self._struck or phase != self.phase or self.epoch not in (None, epoch):
            return
        self._struck = True
        if self.delay and self.kind not in ("slow", "raise"):
            threading.Timer(self.delay, self._act).start()  # the rank goes on into the middle of its phase
        else:
            if self.kind == "raise":
                time.sleep(self.delay)
            self._act()

    def _act(self) -> None:
        if self.stamp is not None:
            self.stamp.write_text(str(time.monotonic_ns()))
        match self.kind:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "segv":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "exit":
                os._exit(3)
            case "raise":
                raise ArithmeticError(f"a fault on purpose in phase {self.phase}")
            case "slow":
                until = time.monotonic() + self.delay
                while time.monotonic() < until:  # works, as a slow rank does, instead of sleeping
                    pass
            case "sleep":
                time.sleep(1e6)
