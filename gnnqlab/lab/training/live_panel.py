"""A growing run on the screen: one line of words, a Stop button, one figure. All it knows is in the model."""

from __future__ import annotations

import html
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from gnnqlab.lab.figures.controls import PAGE, alert, make_access, tipped
from gnnqlab.lab.figures.figure_view import FigureView
from gnnqlab.lab.figures.updates import Updater
from gnnqlab.lab.training.live_model import LiveModel
from gnnqlab.lab.training.live_views import caption_of_live, draw_live, live_axes, live_values

__all__ = ["Pace", "LivePanel"]


class Pace:
    """Says when the next drawing is due, from what the drawings before have cost.

    Drawings may take a share of the time that passes. What is not used is saved up to a small credit, so that a view
    that has just opened moves at once; one drawing that cost much more than others delays the next by ``most_s`` at
    most.

    Args:
        share: processor time of drawings over time.
        credit_s: processor seconds that can be saved, given at the start.
        least_s: least seconds between two drawings.
        most_s: most seconds between two drawings.
        clock: seconds that never go back.

    Example:
        >>> pace = Pace(share=0.01, credit_s=0.05, least_s=1.0, most_s=10.0, clock=lambda: 0.0)
        >>> pace.after(0.04), pace.after(0.04), pace.after(9.0)
        (1.0, 3.0, 10.0)
    """

    def __init__(
        self,
        *,
        share: float,
        credit_s: float,
        least_s: float,
        most_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._share, self._most_credit_s = share, credit_s
        self._least_s, self._most_s = least_s, most_s
        self._clock = clock
        self._credit_s, self._counted_s = credit_s, clock()

    def after(self, cost_s: float) -> float:
        """Return after how many seconds the next drawing is due.

        Args:
            cost_s: processor seconds of the drawing that has just ended.
        """
        now = self._clock()
        earned_s = self._share * (now - self._counted_s)
        self._counted_s = now
        self._credit_s = min(self._credit_s + earned_s, self._most_credit_s) - cost_s
        # What this delay cannot make good is forgiven: it was one slow drawing, not the price of the next.
        self._credit_s = max(self._credit_s, -self._share * self._most_s)
        return min(max(self._least_s, -self._credit_s / self._share), self._most_s)

    def refill(self) -> None:
        """Give the credit of the start again, as when a page has just been opened."""
        self._credit_s, self._counted_s = self._most_credit_s, self._clock()


_STATUS_S = 0.5
"""Seconds between two looks at how the run stands (0.1 ms each)."""
_DRAW_S = _FIRST_S = 1.0
"""Least seconds between two drawings; seconds from the first figure to the next."""
_SHARE = 0.005
"""Of one processor's time that drawings may take; they come less often where they cost more."""
_CREDIT_S = 0.1
"""Processor seconds of the first drawings, which come every second."""
_PAUSE_S = 10.0
"""Most seconds between two drawings, whatever they cost: a view that stands still for longer seems broken."""
_RETRY_S = 5.0
_NICENESS = 5
_ALL = "mean of all workers"


class LivePanel:
    """Draws a model in a thread of its own, which ends with the run or when the panel is closed.

    Args:
        model: what reads the run.
    """

    def __init__(self, model: LiveModel) -> None:
        import ipywidgets as widgets

        self.model = model
        self.figure = FigureView(width=PAGE)
        self.updater = Updater(self.draw)
        self._lock = threading.RLock()
        self._closed = False
        self._pace = Pace(share=_SHARE, credit_s=_CREDIT_S, least_s=_DRAW_S, most_s=_PAUSE_S)
        self._due_s, self._thread = 0.0, 0
        self._trouble = ""
        self.words = widgets.HTML()
        self.stop = widgets.Button(
            description="Stop", icon="stop", tooltip="End the run and all its processes", layout={"width": "100px"}
        )
        self.stop.on_click(lambda button: self._in_background())
        self.worker = widgets.Dropdown(
            options=[(_ALL, -1), *((f"worker {rank}", rank) for rank in range(model.workers))], value=-1,
            description="Epochs of", tooltip="Whose epochs are broken down by phase",
            style={"description_width": "70px"}, layout={"width": "300px"},
        )  # fmt: skip
        self.worker.observe(lambda change: self._ask_anew(), names="value")
        self._score = ""
        self.access = make_access()
        self.access.observe(self._recolour, names="dark")
        self.access.observe(self._seen, names="shown")
        self.box = widgets.VBox(
            [self.words, widgets.HBox([self.stop, tipped(self.worker)]), self.figure.widget, self.access]
        )

    def open(self) -> None:
        """Show what the model has read so far, and follow the run from then on."""
        self._score = self.model.score
        self._redraw()
        self._say()
        self.updater.ask()

    def close(self) -> None:
        """Take the panel off the screen; its thread ends at its next look."""
        self._closed = True
        self.figure.close()
        self.box.close()

    # -- drawing --------------------------------------------------------------------------------------------------

    def draw(self) -> float | None:
        """Bring the screen up to date; returns when to look again, ``None`` if nothing will move any more."""
        if self._closed or self.box.comm is None:
            return None
        self._yield_to_workers()
        try:
            again = self._draw()
            self._trouble = ""
            return again
        except Exception as error:  # a thread has nobody else to tell; the next look may go well
            self._trouble = f"{type(error).__name__}: {error}"
            self._say()
            return _RETRY_S

    def _draw(self) -> float | None:
        news = self.model.look_at_status()
        if not self.access.shown:
            self._say()
            # Nobody sees it yet, or any more.
            return _STATUS_S if self.model.under_way else None
        first = False
        if not self.model.begun:  # words stand in place of the figure, and say what happens as it happens
            news |= self.model.poll()
            first = self.model.begun
        left_s = self._due_s - time.monotonic()
        if news or left_s <= 0:
            begun = time.thread_time()
            self.model.poll()
            self._show()
            self._due_s = time.monotonic() + self._pace.after(time.thread_time() - begun)
            if first:  # neither the words before it nor the making of all panels counts
                self._pace.refill()
                self._due_s = time.monotonic() + _FIRST_S
            return _STATUS_S if self.model.under_way else None
        self._say()
        return _STATUS_S if self.model.under_way else left_s

    def _show(self) -> None:
        with self._lock:
            values = live_values(self.model, worker=self._chosen)
            if not self.model.begun or len(values) != len(self.figure.data) or self.model.score != self._score:
                self._score = self.model.score
                self._redraw()
            else:
                caption, axes = caption_of_live(self.model), live_axes(self.model, worker=self._chosen)
                self.figure.change(values, caption=caption, axes=axes)
            self._say()

    def _redraw(self) -> None:
        """Draw all anew: another theme, or a panel more."""
        self.figure.show(draw_live(self.model, worker=self._chosen, dark=self.access.dark))

    @property
    def _chosen(self) -> int | None:
        return None if self.worker.value < 0 else int(self.worker.value)

    def _say(self) -> None:
        """Words and button."""
        standing = self.model.standing
        trouble = self._trouble or self.model.trouble
        words = f'<p role="status" style="max-width:70em;line-height:1.5">{html.escape(self.model.sentence)}</p>'
        if trouble:
            words += f"<p>{alert(trouble)}</p>"
        if self.words.value != words:
            self.words.value = words
        ended = not self.model.under_way and standing.state != "starting"
        if self.stop.disabled != ended:
            self.stop.disabled = ended

    def _recolour(self, change: Any) -> None:
        with self._lock:
            self._redraw()

    def _seen(self, change: Any) -> None:
        """Somebody looks again: show what has come meanwhile."""
        if change["new"]:
            self._pace.refill()
            self._ask_anew()

    def _ask_anew(self) -> None:
        self._due_s = 0.0
        self.updater.ask()

    def _in_background(self) -> None:
        """Stopping takes seconds; a callback returns at once."""

        def work() -> None:
            try:
                self.model.run.stop()
            except Exception as error:  # the reason belongs on the screen, whatever it is
                self._trouble = str(error)
            self._ask_anew()

        self.stop.disabled = True
        threading.Thread(target=work, name="gnnqlab stop", daemon=True).start()

    def _yield_to_workers(self) -> None:
        """Let this thread run when the workers leave a processor idle; on Linux each thread has a priority."""
        if threading.get_native_id() == self._thread:
            return
        self._thread = threading.get_native_id()
        try:
            os.setpriority(os.PRIO_PROCESS, self._thread, _NICENESS)
        except (AttributeError, OSError):
            pass
