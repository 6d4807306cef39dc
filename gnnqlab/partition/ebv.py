"""EBV and its form for hosts: edges placed one by one where they cost least (CDFGNN section 6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnnqlab.kernels.sparse.vertex_cut import Ends, empty_copies, place_by_cost
from gnnqlab.partition.cut import Partitioner
from gnnqlab.partition.undirected import check_hosts, undirected
from gnnqlab.settings import Range

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.vertex_cut import VertexCut

__all__ = ["EBV"]

_NEAR = ("home", "copies")


@dataclass(frozen=True, kw_only=True)
class EBV(Partitioner):
    """EBV (Zhang et al., 2021) with CDFGNN's term for hosts, Eq. 24: few copies, few of them on other hosts.

    Edges in ascending order of their ends' degrees go to the part i with the least (1 - γ) (ends without a copy on i) +
    γ (ends without a copy on i's host) + α edges_i / (E/P) + β nodes_i / (V/P); each undirected edge once.

    ``near="copies"`` is the equation as printed. It saves little (erratum CD-7): a node of many edges soon has copies
    on every host, and one of few edges had its host by chance. ``near="home"`` places all again, ``passes`` times:
    also the host where most of a node's edges lay the time before counts as one that has a copy. Masters lie on the
    host with most of their node's copies where γ > 0; with γ = 0, plain EBV, with any copy.
    """

    cuts: ClassVar[str] = "edges"

    alpha: float = 1.0
    """α: weight of a part's share of the edges."""
    beta: float = 1.0
    """β: weight of a part's share of the nodes."""
    gamma: Annotated[float, Range(0, 1)] = 0.1
    """γ: weight of the hosts in [0, 1]; 0 is plain EBV."""
    slack: float = 0.003
    """No part takes more than 1 + slack times an even share of the edges (the paper has no such limit)."""
    hosts: int | None = None
    """Hosts with equally many consecutive workers; ``None``: as many as the run has."""
    near: str = "home"
    """What γ asks of a host: to be ``home`` to the node, or to have any of its ``copies``."""
    passes: int = 20
    """With ``near="home"``: how often edges are placed again."""

    def __post_init__(self) -> None:
        if self.near not in _NEAR:
            raise ValueError(f"EBV near must be one of {_NEAR}, got {self.near!r}")
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"EBV gamma must lie in [0, 1], got {self.gamma}")
        for name, least in (("alpha", 0), ("beta", 0), ("slack", 0), ("passes", 0)):
            if not getattr(self, name) >= least:
                raise ValueError(f"EBV {name} must be at least {least}, got {getattr(self, name)}")
        if self.hosts is not None and self.hosts < 1:
            raise ValueError(f"EBV hosts must be at least 1, got {self.hosts}")

    def on_hosts(self, hosts: int) -> EBV:
        """Return it for a run on so many hosts, unless it was told how many."""
        return replace(self, hosts=hosts) if self.hosts is None else self

    def cut(self, graph: Graph, workers: int) -> VertexCut:
        """Share the edges out.

        Args:
            graph: any graph; both directions of an edge go to one worker.
            workers: number of parts, a multiple of the hosts.

        Raises:
            ValueError: if there are more workers than nodes, or the hosts have not equally many of them.

        Example:
            >>> import gnnqlab as gq
            >>> cut = EBV(hosts=2).cut(gq.load("sbm:200,4,12"), 4)
            >>> cut.part.unique().tolist(), cut.owner.shape
            ([0, 1, 2, 3], torch.Size([200]))
        """
        hosts = (self.hosts or 1) if self.gamma > 0 else 1
        check_hosts(graph, workers, hosts)
        edges = undirected(graph)
        degrees = edges.degrees
        order = np.argsort(degrees[edges.ends.u] + degrees[edges.ends.v], kind="stable")
        ends = edges.in_order(order)
        placed, copies = self._place(ends, graph.num_nodes, workers, hosts, None)
        for _ in range(self.passes if self.near == "home" and hosts > 1 else 0):
            home = _home(ends, placed // (workers // hosts), graph.num_nodes, hosts)
            placed, copies = self._place(ends, graph.num_nodes, workers, hosts, home)
        part = np.empty_like(placed)
        part[order] = placed
        return edges.cut(part, graph, workers, copies=copies, hosts=hosts)

    def _place(
        self, ends: Ends, nodes: int, workers: int, hosts: int, home: NDArray[np.int32] | None
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        copies = empty_copies(nodes, workers)
        part = place_by_cost(
            ends, copies, parts=workers, hosts=hosts, limit=int(np.ceil((1 + self.slack) * len(ends) / workers)),
            alpha=self.alpha, beta=self.beta, gamma=self.gamma if hosts > 1 else 0.0, home=home,
        )  # fmt: skip
        return part, copies


def _home(ends: Ends, host: NDArray[np.int32], nodes: int, hosts: int) -> NDArray[np.int32]:
    """The host where most of a node's edges lie, the lowest of equals, int32 ``(N,)``."""
    count = np.zeros(nodes * hosts, np.int64)
    for side in (ends.u, ends.v):
        count += np.bincount(side.astype(np.int64) * hosts + host, minlength=nodes * hosts)
    return count.reshape(nodes, hosts).argmax(1).astype(np.int32)
