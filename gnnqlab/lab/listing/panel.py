"""The run browser on the screen: table, buttons, and below them what was asked for. What takes long has a thread."""

from __future__ import annotations

import html
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.bundle import caption_of, table_html
from gnnqlab.lab.figures.controls import PAGE, TABLE, alert, make_access
from gnnqlab.lab.figures.figure_view import FigureView
from gnnqlab.lab.figures.frames import human_bytes
from gnnqlab.lab.listing.run_rows import told
from gnnqlab.lab.listing.run_table import RunTable
from gnnqlab.lab.training.compare import compare

if TYPE_CHECKING:
    from gnnqlab.lab.figures.bundle import Bundle
    from gnnqlab.lab.listing.run_list import RunList
    from gnnqlab.run.run import Run

__all__ = ["RunPanel"]

_TICK = "tick a run in the table first"


class RunPanel:
    """Shows a browser's rows and does what its buttons say, one thing at a time.

    Args:
        browser: whose runs they are.
    """

    def __init__(self, browser: RunList) -> None:
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
        self.buttons = {
            name: widgets.Button(description=name, icon=icon, tooltip=tip, layout={"width": "120px"})
            for name, icon, tip in (
                ("Compare", "table", "Ticked runs side by side, the pinned one first"),
                (
                    "Front",
                    "line-chart",
                    "Score over total time of ticked runs, seeds together; of all if none is ticked",
                ),
                (
                    "Sweep",
                    "random",
                    "A line a run through settings that differ, total time, bytes and score; of all if none is ticked",
                ),
                (
                    "Mattered",
                    "bar-chart",
                    "Which setting explains most of score, time and bytes; of all runs if none is ticked",
                ),
                ("Live", "eye", "Follow the one that is ticked"),
                ("Resume", "play", "Go on from the newest checkpoint of the one that is ticked"),
                ("Delete", "trash", "Remove ticked runs from the disk, once it is pressed again"),
                ("Refresh", "refresh", "Read the folder again"),
            )
        }
        for name, act in (
            ("Compare", self._compare), ("Front", self._front), ("Sweep", self._sweep), ("Mattered", self._mattered),
            ("Live", self._follow), ("Resume", self._resume), ("Delete", self._delete), ("Refresh", self._refresh),
        ):  # fmt: skip
            self.buttons[name].on_click(lambda button, act=act: self._do(act))
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
        from gnnqlab.run.kept import delete_run

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

    def _told(self, draw: Callable[..., Bundle], title: str) -> str:
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
