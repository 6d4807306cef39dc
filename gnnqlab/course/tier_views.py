"""Which link carries what: rows within hosts and between them, by γ and by system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.tune.forecast import Forecast

__all__ = ["draw_connections", "tier_table"]

_LOOKS = {
    "inner": ("within hosts", OKABE_ITO["sky"], "circle", "solid"),
    "outer": ("between hosts", OKABE_ITO["vermillion"], "square", "dash"),
}


def draw_connections(table: DataFrame, *, dark: bool = False) -> Bundle:
    """Draw rows within hosts and between them over γ, each beside what plain EBV (the first line) has.

    Args:
        table: of ``measure.connections_by_gamma``.

    Raises:
        ValueError: if there is no line.
    """
    import plotly.graph_objects as go

    if table.empty:
        raise ValueError("connections for at least one γ are needed, got none; see connections_by_gamma")
    figure = go.Figure()
    for tier, (name, color, symbol, dash) in _LOOKS.items():
        figure.add_scatter(
            x=table.index.tolist(),
            y=table[tier].tolist(),
            name=name,
            mode="lines+markers",
            line={"color": color, "dash": dash},
            marker={"symbol": symbol, "size": 9},
            hovertemplate=f"γ = %{{x}}: %{{y:,}} rows {name}<extra></extra>",
        )
    figure.update_xaxes(title_text="γ, weight of the hosts in Eq. 24")
    figure.update_yaxes(title_text="rows in a synchronisation", rangemode="tozero")
    first, last = table.iloc[0], table.iloc[-1]
    caption = "; ".join(
        f"{name}: {first[tier]:,.0f} rows at γ = {table.index[0]:g}, {last[tier]:,.0f} at {table.index[-1]:g}"
        for tier, (name, *_) in _LOOKS.items()
    )
    finish(figure, title="What γ moves from slow links to fast ones", caption=f"{caption}.", dark=dark, height=380)
    return Bundle(figure, table)


def tier_table(forecasts: Mapping[str, Forecast]) -> DataFrame:
    """Return bytes and seconds of an epoch by tier, a line for each system and tier, as forecasts have them."""
    import pandas as pd

    return pd.concat({name: forecast.by_tier() for name, forecast in forecasts.items()}, names=["system"])
