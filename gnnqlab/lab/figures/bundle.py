"""A figure that stays visible when nobody runs the kernel: live where Plotly runs, else a picture, else a table.

Plotly's own output is blank in a notebook shown as a plain page. A ``Bundle`` gives every reader something: Plotly's
JSON (JupyterLab draws it at once, as wide as the page; Colab is given HTML), a picture where a Chromium is at hand to
draw it, otherwise the numbers as an HTML table. The picture is SVG, not PNG: beside a PNG JupyterLab shows that, pixel
by pixel, until a mouse comes.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.colab import figure_html, in_colab
from gnnqlab.lab.figures.still import svg_of

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = ["Bundle", "caption_of", "name_links", "show", "table_html"]

_LEFT = ' style="text-align:left"'


@dataclass(frozen=True)
class Bundle:
    """A figure together with the numbers it shows."""

    figure: Figure
    frame: DataFrame

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a notebook stores of the figure. Never raises: a picture that fails leaves the table."""
        caption = caption_of(self.figure)
        outputs: dict[str, Any] = {"text/plain": caption}
        metadata: dict[str, Any] = {}
        try:
            outputs["application/vnd.plotly.v1+json"] = _plain_json(self.figure)
        except Exception as error:
            outputs["text/plain"] += f"\n(no figure: {error})"
        if in_colab():
            return {**outputs, "text/html": figure_html(self.figure)}, metadata
        picture = svg_of(self.figure)
        if picture is not None:
            outputs["image/svg+xml"] = picture
            metadata["image/svg+xml"] = {"alt": caption}
        else:
            try:
                outputs["text/html"] = table_html(self.frame, caption=caption)
            except Exception as error:
                outputs["text/plain"] += f"\n(no table: {error})"
        return outputs, metadata


def show(figure: Figure, frame: DataFrame) -> Bundle:
    """The figure and its numbers, ready to stand at the end of a notebook cell."""
    return Bundle(figure, frame)


def caption_of(figure: Figure) -> str:
    """What the figure shows, in words."""
    meta = figure.layout.meta
    return str(meta["caption"]) if isinstance(meta, dict) and "caption" in meta else str(figure.layout.title.text or "")


def name_links(figure: Figure, links: Iterable[str | None]) -> Figure:
    """Add to the caption which link joined the workers of the runs shown."""
    named = sorted({link for link in links if link and link != "none"})
    if named:
        figure.update_layout(meta={"caption": f"{caption_of(figure)} Link: {' and '.join(named)}."})
    return figure


def table_html(frame: DataFrame, *, caption: str) -> str:
    """A table with a caption and row headings, as a screen reader wants it; numbers with four digits."""
    names = [frame.index.name or "", *frame.columns]
    head = "".join(f'<th scope="col">{html.escape(str(name))}</th>' for name in names)
    rows = "".join(
        f'<tr><th scope="row">{html.escape(_cell(index))}</th>'
        + "".join(f"<td{_LEFT if _is_words(value) else ''}>{html.escape(_cell(value))}</td>" for value in row)
        + "</tr>"
        for index, row in zip(frame.index, frame.itertuples(index=False, name=None))
    )
    caption = html.escape(caption)
    return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _is_words(value: object) -> bool:
    """Notebooks set cells flush right, as numbers want it and sentences do not, whatever they begin with."""
    return isinstance(value, str) and len(value) > 11 and 2 * sum(map(str.isalpha, value)) > len(value)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "–" if value != value else f"{value:.4g}"
    return "–" if value is None else str(value)


def _plain_json(figure: Figure) -> dict[str, Any]:
    import json

    plain: dict[str, Any] = json.loads(figure.to_json())
    plain["config"] = {"showSendToCloud": False}  # its button would send the figure elsewhere
    return plain
