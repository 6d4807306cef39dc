"""What the weight of hosts in EBV saves between them, and what it costs within (CDFGNN Eq. 24, Table 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnnqlab.partition.ebv import EBV
from gnnqlab.partition.parts import partition

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph.graph import Graph

__all__ = ["connections_by_gamma"]


def connections_by_gamma(
    graph: Graph, gammas: Sequence[float] = (0.0, 0.05, 0.1, 0.2, 0.4), *, hosts: int = 2, per_host: int = 2
) -> DataFrame:
    """Cut a graph once for each γ; return a line each.

    Args:
        graph: any graph.
        gammas: weights of the hosts in Eq. 24, in [0, 1]; 0 is plain EBV.
        hosts: how many there are.
        per_host: workers on each.

    Returns:
        By ``γ``: rows that cross workers in one synchronisation, ``inner`` within a host and ``outer`` between hosts;
        ``replication``, copies a node; ``edge imbalance``, the largest share of the edges over the mean.

    Example:
        >>> import gnnqlab as gq
        >>> found = connections_by_gamma(gq.load("sbm:300,4,10"), gammas=(0.0, 0.2))
        >>> found.index.tolist(), bool(found.loc[0.2, "outer"] < found.loc[0.0, "outer"])
        ([0.0, 0.2], True)
    """
    import pandas as pd

    lines = {}
    for gamma in gammas:
        found = partition(graph, EBV(gamma=gamma), hosts=hosts, per_host=per_host).quality
        lines[gamma] = (found.inner, found.outer, found.replication, found.edge_imbalance)
    columns = ["inner", "outer", "replication", "edge imbalance"]
    return pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("γ")
