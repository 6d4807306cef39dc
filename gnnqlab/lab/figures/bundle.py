"""Figures that stay visible without a kernel: interactive where Plotly runs, else a picture, else a table.

Plotly's own output is blank in a notebook shown as a static page. A ``FigureData`` has a format for every viewer:
Plotly's JSON (JupyterLab draws it at once, as wide as the page; Colab gets HTML), a picture if a Chromium is
available to draw it, otherwise the numbers as an HTML table. The picture is SVG, not PNG, because
JupyterLab would show a PNG instead of the figure until the mouse is over it.

JupyterLab shows an output with a widget's view as this view only, and as "model not found" without its kernel. So the
output's metadata name the view too, and ``left.js`` saves only this name.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.cards import table_html
from gnnqlab.lab.figures.static_image import save, svg_of

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


@dataclass(frozen=True)
class FigureData:
    """Figure together with the numbers it shows."""

    figure: Figure
    frame: DataFrame

    def save(self, path: str | Path, **settings: Any) -> Path:
        """Write the figure for a paper; see ``gq.charts.save`` for ``width``, ``height``, ``font`` and the errors."""
        return save(self.figure, path, **settings)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the formats that a notebook stores. Never raises: if the picture fails, the table remains."""
        caption = caption_of(self.figure)
        outputs: dict[str, Any] = {"text/plain": caption}
        metadata: dict[str, Any] = {}
        try:
            outputs["application/vnd.plotly.v1+json"] = _plain_json(self.figure)
        except Exception as error:
            outputs["text/plain"] += f"\n(no figure: {error})"
        if in_colab():
            return {**outputs, "text/html": figure_html(self.figure)}, metadata
        picture = svg_of(self.figure)  # None without a browser
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
    """Return the figure with its numbers, for the end of a notebook cell."""
    return FigureData(figure, frame)


def caption_of(figure: Figure) -> str:
    """Return the description of a figure in words; its title if it has none."""
    meta = figure.layout.meta
    return str(meta["caption"]) if isinstance(meta, dict) and "caption" in meta else str(figure.layout.title.text or "")


def name_links(figure: Figure, links: Iterable[str | None]) -> Figure:
    """Append the network links of the runs shown to the caption."""
    link_names = sorted({link for link in links if link and link != "none"})
    if link_names:
        figure.update_layout(meta={"caption": f"{caption_of(figure)} Link: {' and '.join(link_names)}."})
    return figure


def _plain_json(figure: Figure) -> dict[str, Any]:
    import json

    figure_json: dict[str, Any] = json.loads(figure.to_json())  # plain lists in place of NumPy arrays
    figure_json["config"] = {"showSendToCloud": False}  # its button would upload the figure
    return figure_json


def in_colab() -> bool:
    """Return True in a kernel of Colab, which imports `google.colab` before the first cell."""
    return "google.colab" in sys.modules


def figure_html(figure: Figure) -> str:
    """Return a figure as an HTML fragment for Colab; Plotly's script is loaded from its public address."""
    return str(figure.to_html(full_html=False, include_plotlyjs="cdn", config={"displayModeBar": False}))


VIEW = "application/vnd.jupyter.widget-view+json"
"""MIME type of a widget's view in an output."""


def fallback_for(
    widget: Any, words: str, still: Callable[[], FigureData] | None = None, *, table: str = "", figure: Any = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return data and metadata of a view's output: the view, and its first state for pages without a kernel.

    JupyterLab, VS Code and Voilà use the view; GitHub, nbviewer and exported pages, which have no widgets, the words
    and numbers. No picture is drawn here, because the first one would delay the controls by seconds. When JupyterLab
    saves the notebook, the view's current figure replaces them.

    Args:
        widget: widget of ipywidgets.
        words: description of the view, used if there is no caption.
        still: function that draws the current state; if it fails, the words remain.
        table: HTML of the numbers, instead of ``still``.
        figure: widget of the ``FigureView`` to save; by default the first one inside.
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
    """Return the first widget of a figure inside a widget, or None."""
    if hasattr(widget, "plotly"):  # trait of FigureView's widget
        return widget
    return next(filter(None, map(_figure_in, getattr(widget, "children", ()))), None)
