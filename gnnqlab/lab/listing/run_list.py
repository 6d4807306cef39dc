"""Runs of a folder with what each came to, read once where it has ended; seeds together, and which are worth having."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.listing.front_view import draw_front
from gnnqlab.lab.listing.run_rows import Row, grouped, run_row
from gnnqlab.lab.training.sweep import OUTCOMES, Sweep
from gnnqlab.lab.training.sweep_views import draw_mattered, draw_parallel

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.run.run import Run

__all__ = ["RunList"]


class RunList:
    """Runs and their rows.

    Args:
        runs: handles, as ``gq.runs()`` returns them.
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
    ) -> Bundle:
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

    def parallel(self, names: Sequence[str] = (), *, dark: bool = False) -> Bundle:
        """Draw a line a run through settings that differ, total time, bytes and score; see :func:`draw_parallel`.

        Args:
            names: of the runs to draw; all if not given.
            dark: colours for a dark page.

        Raises:
            ValueError: if fewer than two have finished, or they differ in their seed at most.
        """
        return draw_parallel(self.sweep(names), dark=dark)

    def mattered(self, names: Sequence[str] = (), *, dark: bool = False) -> Bundle:
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
