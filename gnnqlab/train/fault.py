"""Fault injection: a test hook that makes one rank die, hang or slow down at a chosen phase and epoch.

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
    """One fault, which occurs once.

    Args:
        kind: one of ``KINDS``.
        phase: name of the phase in which it occurs.
        epoch: epoch in which it occurs, or ``None`` for the first occurrence of the phase.
        delay: seconds after the phase began; for ``slow``, the duration of the extra work.
        stamp: file that receives the time of the fault (monotonic ns), to measure the detection latency.
        repeated: True if it occurs again in a restarted run; by default an existing ``stamp`` prevents it.
    """

    def __init__(
        self,
        *,
        kind: str,
        phase: str,
        epoch: int | None = None,
        delay: float = 0.0,
        stamp: Path | None = None,
        repeated: bool = False,
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"the kind of a fault must be one of {', '.join(KINDS)}, got {kind!r}")
        self.kind, self.phase, self.epoch, self.delay, self.stamp = kind, phase, epoch, delay, stamp
        self._struck = not repeated and stamp is not None and stamp.exists()

    @classmethod
    def from_environment(cls, rank: int, heartbeat: Path | None) -> "Fault | None":
        """Return the fault that ``GNNQLAB_FAULT`` sets for this rank, or ``None``."""
        text = os.environ.get("GNNQLAB_FAULT")
        if not text:
            return None
        fields = json.loads(text)
        if fields.get("rank", 0) != rank:
            return None
        return cls(
            kind=fields["kind"],
            phase=fields["phase"],
            epoch=fields.get("epoch"),
            delay=fields.get("delay", 0.0),
            stamp=None if heartbeat is None else heartbeat.with_name(f"fault-rank{rank}"),
            repeated=fields.get("repeated", False),
        )

    def inject(self, phase: str, epoch: int) -> None:
        """Inject the fault if this is its phase and epoch."""
        if self._struck or phase != self.phase or self.epoch not in (None, epoch):
            return
        self._struck = True  # first, because the fault may not return
        if self.delay and self.kind not in ("slow", "raise"):
            # A timer, so that the fault occurs in the middle of the phase and not at its start.
            threading.Timer(self.delay, self._act).start()
        else:
            if self.kind == "raise":
                time.sleep(self.delay)
            self._act()

    def _act(self) -> None:
        if self.stamp is not None:
            self.stamp.write_text(str(time.monotonic_ns()))  # first, because the process may not survive
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
                deadline_s = time.monotonic() + self.delay
                while time.monotonic() < deadline_s:  # use the CPU, as a slow rank does, instead of sleeping
                    pass
            case "sleep":
                time.sleep(1e6)
