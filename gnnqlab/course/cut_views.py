"""Connections within and between hosts, partition beside partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import bars

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.partition.parts import Parts

__all__ = ["connection_table", "draw_connections"]


def connection_table(several: Mapping[str, Parts]) -> DataFrame:
    """Return the columns of CDFGNN's Table 3, a line for each partition.

    ``inner`` and ``outer``: rows that one worker sends within its host and to others, at most; ``RF``: rows held per
    node of the graph; ``edge imbalance``: most edges of a worker over the mean.

    Args:
        several: name -> partition on hosts.

    Example:
        >>> import gnnqlab as gq
        >>> from gnnqlab import course
        >>> parts = gq.partition(course.ten_nodes(), course.Halves(), hosts=2)
        >>> connection_table({"halves": parts}).loc["halves", ["inner", "outer", "RF"]].tolist()
        [0.0, 2.0, 1.4]
    """
    import pandas as pd

    lines = {
        name: {
            "inner": parts.quality.most_inner,
            "outer": parts.quality.most_outer,
            "RF": parts.quality.replication,
            "edge imbalance": parts.quality.edge_imbalance,
        }
        for name, parts in several.items()
    }
    table = pd.DataFrame.from_dict(lines, orient="index")
    table.index.name = "partition"
    return table


def draw_connections(several: Mapping[str, Parts], *, dark: bool = False) -> Bundle:
    """Draw inner and outer connections of the busiest worker, a pair of bars for each partition."""
    table = connection_table(several)
    said = "; ".join(
        f"{name} {line['inner']:,.0f} inner, {line['outer']:,.0f} outer" for name, line in table.iterrows()
    )
    title = "Connections within and between hosts"
    figure = bars(
        table,
        y={"inner": "inner connections", "outer": "outer connections"},
        styles=["sky", "vermillion /"],
        horizontal=True,
        x_axis="rows that the busiest worker sends in one synchronisation",
        title=title,
        caption=f"{title}: {said}.",
        dark=dark,
        height=200 + 45 * len(table),
    )
    return Bundle(figure, table)
