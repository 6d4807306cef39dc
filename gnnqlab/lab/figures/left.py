"""What a view with controls leaves in a notebook: words, numbers, and in files that JupyterLab saves its figure.

An output that holds a widget's view is that view to JupyterLab, and "model not found" where no kernel has it. So views
name themselves in the output's metadata too, and ``left.js`` sees to it that only these are saved.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.bundle import caption_of, table_html

if TYPE_CHECKING:
    from gnnqlab.lab.figures.bundle import Bundle

__all__ = ["VIEW", "left_by"]

VIEW = "application/vnd.jupyter.widget-view+json"
"""What an output that holds a widget's view calls it."""


def left_by(
    widget: Any, words: str, still: Callable[[], Bundle] | None = None, *, table: str = "", figure: Any = None
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
