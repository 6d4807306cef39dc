"""One thread that draws: many may ask, and what was asked while it drew is drawn once."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Updater"]

_IDLE_S = 5.0


class Updater:
    """Calls a function in a thread of its own whenever it is asked to, and again after as long as that says.

    The thread ends when nobody has asked for some seconds, and starts anew when somebody does.

    Args:
        draw: returns after how many seconds it wants to be called again, or ``None``.
    """

    def __init__(self, draw: Callable[[], float | None]) -> None:
        self._draw = draw
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def asked(self) -> bool:
        """Whether somebody waits for another drawing."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Draw soon; returns at once."""
        with self._lock:
            self._asked.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="gnnqlab tuner", daemon=True)
                self._thread.start()

    def _loop(self) -> None:
        again: float | None = None
        while True:
            called = self._asked.wait(_IDLE_S if again is None else again)
            with self._lock:
                if not called and again is None and not self._asked.is_set():
                    self._thread = None
                    return
                self._asked.clear()
            again = self._draw()
