"""Cards of objects in a notebook: a title and a small table of names and values."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping

__all__ = ["card"]


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


def _bold(text: str, is_bold: bool) -> str:
    return f"<b>{text}</b>" if is_bold else text
