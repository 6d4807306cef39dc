"""Which link carries what: rows within hosts and between them, by γ and by system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lines

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.tune.forecast import Forecast

__all__ = ["draw_connections", "tier_table"]

_LOOKS = {"inner": ("within hosts", "sky solid circle"), "outer": ("between hosts", "vermillion dash square")}


def draw_connections(table: DataFrame, *, dark: bool = False) -> Bundle:
    """Draw rows within hosts and between them over γ, each beside what plain EBV (the first line) has.

    Args:
        table: of ``measure.connections_by_gamma``.

    Raises:
        ValueError: if there is no line.
    """
    if table.empty:
        raise ValueError("connections for at least one γ are needed, got none; see connections_by_gamma")
    first, last = table.iloc[0], table.iloc[-1]
    caption = "; ".join(
        f"{name}: {first[tier]:,.0f} rows at γ = {table.index[0]:g}, {last[tier]:,.0f} at {table.index[-1]:g}"
        for tier, (name, _) in _LOOKS.items()
    )
    figure = lines(
        table,
        y={tier: name for tier, (name, _) in _LOOKS.items()},
        zero="y",
        size=9,
        styles={tier: style for tier, (_, style) in _LOOKS.items()},
        x_axis="γ, weight of the hosts in Eq. 24",
        y_axis="rows in a synchronisation",
        title="What γ moves from slow links to fast ones",
        caption=f"{caption}.",
        dark=dark,
        height=380,
    )
    return Bundle(figure, table)


def tier_table(forecasts: Mapping[str, Forecast]) -> DataFrame:
    """Return bytes and seconds of an epoch by tier, a line for each system and tier, as forecasts have them."""
    import pandas as pd

    return pd.concat({name: forecast.by_tier() for name, forecast in forecasts.items()}, names=["system"])
