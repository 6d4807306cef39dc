"""Colab shows Plotly's figures as HTML alone.

Widgets need nothing from here: anywidget turns on Colab's manager of widgets by itself.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["figure_html", "in_colab"]


def in_colab() -> bool:
    """Return whether this kernel is one of Colab: its kernels import `google.colab` before the first cell."""
    return "google.colab" in sys.modules


def figure_html(figure: Figure) -> str:
    """Return a figure as the piece of HTML that Colab's pages draw; Plotly's script comes from Plotly's own address."""
    return str(figure.to_html(full_html=False, include_plotlyjs="cdn", config={"displayModeBar": False}))
