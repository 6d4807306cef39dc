"""``gq.runs()`` on a page: all runs of a folder, to look through, compare, follow, go on with and delete.

Runs that have ended are read once; what takes long has a thread of its own.
"""

from __future__ import annotations

import dataclasses
import html
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from gnnqlab.lab.figures.bundle import FigureData, caption_of, fallback_for, table_html
from gnnqlab.lab.figures.controls import PAGE, TABLE, alert, make_access, shows_static
from gnnqlab.lab.figures.figure_view import FigureView
from gnnqlab.lab.figures.frames import human_bytes
from gnnqlab.lab.listing.front_view import draw_front
from gnnqlab.lab.listing.run_rows import Row, grouped, run_row, told
from gnnqlab.lab.listing.run_table import RunTable, rows_html
from gnnqlab.lab.training.compare import compare
from gnnqlab.lab.training.sweep import OUTCOMES, Sweep
from gnnqlab.lab.training.sweep_views import draw_mattered, draw_parallel

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.lab.figures.bundle import FigureData
    from gnnqlab.run.run import Run

__all__ = ["RunPanel", "RunBrowser"]


_TICK = "tick a run in the table first"


class RunPanel:
    """Shows a browser's rows and does what its buttons say, one thing at a time.

    Args:
        browser: whose runs they are.
    """

    def __init__(self, browser: RunBrowser) -> None:
        import ipywidgets as widgets

        self.browser = browser
        self.table = RunTable(browser.rows)
        self.table.observe(self._chosen)
        self.figure = FigureView(width=PAGE)
        self.words, self.result = widgets.HTML(), widgets.HTML().add_class(TABLE)
        self._dark_figure: Callable[[bool], Any] | None = None
        self._doomed: tuple[str, ...] = ()
        self._live: Any = None
        self._busy = threading.Lock()
        self.buttons: dict[str, Any] = {}
        for name, icon, act, tip in (
            ("Compare", "table", self._compare, "Ticked runs side by side, the pinned one first"),
            (
                "Front", "line-chart", self._front,
                "Score over total time of ticked runs, seeds together; of all if none is ticked",
            ),
            (
                "Sweep", "random", self._sweep,
                "A line a run through settings that differ, total time, bytes and score; of all if none is ticked",
            ),
            (
                "Mattered", "bar-chart", self._mattered,
                "Which setting explains most of score, time and bytes; of all runs if none is ticked",
            ),
            ("Live", "eye", self._follow, "Follow the one that is ticked"),
            ("Resume", "play", self._resume, "Go on from the newest checkpoint of the one that is ticked"),
            ("Delete", "trash", self._delete, "Remove ticked runs from the disk, once it is pressed again"),
            ("Refresh", "refresh", self._refresh, "Read the folder again"),
        ):  # fmt: skip
            button = widgets.Button(description=name, icon=icon, tooltip=tip, layout={"width": "120px"})
            button.on_click(lambda button, act=act: self._do(act))
            self.buttons[name] = button
        self.access = make_access()
        self.access.observe(lambda change: self._recolour(), names="dark")
        self.place = widgets.VBox([])
        row = widgets.HBox(list(self.buttons.values()), layout={"flex_flow": "row wrap", "margin": "6px 0 0"})
        self.box = widgets.VBox([self.table.widget, row, self.words, self.place, self.access])
        self._say(f"{len(browser.runs)} run(s), {human_bytes(browser.size)} on disk")

    def close(self) -> None:
        """Take the panel off the screen."""
        self._let_go()
        self.figure.close()
        self.table.close()
        self.box.close()

    # -- what buttons do ------------------------------------------------------------------------------------------

    def _do(self, act: Callable[[], str]) -> None:
        """Do one thing in a thread of its own, and say what came of it; another at the same time is not begun."""

        def work() -> None:
            try:
                self._say(act())
            except Exception as error:  # whatever it is, it belongs on the screen
                self._say(str(error) or type(error).__name__, trouble=True)
            finally:
                self._busy.release()

        if self._busy.acquire(blocking=False):
            threading.Thread(target=work, name="gnnqlab runs", daemon=True).start()

    def _compare(self) -> str:
        self._let_go()
        names = self._ticked()
        first = [name for name in (self.table.pinned,) if name]
        runs = [self.browser.runs[name] for name in dict.fromkeys([*first, *names])]
        compared = compare(runs)
        self.result.value = compared._repr_mimebundle_()["text/html"]
        self._draw(lambda dark: compared.convergence(dark=dark).figure)
        self._put([self.result, self.figure.widget])
        return f"{len(runs)} runs beside {runs[0].id}"

    def _front(self) -> str:
        self._let_go()
        names = self.table.ticked
        groups = self.browser.groups(names)
        self._draw(lambda dark: self.browser.front(names, dark=dark).figure)
        self.result.value = table_html(told(groups), caption="Seeds together, means with 95 % intervals")
        self._put([self.figure.widget, self.result])
        return f"{len(groups)} settings, {int(groups['seeds'].sum())} trainings"

    def _sweep(self) -> str:
        return self._told(self.browser.parallel, "Runs, their settings, and what they came to")

    def _mattered(self) -> str:
        return self._told(self.browser.mattered, "Share of the variance between runs that each setting explains")

    def _follow(self) -> str:
        run = self._one()
        self._let_go()
        self._live = run.live()
        self._put([self._live.widget])
        return f"{run.id}, as it goes"

    def _resume(self) -> str:
        resumed = self._one().resume()
        self.browser.add(resumed)
        self._refresh()
        return f"goes on as {resumed.id}"

    def _delete(self) -> str:
        """Two steps: what would go is said first."""
        from gnnqlab.run.disk_usage import delete_run

        names = tuple(self._ticked())
        if names != self._doomed:
            size = sum(row.size for row in self.browser.rows if row.id in names)
            self._doomed = names
            return f"{len(names)} run(s), {human_bytes(size)}, would be removed for good: press Delete again"
        self._doomed, freed = (), 0
        try:
            for name in names:
                freed += delete_run(self.browser.runs[name])
                self.browser.forget(name)
        finally:  # where one is refused, those before it are gone all the same
            self._refresh()
        return f"{len(names)} run(s) deleted, {human_bytes(freed)} freed"

    def _refresh(self) -> str:
        self.table.show(self.browser.rows)
        return f"{len(self.browser.runs)} run(s), {human_bytes(self.browser.size)} on disk"

    # -- inside ---------------------------------------------------------------------------------------------------

    def _chosen(self) -> None:
        """Whoever ticks others has not confirmed their removal."""
        if tuple(self.table.ticked) != self._doomed:
            self._doomed = ()

    def _ticked(self) -> list[str]:
        names = [name for name in self.table.ticked if name in self.browser.runs]
        if not names:
            raise ValueError(_TICK)
        return names

    def _one(self) -> Run:
        names = self._ticked()
        if len(names) > 1:
            raise ValueError(f"tick one run, got {len(names)}")
        return self.browser.runs[names[0]]

    def _put(self, children: list[Any]) -> None:
        self.place.children = tuple(children)

    def _draw(self, figure: Callable[[bool], Any]) -> None:
        self._dark_figure = figure
        self.figure.show(figure(self.access.dark))

    def _recolour(self) -> None:
        if self._dark_figure is not None:
            self.figure.show(self._dark_figure(self.access.dark))

    def _told(self, draw: Callable[..., FigureData], title: str) -> str:
        """Show a figure of the ticked runs, or of all, with its table; what it says is said."""
        self._let_go()
        names = self.table.ticked
        bundle = draw(names)
        self._draw(lambda dark: draw(names, dark=dark).figure)
        self.result.value = table_html(bundle.frame, caption=title)
        self._put([self.figure.widget, self.result])
        return caption_of(bundle.figure)

    def _let_go(self) -> None:
        if self._live is not None:
            self._live.close()
            self._live = None

    def _say(self, words: str, *, trouble: bool = False) -> None:
        self.words.value = f"<p>{alert(words)}</p>" if trouble else f'<p role="status">{html.escape(words)}</p>'


class RunBrowser:
    """All runs of a folder in a table to sort, filter and tick, with what can be done to those that are ticked.

    At the end of a notebook cell it shows the table: a click on a column sorts, words filter, a pinned run is what
    others are compared with; *Compare*, *Front*, *Sweep*, *Mattered*, *Live*, *Resume* and *Delete* act on ticked ones.
    Where no kernel runs, the table stays as it was.

    Args:
        runs: handles, as ``gq.runs()`` returns them.

    Example:
        ``gq.runs()`` at the end of a cell, or ``gq.runs("elsewhere").browse().front()``
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = {run.id: run for run in runs}
        self._known: dict[str, Row] = {}

    @property
    def rows(self) -> list[Row]:
        """A row a run, the newest first; those that have ended are read once."""
        for name, run in self.runs.items():
            known = self._known.get(name)
            if known is None or known.status not in ("finished", "stopped", "failed"):
                self._known[name] = run_row(run)
        return [self._known[name] for name in reversed(self.runs)]

    @property
    def size(self) -> int:
        """Bytes that all of them take on disk."""
        return sum(row.size for row in self.rows)

    def to_frame(self) -> DataFrame:
        """Return the rows as a table, index ``id``."""
        import pandas as pd

        names = [field.name for field in dataclasses.fields(Row)]
        table = pd.DataFrame([dataclasses.asdict(row) for row in self.rows], columns=names)
        return table.drop(columns=["group", "curve", "settings"]).set_index("id")

    def groups(self, names: Sequence[str] = ()) -> DataFrame:
        """Return finished runs with seeds together, means with 95 % intervals; see :func:`grouped`.

        Args:
            names: of the runs to look at; all if not given.
        """
        chosen = set(names) or set(self.runs)
        return grouped([row for row in reversed(self.rows) if row.id in chosen])

    def front(
        self, names: Sequence[str] = (), *, cost: Literal["train_s", "bytes_sent"] = "train_s", dark: bool = False
    ) -> FigureData:
        """Draw the score of settings over total time or bytes of an epoch, seeds together; see :func:`draw_front`.

        Args:
            names: of the runs to draw; all if not given.
            cost: ``train_s`` or ``bytes_sent``.
            dark: colours for a dark page.

        Raises:
            ValueError: if none has finished, or they are of several graphs.
        """
        return draw_front(self.groups(names), cost=cost, dark=dark)

    def sweep(self, names: Sequence[str] = ()) -> Sweep:
        """Return finished runs by the settings in which they differ, and what each came to.

        Args:
            names: of the runs to look at; all if not given.

        Raises:
            ValueError: if fewer than two have finished, or they differ in their seed at most.
        """
        chosen = set(names) or set(self.runs)
        rows = [row for row in reversed(self.rows) if row.id in chosen and row.status == "finished"]
        outcomes = [{name: getattr(row, name) for name in OUTCOMES} for row in rows]
        return Sweep([row.settings for row in rows], outcomes, [row.id for row in rows])

    def parallel(self, names: Sequence[str] = (), *, dark: bool = False) -> FigureData:
        """Draw a line a run through settings that differ, total time, bytes and score; see :func:`draw_parallel`.

        Args:
            names: of the runs to draw; all if not given.
            dark: colours for a dark page.

        Raises:
            ValueError: if fewer than two have finished, or they differ in their seed at most.
        """
        return draw_parallel(self.sweep(names), dark=dark)

    def mattered(self, names: Sequence[str] = (), *, dark: bool = False) -> FigureData:
        """Draw which share of the variance of score, time and bytes each setting explains; see :func:`draw_mattered`.

        Args:
            names: of the runs to look at; all if not given.
            dark: colours for a dark page.

        Raises:
            ValueError: if fewer than four have finished, or every setting is another in each.
        """
        return draw_mattered(self.sweep(names), dark=dark)

    def forget(self, name: str) -> None:
        """Take a run off the list; its folder stays as it is."""
        self.runs.pop(name, None)
        self._known.pop(name, None)

    def add(self, run: Run) -> None:
        """Put a run on the list, the newest."""
        self.runs[run.id] = run

    @cached_property
    def panel(self) -> RunPanel:
        """Table, buttons and what they show."""
        return RunPanel(self)

    @property
    def widget(self) -> Any:
        """The browser as an ipywidgets box."""
        return self.panel.box

    def close(self) -> None:
        """Take it off the screen; runs go on."""
        if "panel" in self.__dict__:
            self.panel.close()

    def __repr__(self) -> str:
        return f"<RunBrowser of {len(self.runs)} run(s), {human_bytes(self.size)} on disk>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if shows_static():
            return {"text/plain": repr(self), "text/html": rows_html(self.rows)}
        return fallback_for(self.widget, repr(self), table=rows_html(self.rows))
