"""EBV and its extension for hosts: each edge is assigned to the part with the least cost (CDFGNN section 6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnnqlab.former_names import accepts_former_names
from gnnqlab.kernels.sparse.vertex_cut import Ends, empty_copies, place_by_cost
from gnnqlab.partition.cut import Partitioner
from gnnqlab.partition.undirected import check_hosts, undirected
from gnnqlab.settings import Former, Range

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.vertex_cut import VertexCut

__all__ = ["EBV"]

_HOST_TERMS = ("home", "copies")


@accepts_former_names
@dataclass(frozen=True, kw_only=True)
class EBV(Partitioner):
    """EBV (Zhang et al., 2021) with CDFGNN's host term, Eq. 24: few replicas, few of them on other hosts.

    Each undirected edge, in ascending order of the degrees of its ends, is assigned to the part i that minimizes

        (1 - γ) · number of ends without a copy on i + γ · number of ends without a copy on i's host
        + α edges_i / (E/P) + β nodes_i / (V/P).

    ``host_term="copies"`` is the equation as printed. It saves little (CD-7 of ``gq.errata()``): a node with many edges
    soon has copies on every host, and a node with few edges got its host by chance. ``host_term="home"`` repeats the
    assignment ``passes`` times; in each pass, the host that held most of a node's edges in the pass before counts as
    having a copy. For γ > 0 a master is on the host with most of its node's copies; for γ = 0 (plain EBV) on the worker
    of any copy.
    """

    cuts: ClassVar[str] = "edges"
    """Edges are assigned to workers: a vertex-cut."""

    alpha: float = 1.0
    """α: weight of the edge balance."""
    beta: float = 1.0
    """β: weight of the node balance."""
    gamma: Annotated[float, Range(0, 1)] = 0.1
    """γ: weight of the host term in [0, 1]; 0 is plain EBV."""
    slack: float = 0.003
    """Allowed excess: a part has at most 1 + slack times an even share of the edges (no limit in the paper)."""
    hosts: int | None = None
    """Number of hosts, each with equally many consecutive workers; ``None``: that of the run."""
    host_term: Annotated[str, Former("near")] = "home"
    """Condition of the host term: the host is the node's ``home``, or has any of its ``copies``."""
    passes: int = 20
    """Number of further passes with ``host_term="home"``."""

    def __post_init__(self) -> None:
        if self.host_term not in _HOST_TERMS:
            raise ValueError(f"EBV host_term must be one of {_HOST_TERMS}, got {self.host_term!r}")
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"EBV gamma must lie in [0, 1], got {self.gamma}")
        for name, minimum in (("alpha", 0), ("beta", 0), ("slack", 0), ("passes", 0)):
            if not getattr(self, name) >= minimum:
                raise ValueError(f"EBV {name} must be at least {minimum}, got {getattr(self, name)}")
        if self.hosts is not None and self.hosts < 1:
            raise ValueError(f"EBV hosts must be at least 1, got {self.hosts}")

    def on_hosts(self, hosts: int) -> EBV:
        """Return a copy for a run on ``hosts`` hosts, or itself if ``hosts`` is set already."""
        return replace(self, hosts=hosts) if self.hosts is None else self

    def cut(self, graph: Graph, workers: int) -> VertexCut:
        """Assign every edge to a worker.

        Args:
            graph: any graph; both directions of an edge go to one worker.
            workers: number of parts, a multiple of the hosts.

        Raises:
            ValueError: if there are more workers than nodes, or they are not a multiple of the hosts.

        Example:
            >>> import gnnqlab as gq
            >>> cut = EBV(hosts=2).cut(gq.load("sbm:200,4,12"), 4)
            >>> cut.part.unique().tolist(), cut.owner.shape
            ([0, 1, 2, 3], torch.Size([200]))
        """
        # Without the host term (γ = 0) the number of hosts has no influence.
        hosts = (self.hosts or 1) if self.gamma > 0 else 1
        check_hosts(graph, workers, hosts)
        edges = undirected(graph)
        degrees = edges.degrees
        # Edges of low degree first: nodes with few edges keep a single copy, hubs are replicated last.
        order = np.argsort(degrees[edges.ends.u] + degrees[edges.ends.v], kind="stable")  # (E,) int64
        ends = edges.in_order(order)
        assignment, copies = self._place(ends, graph.num_nodes, workers, hosts, None)
        # The home of a node is known only after its edges are placed: each pass uses that of the pass before.
        for _ in range(self.passes if self.host_term == "home" and hosts > 1 else 0):
            home = _home(ends, assignment // (workers // hosts), graph.num_nodes, hosts)  # (N,) int32
            assignment, copies = self._place(ends, graph.num_nodes, workers, hosts, home)
        part = np.empty_like(assignment)
        part[order] = assignment  # back to the order of the undirected edges
        return edges.cut(part, graph, workers, copies=copies, hosts=hosts)

    def _place(
        self, ends: Ends, nodes: int, workers: int, hosts: int, home: NDArray[np.int32] | None
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        copies = empty_copies(nodes, workers)
        # The limit is at least an even share, so that every edge fits.
        part = place_by_cost(
            ends, copies, parts=workers, hosts=hosts, limit=int(np.ceil((1 + self.slack) * len(ends) / workers)),
            alpha=self.alpha, beta=self.beta, gamma=self.gamma if hosts > 1 else 0.0, home=home,
        )  # fmt: skip
        return part, copies


def _home(ends: Ends, host: NDArray[np.int32], nodes: int, hosts: int) -> NDArray[np.int32]:
    """Return the host with most of each node's edges, the lowest on a tie, int32 ``(N,)``."""
    count = np.zeros(nodes * hosts, np.int64)  # edges of each node on each host
    for side in (ends.u, ends.v):
        # As int64, since N * hosts may exceed int32.
        count += np.bincount(side.astype(np.int64) * hosts + host, minlength=nodes * hosts)
    return count.reshape(nodes, hosts).argmax(1).astype(np.int32)  # (N, hosts) -> (N,)
