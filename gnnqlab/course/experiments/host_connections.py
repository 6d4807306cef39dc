"""Connections within and between hosts: by partition, by γ (CDFGNN Eq. 24, Table 3), and in forecasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gnnqlab.graph.generate import rmat
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import bars, lines
from gnnqlab.partition.ebv import EBV
from gnnqlab.partition.parts import partition

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.parts import Parts
    from gnnqlab.tune.forecast import Forecast

__all__ = [
    "connection_table", "connections_by_gamma", "draw_by_gamma", "draw_connections", "saved_by_homes", "tier_table",
]  # fmt: skip


def connections_by_gamma(
    graph: Graph, gammas: Sequence[float] = (0.0, 0.05, 0.1, 0.2, 0.4), *, hosts: int = 2, per_host: int = 2
) -> DataFrame:
    """Partition a graph once for each γ.

    Args:
        graph: any graph.
        gammas: weights of the hosts in Eq. 24, in [0, 1]; 0 is plain EBV.
        hosts: number of hosts.
        per_host: workers on each host.

    Returns:
        One line per ``γ``: rows sent in one synchronization, ``inner`` within a host and ``outer`` between hosts;
        ``replication``, replicas per node; ``edge imbalance``, the largest share of the edges over the mean.

    Example:
        >>> import gnnqlab as gq
        >>> found = connections_by_gamma(gq.load("sbm:300,4,10"), gammas=(0.0, 0.2))
        >>> found.index.tolist(), bool(found.loc[0.2, "outer"] < found.loc[0.0, "outer"])
        ([0.0, 0.2], True)
    """
    import pandas as pd

    lines = {}
    for gamma in gammas:
        # γ is the only setting that changes
        quality = partition(graph, EBV(gamma=gamma), hosts=hosts, per_host=per_host).quality
        lines[gamma] = (quality.inner, quality.outer, quality.replication, quality.edge_imbalance)
    columns = ["inner", "outer", "replication", "edge imbalance"]
    return pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("γ")


def saved_by_homes() -> dict[str, float]:
    """Return the share of a worker's inter-host connections that γ = 0.1 saves in CDFGNN Eq. 24, by rule.

    The graph is a power-law graph on 2 x 4 workers; masters are chosen by the same rule with and without γ.

    Returns:
        ``copies``: the equation as printed; ``home``: the host of most of a node's edges in the pass before counts too.

    Example:
        >>> saved = saved_by_homes()
        >>> saved["home"] > saved["copies"] > 0
        True
    """
    graph = rmat(12, 16, features=1)  # 2^12 nodes with power-law degrees

    def outer(**settings: Any) -> int:
        return partition(graph, EBV(**settings), hosts=2, per_host=4).quality.most_outer

    baseline = outer(gamma=1e-12, host_term="copies")  # too small to move an edge; masters are those of γ > 0
    # share of the connections saved, relative to γ = 0
    return {rule: 1 - outer(host_term=rule) / baseline for rule in ("copies", "home")}


def connection_table(several: Mapping[str, Parts]) -> DataFrame:
    """Return the columns of CDFGNN's Table 3, one line per partition.

    ``inner`` and ``outer``: most rows that one worker sends within its host and to other hosts; ``RF``: replicas per
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

    # Maxima over workers, as in the paper: the busiest worker determines the time of a synchronization.
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


def draw_connections(several: Mapping[str, Parts], *, dark: bool = False) -> FigureData:
    """Draw inner and outer connections of the busiest worker, one pair of bars per partition."""
    table = connection_table(several)
    words = "; ".join(
        f"{name} {line['inner']:,.0f} inner, {line['outer']:,.0f} outer" for name, line in table.iterrows()
    )
    title = "Connections within and between hosts"
    figure = bars(
        table,
        y={"inner": ("inner connections", "sky"), "outer": ("outer connections", "vermillion /")},
        horizontal=True,
        x_axis="rows that the busiest worker sends in one synchronization",
        title=title,
        caption=f"{title}: {words}.",
        dark=dark,
        height=200 + 45 * len(table),
    )
    return FigureData(figure, table)


_LOOKS = {"inner": ("within hosts", "sky solid circle"), "outer": ("between hosts", "vermillion dash square")}


def draw_by_gamma(table: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw rows sent within and between hosts over γ; plain EBV is γ = 0.

    Args:
        table: result of :func:`connections_by_gamma`.

    Raises:
        ValueError: if there is no line.
    """
    if table.empty:
        raise ValueError("connections for at least one γ are needed, got none; see connections_by_gamma")
    figure = lines(
        table,
        y=_LOOKS,
        zero="y",
        size=9,
        x_axis="γ, weight of the hosts in Eq. 24",
        y_axis="rows per synchronization",
        title="Rows on slow and fast links over γ",
        dark=dark,
        height=380,
    )
    return FigureData(figure, table)


def tier_table(forecasts: Mapping[str, Forecast]) -> DataFrame:
    """Return predicted bytes and seconds of an epoch, one line per system and tier of the network."""
    import pandas as pd

    # index (system, tier)
    return pd.concat({name: forecast.by_tier() for name, forecast in forecasts.items()}, names=["system"])
