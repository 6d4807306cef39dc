"""Cards of objects in a notebook: a title and a table, of names and values or of several columns."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame, Series

__all__ = ["card", "table_html"]

_LEFT = ' style="text-align:left"'


def card(title: str, rows: Mapping[str, str], *, bold: Collection[str] = (), align: str = "left") -> str:
    """Return a table with one row per name as HTML; texts are escaped.

    Args:
        title: kind and name of the object.
        rows: name -> value.
        bold: names whose values are bold.
        align: ``left``, or ``right`` for numbers.

    Example:
        >>> card("System", {"codec": "Float32()"}, bold=["codec"]).count("<b>Float32()</b>")
        1
    """
    cells = "".join(
        f"<tr><th scope='row' style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:{align}'>{_bold(html.escape(value), name in bold)}</td></tr>"
        for name, value in rows.items()
    )
    caption = f"<caption style='text-align:left'>{html.escape(title)}</caption>" if title else ""
    return f"<table>{caption}{cells}</table>"


def table_html(frame: DataFrame, *, caption: str, best: Collection[tuple[int, str]] = frozenset()) -> str:
    """Return a table as HTML with a caption and row headings for screen readers; numbers with four digits.

    Args:
        frame: the table.
        caption: sentence above it.
        best: position of the row and name of the column of cells in bold.
    """
    # Words are flush left and numbers right, for a whole column and its heading.
    sides = [_side_of(frame.iloc[:, column]) for column in range(len(frame.columns))]
    head = f'<th scope="col">{html.escape(str(frame.index.name or ""))}</th>' + "".join(
        f'<th scope="col"{side}>{html.escape(str(name))}</th>' for name, side in zip(frame.columns, sides)
    )
    rows = "".join(
        f'<tr><th scope="row">{html.escape(_cell(index))}</th>'
        + "".join(
            f"<td{side}>{_bold(html.escape(_cell(value)), (number, name) in best)}</td>"
            for name, side, value in zip(frame.columns, sides, row)
        )
        + "</tr>"
        for number, (index, row) in enumerate(zip(frame.index, frame.itertuples(index=False, name=None)))
    )
    caption = html.escape(caption)
    return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _side_of(column: Series) -> str:
    """Return the style of a column: left if one of its cells is words, else empty, because notebooks align right."""
    return _LEFT if any(map(_is_words, column)) else ""


def _is_words(value: object) -> bool:
    """Return True if a cell holds words: dates and numbers with units, less than half letters, stay right-aligned."""
    return isinstance(value, str) and 2 * sum(map(str.isalpha, value)) > len(value) > 0


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "–" if value != value else f"{value:.4g}"  # NaN
    return "–" if value is None else str(value)


def _bold(text: str, is_bold: bool) -> str:
    return f"<b>{text}</b>" if is_bold else text
