"""Figures of Plotly as small JSON for ``light_chart.js``, which draws them as SVG without Plotly."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.theme import template

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["KINDS", "light_figure", "looks"]

KINDS = ("scatter", "bar", "heatmap", "image")
"""Kinds of traces that the script draws."""
_HOVER = ("customdata", "hovertemplate", "hoverinfo", "hoverongaps", "hoverlabel", "colorbar")
"""Attributes for the mouse, which the pages replace by a table of the numbers."""
_DIGITS = 5


def light_figure(figure: Figure) -> dict[str, Any]:
    """Return data and layout of a figure as plain JSON, without template, hover texts and hidden traces.

    Args:
        figure: figure with traces of ``KINDS`` only; numbers keep five significant digits.

    Raises:
        ValueError: if a trace is of another kind.

    Example:
        >>> import plotly.graph_objects as go
        >>> light_figure(go.Figure(go.Scatter(x=[1, 2], y=[0.123456789, 1], hovertemplate="%{x}")))["data"]
        [{'x': [1, 2], 'y': [0.12346, 1], 'type': 'scatter'}]
    """
    content = json.loads(figure.to_json())  # through JSON, because figures hold arrays
    unknown = sorted({trace["type"] for trace in content["data"]} - {*KINDS})
    if unknown:
        raise ValueError(
            f"a page without Plotly draws traces of {', '.join(KINDS)}, got {', '.join(unknown)}; use figure.write_html"
        )
    data = [_plain(trace) for trace in content["data"] if trace.get("opacity") != 0]
    layout = {name: value for name, value in content["layout"].items() if name not in ("template", "meta")}
    return {
        "data": [{name: value for name, value in trace.items() if name not in _HOVER} for trace in data],
        "layout": _plain(layout),
    }


def looks() -> dict[str, dict[str, Any]]:
    """Return the colours of text, grid and axes on a light and on a dark page."""
    found = {}
    for name in ("light", "dark"):
        layout = template(dark=name == "dark")["layout"]
        axes = layout["xaxis"]
        found[name] = {"ink": layout["font"]["color"], "grid": axes["gridcolor"], "axis": axes["linecolor"]}
    return found


def _plain(value: Any) -> Any:
    """Replace Plotly's encoded arrays by lists, and round numbers."""
    if isinstance(value, dict):
        if "bdata" in value:
            import numpy as np

            array = np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"])
            shape = [int(each) for each in str(value["shape"]).split(",")] if "shape" in value else [-1]
            return _plain(array.reshape(shape).tolist())
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        rounded = float(f"{value:.{_DIGITS}g}")
        return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
    return value
