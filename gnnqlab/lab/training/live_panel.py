"""Panel of the live view: a status line, a Stop button and one figure. Its state is in the model."""

from __future__ import annotations

import html
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from gnnqlab.lab.figures.controls import PAGE, alert, make_access, row_with_tip
from gnnqlab.lab.figures.figure_view import FigureView
from gnnqlab.lab.figures.updates import Updater
from gnnqlab.lab.training.live_model import LiveModel
from gnnqlab.lab.training.live_views import caption_of_live, draw_live, live_axes, live_values

__all__ = ["Pace", "LivePanel"]


class Pace:
    """Rate limiter of drawings, a token bucket in processor seconds.

    Drawings may use a share of the elapsed time. Unused time is saved up to a small credit, so that a new view moves at
    once; a drawing that cost much more than others delays the next one by ``most_s`` at most.

    Args:
        share: processor time of drawings over elapsed time.
        credit_s: processor seconds that can be saved, and that are available at the start.
        least_s: minimum seconds between two drawings.
        most_s: maximum seconds between two drawings.
        clock: monotonic clock in seconds.

    Example:
        >>> pace = Pace(share=0.01, credit_s=0.05, least_s=1.0, most_s=10.0, clock=lambda: 0.0)
        >>> pace.delay_s(0.04), pace.delay_s(0.04), pace.delay_s(9.0)
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

    def delay_s(self, cost_s: float) -> float:
        """Return the seconds until the next drawing.

        Args:
            cost_s: processor seconds of the drawing that has just ended.
        """
        now_s = self._clock()
        earned_s = self._share * (now_s - self._counted_s)  # the bucket fills at a constant rate
        self._counted_s = now_s
        self._credit_s = min(self._credit_s + earned_s, self._most_credit_s) - cost_s
        # Debt beyond the longest delay is dropped: it is due to one slow drawing, not to the cost of the next ones.
        self._credit_s = max(self._credit_s, -self._share * self._most_s)
        return min(max(self._least_s, -self._credit_s / self._share), self._most_s)  # time until the debt is paid

    def refill(self) -> None:
        """Restore the credit of the start, as for a page that was just opened."""
        self._credit_s, self._counted_s = self._most_credit_s, self._clock()


_STATUS_S = 0.5
"""Seconds between two readings of the run's status (0.1 ms each)."""
_DRAW_S = _FIRST_S = 1.0
"""Minimum seconds between two drawings; seconds from the first figure to the next."""
_SHARE = 0.005
"""Share of one processor's time for drawings; expensive drawings are less frequent."""
_CREDIT_S = 0.1
"""Processor seconds of the first drawings, one per second."""
_PAUSE_S = 10.0
"""Maximum seconds between two drawings, whatever they cost; a view without changes for longer seems broken."""
_RETRY_S = 5.0
_NICENESS = 5
_ALL = "mean of all workers"


class LivePanel:
    """Panel that draws a model in a thread of its own, which ends with the run or when the panel is closed.

    Args:
        model: model that reads the run.
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
            description="Epochs of", tooltip="Worker whose epochs are broken down by phase",
            style={"description_width": "70px"}, layout={"width": "300px"},
        )  # fmt: skip
        self.worker.observe(lambda change: self._request(), names="value")
        self._score = ""
        self.access = make_access()
        self.access.observe(self._recolour, names="dark")
        self.access.observe(self._show_again, names="shown")
        self.box = widgets.VBox(
            [self.words, widgets.HBox([self.stop, row_with_tip(self.worker)]), self.figure.widget, self.access]
        )

    def open(self) -> None:
        """Draw the model's current state, and follow the run from then on."""
        self._score = self.model.score
        self._redraw()
        self._update_words()
        self.updater.request()

    def close(self) -> None:
        """Remove the panel from the screen; its thread ends at its next update."""
        self._closed = True
        self.figure.close()
        self.box.close()

    # -- drawing --------------------------------------------------------------------------------------------------

    def draw(self) -> float | None:
        """Update the screen; return the seconds until the next update, ``None`` if nothing changes any more."""
        if self._closed or self.box.comm is None:  # ended, or closed on the page
            return None
        self._yield_to_workers()
        try:
            delay_s = self._draw()
            self._trouble = ""
            return delay_s
        except Exception as error:  # no caller sees a thread's error; the next update may succeed
            self._trouble = f"{type(error).__name__}: {error}"
            self._update_words()
            return _RETRY_S

    def _draw(self) -> float | None:
        has_changed = self.model.poll_status()
        if not self.access.shown:  # no page shows the panel, so the figure is not drawn
            self._update_words()
            return _STATUS_S if self.model.under_way else None
        is_first_figure = False
        if not self.model.has_epochs:  # before the first epoch words replace the figure, and follow every change
            has_changed |= self.model.poll()
            is_first_figure = self.model.has_epochs
        left_s = self._due_s - time.monotonic()
        if has_changed or left_s <= 0:
            start_s = time.thread_time()
            self.model.poll()
            self._show()
            self._due_s = time.monotonic() + self._pace.delay_s(time.thread_time() - start_s)
            if is_first_figure:  # the words before and the creation of all panels are not charged
                self._pace.refill()
                self._due_s = time.monotonic() + _FIRST_S
            return _STATUS_S if self.model.under_way else None
        self._update_words()
        return _STATUS_S if self.model.under_way else left_s

    def _show(self) -> None:
        with self._lock:
            values = live_values(self.model, worker=self._selected_worker)
            if not self.model.has_epochs or len(values) != len(self.figure.data) or self.model.score != self._score:
                self._score = self.model.score
                self._redraw()
            else:
                caption, axes = caption_of_live(self.model), live_axes(self.model, worker=self._selected_worker)
                self.figure.change(values, caption=caption, axes=axes)
            self._update_words()

    def _redraw(self) -> None:
        """Draw the whole figure again, for another theme or a further panel."""
        self.figure.show(draw_live(self.model, worker=self._selected_worker, dark=self.access.dark))

    @property
    def _selected_worker(self) -> int | None:
        return None if self.worker.value < 0 else int(self.worker.value)

    def _update_words(self) -> None:
        """Update the status line and the Stop button."""
        status = self.model.status
        trouble = self._trouble or self.model.trouble
        words = f'<p role="status" style="max-width:70em;line-height:1.5">{html.escape(self.model.sentence)}</p>'
        if trouble:
            words += f"<p>{alert(trouble)}</p>"
        if self.words.value != words:
            self.words.value = words
        has_ended = not self.model.under_way and status.state != "starting"
        if self.stop.disabled != has_ended:
            self.stop.disabled = has_ended

    def _recolour(self, change: Any) -> None:
        with self._lock:
            self._redraw()

    def _show_again(self, change: Any) -> None:
        """Draw at once when a page shows the panel again."""
        if change["new"]:
            self._pace.refill()
            self._request()

    def _request(self) -> None:
        self._due_s = 0.0
        self.updater.request()

    def _in_background(self) -> None:
        """Stop the run in a thread, which takes seconds; a callback must return at once."""

        def work() -> None:
            try:
                self.model.run.stop()
            except Exception as error:  # any reason is shown on the screen
                self._trouble = str(error)
            self._request()

        self.stop.disabled = True
        threading.Thread(target=work, name="gnnqlab stop", daemon=True).start()

    def _yield_to_workers(self) -> None:
        """Lower this thread's priority below that of the workers; on Linux each thread has its own."""
        if threading.get_native_id() == self._thread:
            return
        self._thread = threading.get_native_id()
        try:
            os.setpriority(os.PRIO_PROCESS, self._thread, _NICENESS)
        except (AttributeError, OSError):
            pass
