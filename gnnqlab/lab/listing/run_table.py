"""Interactive table of runs to sort, filter, tick and pin; and as static HTML for pages without a kernel."""

from __future__ import annotations

import functools
import html
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gnnqlab.lab.figures import figure_view
from gnnqlab.lab.listing.run_rows import Row
from gnnqlab.units import human_bytes

__all__ = ["RunTable", "rows_html"]

_WIDTH, _HEIGHT = 90, 22
"""Size of a curve in pixels."""
_CURVE = "validation"
"""Title of the column of curves."""


class RunTable:
    """Interactive table of runs with the state of ticked and pinned ones.

    Args:
        rows: rows of the table, the newest first.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        classes = _classes()
        self._source = classes.Source()
        self.widget = classes.Place(source=self._source.model_id)
        """Widget to place among others."""
        self.show(rows)

    def show(self, rows: Sequence[Row]) -> None:
        """Replace the rows; ticks and pins of removed runs are dropped."""
        names = {row.id for row in rows}
        self._source.rows = json.dumps([_plain(row) for row in rows])  # one message with all rows
        self.tick([name for name in self.ticked if name in names])
        if self.pinned not in names:
            self._source.pinned = ""

    @property
    def ticked(self) -> list[str]:
        """Names of the ticked runs, in the order of ticking."""
        return list(self._source.ticked)

    @property
    def pinned(self) -> str:
        """Name of the pinned run, the baseline of the others; empty if there is none."""
        return str(self._source.pinned)

    def tick(self, names: Sequence[str]) -> None:
        """Tick only these runs."""
        self._source.ticked = list(names)

    def pin(self, name: str) -> None:
        """Make a run the baseline of the others."""
        self._source.pinned = name

    def observe(self, changed: Callable[[], None]) -> None:
        """Call a function after every change of ticks or pin."""
        self._source.observe(lambda change: changed(), names=["ticked", "pinned"])

    def close(self) -> None:
        """Remove the table from every page."""
        self.widget.close()
        self._source.close()


def _plain(row: Row) -> dict[str, Any]:
    """Return the fields of a row that the page needs."""
    return {name: value for name, value in asdict(row).items() if name not in ("group", "settings")}


class _Classes:
    """Classes of widgets, created at first use because their packages take long to import."""

    def __init__(self) -> None:
        import anywidget
        import ipywidgets
        import traitlets

        class Source(ipywidgets.Widget):  # type: ignore[misc]
            rows = traitlets.Unicode("[]").tag(sync=True)
            ticked = traitlets.List(traitlets.Unicode()).tag(sync=True)
            pinned = traitlets.Unicode().tag(sync=True)

        class Place(anywidget.AnyWidget):  # type: ignore[misc]
            _esm = "\n".join(
                path.read_text(encoding="utf-8")
                for path in (Path(figure_view.__file__).with_name("find_model.js"), Path(__file__).with_suffix(".js"))
            )
            source = traitlets.Unicode().tag(sync=True)

        self.Source, self.Place = Source, Place


@functools.cache
def _classes() -> _Classes:
    return _Classes()


_COLUMNS: dict[str, Callable[[Row], str]] = {
    "launched": lambda row: row.began,
    "system": lambda row: f"{row.system} ({row.recipe_text})" if row.recipe_text else row.system or row.id,
    "name": lambda row: " ".join([*([row.name] if row.name else []), *(f"#{tag}" for tag in row.tags)]),
    "test": lambda row: "" if row.score is None else f"{100 * row.score:.2f} %",
    "total": lambda row: "" if row.train_s is None else f"{row.train_s:.2f} s",
    "sent per epoch": lambda row: "" if row.bytes_sent is None else human_bytes(row.bytes_sent),
    "graph": lambda row: row.graph,
    "model": lambda row: row.model,
    "workers": lambda row: _text(row.workers),
    "link": lambda row: row.link,
    "seed": lambda row: _text(row.seed),
    "epochs": lambda row: _text(row.epochs),
    "on disk": lambda row: human_bytes(row.size),
    "status": lambda row: row.status,
}

_SETTINGS = ("graph", "model", "workers", "link", "seed", "epochs")
"""Columns that are left out if all runs have the same value, which is named above the table."""


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def rows_html(rows: Sequence[Row]) -> str:
    """Return the rows as a table without controls.

    Example:
        >>> "96.50 %" in rows_html([Row(id="a", status="finished", score=0.965)])
        True
    """
    scores = [score for row in rows for score in row.curve]
    bottom, top = (min(scores), max(scores)) if scores else (0.0, 1.0)  # one scale for the curves of all runs
    texts_by_name = {name: {text(row) for row in rows} for name, text in _COLUMNS.items()}
    shared = {name: next(iter(texts_by_name[name])) for name in _SETTINGS if len(rows) > 1 == len(texts_by_name[name])}
    names = [name for name in _COLUMNS if name not in shared and (name != "name" or texts_by_name[name] != {""})]
    names.insert(names.index("test") + 1, _CURVE)  # as in the interactive table, and visible on a narrow page
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    lines = []
    for row in rows:
        texts = {name: html.escape(text(row)) for name, text in _COLUMNS.items()} | {_CURVE: _curve(row, bottom, top)}
        lines.append("<tr>" + "".join(f"<td>{texts[name]}</td>" for name in names) + "</tr>")
    size = human_bytes(sum(row.size for row in rows))
    same = ", ".join(html.escape(f"{name} {text}") for name, text in shared.items() if text)
    caption = f"{len(rows)} run{'' if len(rows) == 1 else 's'}, {size} on disk" + (f"; all with {same}" if same else "")
    return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _curve(row: Row, bottom: float, top: float) -> str:
    """Return validation scores as a small SVG curve."""
    if len(row.curve) < 2:
        return ""
    # Pixels per evaluation and per unit of score, with a margin for the line width.
    x_step, y_scale = (_WIDTH - 4) / (len(row.curve) - 1), (_HEIGHT - 6) / ((top - bottom) or 1.0)
    points = " ".join(
        # Y of an SVG grows downwards.
        f"{2 + index * x_step:.1f},{_HEIGHT - 3 - (score - bottom) * y_scale:.1f}"
        for index, score in enumerate(row.curve)
    )
    words = f"validation score from {100 * row.curve[0]:.1f} to {100 * row.curve[-1]:.1f} %"
    return (
        f'<svg role="img" aria-label="{words}" width="{_WIDTH}" height="{_HEIGHT}"><polyline fill="none" '
        f'stroke="currentColor" stroke-width="1.5" points="{points}"/></svg>'
    )
