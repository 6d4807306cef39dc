"""Rows and edges of each worker under an edge-cut, counted from the owners; no shard is built, so P may be large.

Letters: n nodes, E edges, P workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from gnnqlab.former_names import FormerMember, former_functions
from gnnqlab.graph.graph import Graph
from gnnqlab.partition.cut import Cut, Partitioner, cut_name
from gnnqlab.partition.parts import cut_graph

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["MAX_WORKERS", "CutCounts", "count_by_workers"]

Counts = NDArray[np.int64]

MAX_WORKERS = 4096
"""Limit of P: counts are stored for P² pairs, 128 MiB here."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CutCounts:
    """Rows and edges by worker, exactly those of the shards of the same cut."""

    rows: Counts
    """Halo rows from owner to holder, ``(P, P)``; gradients go in the opposite direction."""
    owned_nodes: Counts
    """Owned nodes, ``(P,)``."""
    edges: Counts
    """Edges that end at owned nodes, ``(P,)``."""
    marginal_edges: Counts
    """Edges that end at marginal nodes, whose sums need halo rows, ``(P,)``."""
    remote_edges: Counts
    """Edges that begin at halo nodes, whose gradients are sent, ``(P,)``."""

    @classmethod
    def from_cut(cls, graph: Graph, cut: Cut) -> Self:
        """Count the rows and edges of an edge-cut.

        Raises:
            ValueError: if the cut is a vertex-cut, or there are more workers than `MAX_WORKERS`.

        Example:
            >>> from gnnqlab import course
            >>> from gnnqlab.partition.parts import cut_graph
            >>> counts = CutCounts.from_cut(course.ten_nodes(), cut_graph(course.ten_nodes(), course.Halves(), 2))
            >>> counts.rows.tolist(), counts.owned_nodes.tolist(), counts.halo_rows
            ([[0, 2], [2, 0]], [5, 5], 4)
        """
        kind, workers = cut.kind, cut.workers
        if kind != "nodes":
            raise ValueError(f"halo rows need an edge-cut, got {cut_name(kind)}; train a short run instead")
        if workers > MAX_WORKERS:
            raise ValueError(f"workers must be at most {MAX_WORKERS} to count every pair, got {workers}")
        owner, degrees = cut.owner.numpy(), graph.in_degrees.numpy()
        source = graph.indices.numpy().astype(np.int64)  # (E,); int64, since keys below exceed int32
        end = np.repeat(np.arange(graph.num_nodes), degrees)  # (E,), node at which each edge ends
        worker = owner[end]  # (E,), worker of each edge
        is_remote = owner[source] != worker  # (E,) bool: edges from another worker's node
        # One halo row per (holder, node): many edges of a worker share a source.
        pairs = np.unique(worker[is_remote] * graph.num_nodes + source[is_remote])
        holder, sent_nodes = pairs // graph.num_nodes, pairs % graph.num_nodes  # (Ω,) each: worker and global node
        marginal_nodes = np.unique(end[is_remote])  # nodes with a neighbour in the halo
        rows = np.bincount(owner[sent_nodes] * workers + holder, minlength=workers * workers)
        return cls(
            rows=rows.reshape(workers, workers),  # (P²,) -> (P, P), [owner, holder]
            owned_nodes=np.bincount(owner, minlength=workers),
            edges=np.bincount(worker, minlength=workers),
            marginal_edges=np.bincount(np.repeat(owner[marginal_nodes], degrees[marginal_nodes]), minlength=workers),
            remote_edges=np.bincount(worker[is_remote], minlength=workers),
        )

    of = FormerMember("from_cut")
    owned = FormerMember("owned_nodes")
    held = FormerMember("local_rows")

    @property
    def workers(self) -> int:
        return self.owned_nodes.size

    @property
    def halo_rows(self) -> int:
        """Ω: halo rows of all workers, which are the rows sent in one aggregation."""
        return int(self.rows.sum())

    @property
    def local_rows(self) -> Counts:
        """Rows on each worker: owned and halo, ``(P,)``."""
        return self.owned_nodes + self.rows.sum(0)

    @property
    def partners(self) -> Counts:
        """Number of workers from which each worker has halo rows, ``(P,)``."""
        return (self.rows > 0).sum(0)

    def independent_edges(self, direction: str) -> Counts:
        """Count the edges whose terms need no remote rows, ``forward`` or ``backward``, ``(P,)``."""
        return self.edges - (self.marginal_edges if direction == "forward" else self.remote_edges)

    def dependent_edges(self, direction: str) -> Counts:
        """Count the edges whose terms need remote rows, ``(P,)``."""
        return self.edges - self.independent_edges(direction)


def count_by_workers(
    graph: Graph, partition: Partitioner, *, workers: Sequence[int] = (2, 4, 8, 16, 32, 64)
) -> DataFrame:
    """Return the counted costs of cutting a graph, by number of workers.

    Args:
        graph: the whole graph.
        partition: a partitioner of nodes (edge-cut).
        workers: numbers of workers P.

    Returns:
        One row per P: ``halo_rows`` Ω, ``halo_share`` (Ω over the nodes), ``central_share`` (of the edges, forward),
        ``partners`` (most workers from which one worker has halo rows), ``held_rows`` (most owned and halo rows on a
        worker), ``imbalance`` (most edges over the mean).

    Raises:
        ValueError: if the partitioner makes a vertex-cut.

    Example:
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.partition import Random
        >>> found = count_by_workers(load("sbm:40,2,4"), Random(), workers=(1, 40))
        >>> found["halo_rows"].tolist()[0], found["central_share"].tolist()[0], found["held_rows"].tolist()[0]
        (0, 1.0, 40)
    """
    import pandas as pd

    rows = []
    for count in workers:
        counts = CutCounts.from_cut(graph, cut_graph(graph, partition, count))
        rows.append(
            {
                "workers": count,
                "halo_rows": counts.halo_rows,
                "halo_share": counts.halo_rows / graph.num_nodes,
                "central_share": float(counts.independent_edges("forward").sum() / max(1, graph.num_edges)),
                "partners": int(counts.partners.max()),
                "held_rows": int(counts.local_rows.max()),
                "imbalance": float(counts.edges.max() / max(1e-12, counts.edges.mean())),  # a graph may lack edges
            }
        )
    return pd.DataFrame(rows).set_index("workers")


__getattr__ = former_functions(__name__, {"counted_by_workers": "count_by_workers"})
