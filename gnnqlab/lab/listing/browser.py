"""``gq.runs()`` on a page: all runs of a folder, to look through, compare, follow, go on with and delete."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.bundle import left_by
from gnnqlab.lab.figures.controls import shows_static
from gnnqlab.lab.figures.frames import human_bytes
from gnnqlab.lab.listing.run_list import RunList
from gnnqlab.lab.listing.run_table import rows_html

if TYPE_CHECKING:
    from gnnqlab.lab.listing.panel import RunPanel

__all__ = ["RunBrowser"]


class RunBrowser(RunList):
    """All runs of a folder in a table to sort, filter and tick, with what can be done to those that are ticked.

    At the end of a notebook cell it shows the table: a click on a column sorts, words filter, a pinned run is what
    others are compared with; *Compare*, *Front*, *Sweep*, *Mattered*, *Live*, *Resume* and *Delete* act on ticked ones.
    Where no kernel runs, the table stays as it was.

    Args:
        runs: handles, as ``gq.runs()`` returns them.

    Example:
        ``gq.runs()`` at the end of a cell, or ``gq.runs("elsewhere").browse().front()``
    """

    @cached_property
    def panel(self) -> RunPanel:
        """Table, buttons and what they show."""
        from gnnqlab.lab.listing.panel import RunPanel

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
        return left_by(self.widget, repr(self), table=rows_html(self.rows))
