"""Mt-KaHyPar: edge-cuts with few rows to send, by partitioning a hypergraph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.partition.cut import NodeCut, Partitioner, check_workers
from gnnqlab.partition.edge_cut import fill_empty_parts

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["MtKaHyPar"]

_IMBALANCE = 0.03
"""Largest part over the mean, less 1, as in METIS."""


@dataclass(frozen=True, kw_only=True)
class MtKaHyPar(Partitioner):
    """Mt-KaHyPar's deterministic k-way partition (Gottesbüren et al., 2024): the fewest rows sent, balanced parts.

    A hypergraph has one net per node, the node and the destinations of its edges. The connectivity of a net, less one,
    is the number of workers that need the node's row, so the objective *is* the number of rows sent; METIS minimises
    cut edges, and its ``vol`` objective approximates the rows of a graph. It takes several times as long as METIS.
    """

    repeatable: ClassVar[bool] = False
    """False: it is slow, so the first cut is stored and reused."""
    package: ClassVar[str] = "mtkahypar"

    balance_edges: bool = False
    """True to balance in-edges over the workers instead of nodes."""

    def cut(self, graph: Graph, workers: int) -> NodeCut:
        """Assign every node to a worker.

        Args:
            graph: any graph, directed or not.
            workers: number of parts, at most the number of nodes.

        Raises:
            RuntimeError: if the package cannot be imported.
            ValueError: if there are more workers than nodes.
        """
        check_workers(graph, workers)
        if reason := self.unusable():
            raise RuntimeError(reason)
        owner = torch.zeros(graph.num_nodes, dtype=torch.int64)
        if workers > 1:
            owner = fill_empty_parts(torch.tensor(_partition(graph, workers, self.balance_edges)), workers)
        return NodeCut(owner=owner, workers=workers, library=self.package)


def _partition(graph: Graph, workers: int, balance_edges: bool) -> list[int]:
    import mtkahypar

    library = mtkahypar.initialize(1, False)  # of one thread, without warnings
    mtkahypar.set_seed(0)
    context = library.context_from_preset(mtkahypar.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(workers, _IMBALANCE, mtkahypar.Objective.KM1)
    context.logging = False
    nets = _nets(graph)
    weights: list[Any] = []
    if balance_edges:
        weights = [graph.in_degrees.clamp(min=1).tolist(), [1] * len(nets)]  # of nodes, of nets
    hypergraph = library.create_hypergraph(context, graph.num_nodes, len(nets), nets, *weights)
    owners: list[int] = hypergraph.partition(context).get_partition()
    return owners


def _nets(graph: Graph) -> list[list[int]]:
    """Return each node with the destinations of its edges, without nodes that have no edge to another node."""
    destination = torch.repeat_interleave(graph.in_degrees)  # (E,)
    source = graph.indices.long()
    keys = torch.unique(source * graph.num_nodes + destination)  # (source, destination) in ascending order, each once
    source, destination = keys // graph.num_nodes, keys % graph.num_nodes
    no_loop = source != destination
    source, destination = source[no_loop], destination[no_loop]
    starts = _starts(source)
    firsts, parts = source[starts].tolist(), destination.tensor_split(starts[1:])
    return [[first, *part.tolist()] for first, part in zip(firsts, parts, strict=True)] if firsts else []


def _starts(ascending: Tensor) -> Tensor:
    """Return the position of the first of each run of equal values."""
    is_start = torch.ones_like(ascending, dtype=torch.bool)
    is_start[1:] = ascending[1:] != ascending[:-1]
    return is_start.nonzero().flatten()
