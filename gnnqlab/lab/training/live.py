"""``run.live()``: view of a run while it trains."""

from __future__ import annotations

import threading
import warnings
from contextlib import suppress
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any

from gnnqlab.errors import WorkerFailed
from gnnqlab.lab.figures.bundle import FigureData, fallback_for
from gnnqlab.lab.figures.controls import shows_static, static_requested
from gnnqlab.lab.training.live_model import LiveModel
from gnnqlab.lab.training.live_views import draw_live, live_frame
from gnnqlab.run.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.lab.training.live_panel import LivePanel

__all__ = ["LiveView"]


class LiveView:
    """Live view of a run: loss, scores, epoch time by phase, bits, bytes and staleness; with a Stop button.

    At the end of a notebook cell it shows the figure and follows the run until its end; without a kernel, the latest
    figure; with ``GNNQLAB_STATIC=1``, for notebooks that are saved with pictures, the figure of the ended run.
    It only reads the run's folder, so it can be created again, also after a kernel restart, and the run does not depend
    on it. In a ``with`` statement it is closed at the end of the block; the run continues.

    Args:
        run: a run that trains or has ended.

    Example:
        ``gq.runs()[-1].live()``
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.model = LiveModel(run)
        self._lock = threading.Lock()

    def poll(self) -> LiveView:
        """Read new records, and update the screen."""
        if "panel" in self.__dict__:
            self.panel.updater.request()
        else:
            with self._lock:
                self.model.poll()
        return self

    def look(self) -> LiveView:
        """Call :meth:`poll`, the present name, with a warning."""
        warnings.warn("LiveView.look is LiveView.poll now", DeprecationWarning, stacklevel=2)
        return self.poll()

    @property
    def status(self) -> str:
        """The run in one line, as last read: state, epoch, time left, loss, accuracy, cause of a failure."""
        return self.model.sentence

    def to_frame(self) -> DataFrame:
        """Return the numbers of a few epochs, always including the newest."""
        return live_frame(self.model)

    def show(self, *, worker: int | None = None, dark: bool = False) -> FigureData:
        """Return the current figure with its numbers.

        Args:
            worker: worker whose epochs are broken down by phase; the mean of all if not given.
            dark: colours for a dark page.

        Raises:
            ValueError: if there is no such worker.
        """
        if worker is not None and worker not in range(self.model.workers):
            raise ValueError(f"worker must be one of 0 to {self.model.workers - 1}, got {worker}")
        self.poll()
        return FigureData(draw_live(self.model, worker=worker, dark=dark), self.to_frame())

    def stop(self) -> None:
        """End the run and all its processes; nothing happens if it has ended already."""
        self.run.stop()
        self.poll()

    def close(self) -> None:
        """Close the view and end its thread; the run continues."""
        if "panel" in self.__dict__:
            self.panel.close()

    @cached_property
    def panel(self) -> LivePanel:
        """Status line, button and figure, created at first use."""
        from gnnqlab.lab.training.live_panel import LivePanel

        panel = LivePanel(self.model)  # first, because pages load Plotly from now on
        with self._lock:
            self.model.preview()
        panel.open()  # draws the preview; the next update reads all epochs
        return panel

    @property
    def widget(self) -> Any:
        """The view as an ipywidgets box."""
        return self.panel.box

    def __enter__(self) -> LiveView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LiveView of {self.model.sentence}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if static_requested():
            with suppress(WorkerFailed):  # the figure shows the failure
                self.run.wait()
        if shows_static():
            return self.show()._repr_mimebundle_()
        return fallback_for(self.widget, repr(self))
