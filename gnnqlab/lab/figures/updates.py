"""Background thread that draws on request; requests during a drawing are merged into one."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Updater"]

_IDLE_S = 5.0


class Updater:
    """Thread that calls a function on request, and again after the delay that the call returned.

    The thread ends after a few seconds without a request; the next request starts another one.

    Args:
        draw: function that returns the seconds until its next call, or ``None`` to wait for a request.
    """

    def __init__(self, draw: Callable[[], float | None]) -> None:
        self._draw = draw
        self._requested = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def is_requested(self) -> bool:
        """True while a requested drawing has not begun."""
        return self._requested.is_set()

    def request(self) -> None:
        """Request a drawing and return at once."""
        with self._lock:
            self._requested.set()
            if self._thread is None:  # none yet, or the last one ended while idle
                self._thread = threading.Thread(target=self._loop, name="gnnqlab tuner", daemon=True)
                self._thread.start()

    def _loop(self) -> None:
        delay_s: float | None = None
        while True:
            is_requested = self._requested.wait(_IDLE_S if delay_s is None else delay_s)
            with self._lock:
                # Checked again under the lock, because a request may have come in after the wait timed out.
                if not is_requested and delay_s is None and not self._requested.is_set():
                    self._thread = None
                    return
                self._requested.clear()  # before drawing: a request from now on causes another drawing
            delay_s = self._draw()
