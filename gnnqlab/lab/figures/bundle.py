"""A figure that stays visible when nobody runs the kernel: live where Plotly runs, else a picture, else a table.

Plotly's own output is blank in a notebook shown as a plain page. A ``FigureData`` gives every reader something: Plotly's
JSON (JupyterLab draws it at once, as wide as the page; Colab is given HTML), a picture where a Chromium is at hand to
draw it, otherwise the numbers as an HTML table. The picture is SVG, not PNG: beside a PNG JupyterLab shows that, pixel
by pixel, until a mouse comes.

An output that holds a widget's view is that view to JupyterLab, and "model not found" where no kernel has it. So views
name themselves in the output's metadata too, and ``left.js`` sees to it that only these are saved.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.static_image import svg_of

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = [
    "FigureData",
    "caption_of",
    "name_links",
    "show",
    "table_html",
    "figure_html",
    "in_colab",
    "VIEW",
    "fallback_for",
]

_LEFT = ' style="text-align:left"'


@dataclass(frozen=True)
class FigureData:
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


def show(figure: Figure, frame: DataFrame) -> FigureData:
    """The figure and its numbers, ready to stand at the end of a notebook cell."""
    return FigureData(figure, frame)


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


def in_colab() -> bool:
    """Return whether this kernel is one of Colab: its kernels import `google.colab` before the first cell."""
    return "google.colab" in sys.modules


def figure_html(figure: Figure) -> str:
    """Return a figure as the piece of HTML that Colab's pages draw; Plotly's script comes from Plotly's own address."""
    return str(figure.to_html(full_html=False, include_plotlyjs="cdn", config={"displayModeBar": False}))


VIEW = "application/vnd.jupyter.widget-view+json"
"""What an output that holds a widget's view calls it."""


def fallback_for(
    widget: Any, words: str, still: Callable[[], FigureData] | None = None, *, table: str = "", figure: Any = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return data and metadata of a view's output: the view, and for whoever has no kernel what it showed at first.

    JupyterLab, VS Code and Voilà take the view; GitHub, nbviewer and exported pages, which know no widgets, the words
    and numbers. A picture is not drawn: the first one would keep the controls waiting for seconds. When JupyterLab
    saves the notebook, the view's figure as it stands then takes their place.

    Args:
        widget: of ipywidgets.
        words: what it shows, where nothing else says it.
        still: draws it as it stands; where that fails the words stay.
        table: HTML of the numbers, in place of ``still``.
        figure: which figure is saved, as the widget of a ``FigureView``; by default the first one inside.
    """
    data: dict[str, Any] = dict(widget._repr_mimebundle_())
    data |= {"text/plain": words, "text/html": table or f"<p>{html.escape(words)}</p>"}
    if still is not None:
        try:
            bundle = still()
            caption = caption_of(bundle.figure)
            data |= {"text/plain": caption, "text/html": table_html(bundle.frame, caption=caption)}
        except Exception as error:  # the widget itself may still work
            data["text/plain"] += f"\n(no numbers: {error})"
    place = figure or _figure_in(widget)
    return data, {"gnnqlab": {"view": data[VIEW]} | ({"figure": place.source} if place else {})}


def _figure_in(widget: Any) -> Any:
    """The first place of a figure inside a widget, if there is one."""
    if hasattr(widget, "plotly"):
        return widget
    return next(filter(None, map(_figure_in, getattr(widget, "children", ()))), None)
