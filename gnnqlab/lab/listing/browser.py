"""``gq.runs()`` on a page: browser of all runs of a folder, to compare, follow, resume and delete them.

Runs that have ended are read once; slow actions run in a thread.
"""

from __future__ import annotations

import dataclasses
import html
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from gnnqlab.former_names import FormerMember
from gnnqlab.lab.figures.bundle import FigureData, caption_of, fallback_for, table_html
from gnnqlab.lab.figures.controls import PAGE, TABLE, alert, make_access, shows_static
from gnnqlab.lab.figures.figure_view import FigureView
from gnnqlab.lab.listing.front_view import draw_front
from gnnqlab.lab.listing.run_rows import FIELD_OF_COLUMN, Row, format_groups, group_by_settings, run_row
from gnnqlab.lab.listing.run_table import RunTable, rows_html
from gnnqlab.lab.training.compare import compare
from gnnqlab.lab.training.sweep import OUTCOMES, Sweep
from gnnqlab.lab.training.sweep_views import draw_importance, draw_parallel
from gnnqlab.units import human_bytes

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.lab.figures.bundle import FigureData
    from gnnqlab.run.run import Run

__all__ = ["RunPanel", "RunBrowser"]


_TICK = "tick a run in the table first"


class RunPanel:
    """Panel with a browser's table and buttons, which run one action at a time.

    Args:
        browser: browser with the runs.
    """

    def __init__(self, browser: RunBrowser) -> None:
        import ipywidgets as widgets

        self.browser = browser
        self.table = RunTable(browser.rows)
        self.figure = FigureView(width=PAGE)
        self.words, self.result = widgets.HTML(), widgets.HTML().add_class(TABLE)
        self._dark_figure: Callable[[bool], Any] | None = None
        self._aside: list[Run] = []
        """Runs of the last Delete, which Undo brings back."""
        self._live: Any = None
        self._busy = threading.Lock()
        self.buttons: dict[str, Any] = {}
        for name, icon, act, tip in (
            ("Compare", "table", self._compare, "Compare ticked runs with the pinned one"),
            (
                "Pareto front", "line-chart", self._front,
                "Draw score over total time of ticked runs, with seeds grouped; of all runs if none is ticked",
            ),
            ("Seeds", "th-list", self._groups, "Means of ticked runs, or of all, over seeds with intervals"),
            (
                "Sweep", "random", self._sweep,
                "Draw one line per ticked run through settings, total time, bytes and score; of all if none is ticked",
            ),
            (
                "Importance", "bar-chart", self._importance,
                "Draw the variance of score, time and bytes that each setting explains; of all runs if none is ticked",
            ),
            ("Live", "eye", self._follow, "Open the live view of the ticked run"),
            ("Resume", "play", self._resume, "Resume the ticked run from its newest checkpoint"),
            ("Delete", "trash", self._delete, "Move ticked runs aside; Undo brings them back"),
            ("Undo", "undo", self._undo, "Bring back the runs of the last Delete"),
            ("Label", "tag", self._label, "Give the ticked run this name, and all ticked runs these tags"),
            ("Refresh", "refresh", self._refresh, "Read the folder again"),
        ):  # fmt: skip
            button = widgets.Button(description=name, icon=icon, tooltip=tip, layout={"width": "120px"})
            button.on_click(lambda button, act=act: self._do(act))
            self.buttons[name] = button
        self.access = make_access()
        self.access.observe(lambda change: self._recolour(), names="dark")
        self.place = widgets.VBox([])
        self.name = widgets.Text(description="Name", layout={"width": "240px"})
        self.tags = widgets.Text(description="Tags", placeholder="paper, 4 workers", layout={"width": "240px"})
        label = self.buttons.pop("Label")
        row = widgets.HBox(list(self.buttons.values()), layout={"flex_flow": "row wrap", "margin": "6px 0 0"})
        labels = widgets.HBox([self.name, self.tags, label], layout={"flex_flow": "row wrap"})
        self.buttons["Label"] = label
        self.box = widgets.VBox([self.table.widget, row, labels, self.words, self.place, self.access])
        self._say(f"{len(browser.runs)} run(s), {human_bytes(browser.size)} on disk")

    def close(self) -> None:
        """Remove the panel from the screen."""
        self._close_live()
        self.figure.close()
        self.table.close()
        self.box.close()

    # -- actions of the buttons -----------------------------------------------------------------------------------

    def _do(self, act: Callable[[], str]) -> None:
        """Run one action in a thread and show its result; while one runs, others are ignored."""

        def work() -> None:
            try:
                self._say(act())
            except Exception as error:  # any error is shown on the screen
                self._say(str(error) or type(error).__name__, trouble=True)
            finally:
                self._busy.release()

        if self._busy.acquire(blocking=False):  # False while another action runs
            threading.Thread(target=work, name="gnnqlab runs", daemon=True).start()

    def _compare(self) -> str:
        self._close_live()
        names = self._ticked()
        pinned_names = [name for name in (self.table.pinned,) if name]  # the pinned run is the baseline
        runs = [self.browser.runs[name] for name in dict.fromkeys([*pinned_names, *names])]
        comparison = compare(runs, baseline=0 if pinned_names else None)
        self.result.value = comparison._repr_mimebundle_()["text/html"]
        self._draw(lambda dark: comparison.convergence(dark=dark).figure)
        self._put([self.result, self.figure.widget])
        return f"{len(runs)} runs, compared with {runs[comparison.baseline].id}"

    def _front(self) -> str:
        self._close_live()
        names = self.table.ticked
        groups = self.browser.groups(names)
        self._draw(lambda dark: self.browser.front(names, dark=dark).figure)
        self.result.value = table_html(format_groups(groups), caption="Means over seeds with 95 % intervals")
        self._put([self.figure.widget, self.result])
        return f"{len(groups)} settings, {int(groups['seeds'].sum())} runs"

    def _groups(self) -> str:
        self._close_live()
        groups = self.browser.groups(self.table.ticked)
        self.result.value = table_html(format_groups(groups), caption="Means over seeds with 95 % intervals")
        self._put([self.result])
        return f"{len(groups)} settings, {int(groups['seeds'].sum())} runs"

    def _sweep(self) -> str:
        return self._show_figure(self.browser.parallel, "Settings and outcomes of runs")

    def _importance(self) -> str:
        return self._show_figure(
            self.browser.importance, "Share of the variance between runs that each setting explains"
        )

    def _follow(self) -> str:
        run = self._one()
        self._close_live()
        self._live = run.live()
        self._put([self._live.widget])
        return f"live view of {run.id}"

    def _resume(self) -> str:
        run = self._one().resume()
        self.browser.add(run)
        self._refresh()
        return f"resumed as {run.id}"

    def _delete(self) -> str:
        """Move ticked runs aside, so that Undo can bring them back."""
        from gnnqlab.run.disk_usage import set_aside

        names, self._aside = self._ticked(), []
        try:
            for name in names:
                self._aside.append(set_aside(self.browser.runs[name]))
                self.browser.forget(name)
        finally:  # if one is refused, those before it have been moved
            self._refresh()
        return f"{len(names)} run(s) moved aside: Undo brings them back, gnnqlab runs --prune-cache frees the disk"

    def _undo(self) -> str:
        from gnnqlab.run.disk_usage import restore_run

        if not self._aside:
            raise ValueError("nothing was deleted here, or it is back already")
        count = len(self._aside)
        try:
            while self._aside:
                self.browser.add(restore_run(self._aside[-1]))
                self._aside.pop()
        finally:
            self._refresh()
        return f"{count} run(s) are back"

    def _label(self) -> str:
        names, name = self._ticked(), self.name.value.strip()
        tags = [tag.strip() for tag in self.tags.value.split(",") if tag.strip()]
        if not name and not tags:
            raise ValueError("a name or tags must be given, got none; type them next to it")
        if name and len(names) > 1:
            raise ValueError(f"a name is for one run, got {len(names)} ticked; tick one, or give tags only")
        for each in names:
            run = self.browser.runs[each]
            run.annotate(tags=[*run.tags, *tags], **({"name": name} if name else {}))
            self.browser.reread(each)
        self._refresh()
        return f"{len(names)} run(s) labelled"

    def _refresh(self) -> str:
        self.table.show(self.browser.rows)
        return f"{len(self.browser.runs)} run(s), {human_bytes(self.browser.size)} on disk"

    # -- inside ---------------------------------------------------------------------------------------------------

    def _ticked(self) -> list[str]:
        # Without runs that were deleted meanwhile.
        names = [name for name in self.table.ticked if name in self.browser.runs]
        if not names:
            raise ValueError(_TICK)
        return names

    def _one(self) -> Run:
        names = self._ticked()
        if len(names) > 1:
            raise ValueError(f"this needs one ticked run, got {len(names)}; tick one")
        return self.browser.runs[names[0]]

    def _put(self, children: list[Any]) -> None:
        self.place.children = tuple(children)

    def _draw(self, figure: Callable[[bool], Any]) -> None:
        self._dark_figure = figure
        self.figure.show(figure(self.access.dark))

    def _recolour(self) -> None:
        if self._dark_figure is not None:
            self.figure.show(self._dark_figure(self.access.dark))

    def _show_figure(self, draw: Callable[..., FigureData], title: str) -> str:
        """Show a figure of the ticked runs, or of all, with its table; return its caption."""
        self._close_live()
        names = self.table.ticked
        bundle = draw(names)
        self._draw(lambda dark: draw(names, dark=dark).figure)
        self.result.value = table_html(bundle.frame, caption=title)
        self._put([self.figure.widget, self.result])
        return caption_of(bundle.figure)

    def _close_live(self) -> None:
        if self._live is not None:
            self._live.close()
            self._live = None

    def _say(self, words: str, *, trouble: bool = False) -> None:
        self.words.value = f"<p>{alert(words)}</p>" if trouble else f'<p role="status">{html.escape(words)}</p>'


class RunBrowser:
    """Browser of runs: a table to sort, filter and tick, with actions on ticked runs.

    At the end of a notebook cell it shows the table: a click on a column sorts, words filter, and the pinned run is the
    baseline; *Compare*, *Pareto front*, *Seeds*, *Sweep*, *Importance*, *Live*, *Resume*, *Delete* and *Label* act on
    ticked runs.
    Without a kernel, the table remains as static HTML.

    Args:
        runs: handles, as returned by ``gq.runs()``.

    Example:
        ``gq.runs()`` at the end of a cell, or ``gq.runs("elsewhere").browse().front()``
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = {run.id: run for run in runs}
        self._known: dict[str, Row] = {}

    @property
    def rows(self) -> list[Row]:
        """One row per run, the newest first; runs that have ended are read once."""
        for name, run in self.runs.items():
            row = self._known.get(name)
            if row is None or row.status not in ("finished", "stopped", "failed"):
                self._known[name] = run_row(run)
        return [self._known[name] for name in reversed(self.runs)]  # runs are listed from old to new

    @property
    def size(self) -> int:
        """Bytes of all runs on disk."""
        return sum(row.size for row in self.rows)

    def to_frame(self) -> DataFrame:
        """Return the rows as a table, index ``id``."""
        import pandas as pd

        names = [field.name for field in dataclasses.fields(Row)]
        table = pd.DataFrame([dataclasses.asdict(row) for row in self.rows], columns=names)
        table = table.rename(columns={name: column for column, name in FIELD_OF_COLUMN.items()})
        # Without keys and nested values, which are not for reading.
        return table.drop(columns=["group", "curve", "settings"]).set_index("id")

    def groups(self, names: Sequence[str] = ()) -> DataFrame:
        """Return finished runs grouped by setting, means over seeds with 95 % intervals; see :func:`group_by_settings`.

        Args:
            names: names of the runs; all if not given.
        """
        chosen_names = set(names) or set(self.runs)
        return group_by_settings([row for row in reversed(self.rows) if row.id in chosen_names])

    def front(
        self, names: Sequence[str] = (), *, cost: Literal["train_s", "bytes_sent"] = "train_s", dark: bool = False
    ) -> FigureData:
        """Draw the score of settings over total time or bytes per epoch, with seeds grouped; see :func:`draw_front`.

        Args:
            names: names of the runs; all if not given.
            cost: ``train_s`` or ``bytes_sent``.
            dark: colours for a dark page.

        Raises:
            ValueError: if none has finished, or they are of several graphs.
        """
        return draw_front(self.groups(names), cost=cost, dark=dark)

    def sweep(self, names: Sequence[str] = ()) -> Sweep:
        """Return the settings in which finished runs differ, and their outcomes.

        Args:
            names: names of the runs; all if not given.

        Raises:
            ValueError: if fewer than two have finished, or they differ in their seed at most.
        """
        chosen_names = set(names) or set(self.runs)
        rows = [row for row in reversed(self.rows) if row.id in chosen_names and row.status == "finished"]
        outcomes = [{name: getattr(row, name) for name in OUTCOMES} for row in rows]
        return Sweep([row.settings for row in rows], outcomes, [row.id for row in rows])

    def parallel(self, names: Sequence[str] = (), *, dark: bool = False) -> FigureData:
        """Draw one line per run through settings that differ, total time, bytes and score; see :func:`draw_parallel`.

        Args:
            names: names of the runs; all if not given.
            dark: colours for a dark page.

        Raises:
            ValueError: if fewer than two have finished, or they differ in their seed at most.
        """
        return draw_parallel(self.sweep(names), dark=dark)

    def importance(self, names: Sequence[str] = (), *, dark: bool = False) -> FigureData:
        """Draw the share of variance of score, time and bytes that each setting explains; see :func:`draw_importance`.

        Args:
            names: names of the runs; all if not given.
            dark: colours for a dark page.

        Raises:
            ValueError: if fewer than four have finished, or no two runs share a value of a setting.
        """
        return draw_importance(self.sweep(names), dark=dark)

    mattered = FormerMember("importance")

    def forget(self, name: str) -> None:
        """Remove a run from the list, but not its folder."""
        self.runs.pop(name, None)
        self._known.pop(name, None)

    def reread(self, name: str) -> None:
        """Read a run again, for instance after a change of its name."""
        self._known.pop(name, None)

    def add(self, run: Run) -> None:
        """Add a run to the list as the newest."""
        self.runs[run.id] = run

    @cached_property
    def panel(self) -> RunPanel:
        """Table, buttons and their results, created at first use."""
        return RunPanel(self)

    @property
    def widget(self) -> Any:
        """The browser as an ipywidgets box."""
        return self.panel.box

    def close(self) -> None:
        """Remove the browser from the screen; runs continue."""
        if "panel" in self.__dict__:
            self.panel.close()

    def __repr__(self) -> str:
        return f"<RunBrowser of {len(self.runs)} run(s), {human_bytes(self.size)} on disk>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if shows_static():
            return {"text/plain": repr(self), "text/html": rows_html(self.rows)}
        return fallback_for(self.widget, repr(self), table=rows_html(self.rows))
