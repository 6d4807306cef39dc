"""Node features of a run: those of the graph, or columns of the degree for graphs without features."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from gnnqlab.graph.features import DEGREE_COLUMNS, degree_features
from gnnqlab.graph.graph import Graph
from gnnqlab.partition.shard import Shard

__all__ = ["NODE_FEATURES", "num_features", "with_node_features"]

NODE_FEATURES = ("given", "degree")

Part = TypeVar("Part", Graph, Shard)


def with_node_features(part: Part, kind: str) -> Part:
    """Return a graph, or one worker's shard, with the node features of a run.

    A shard holds the degrees of its nodes in the graph of message passing, so its rows equal those of that graph: for
    link prediction without the held-out edges, for the inductive protocol in the subgraph of training nodes.

    Args:
        part: the whole graph, or a shard of it.
        kind: one of ``NODE_FEATURES``.

    Example:
        >>> graph = Graph.from_edges([0, 1], [1, 2], num_nodes=3)
        >>> with_node_features(graph, "given") is graph, with_node_features(graph, "degree").num_features
        (True, 16)
    """
    if kind == "given":
        return part
    if isinstance(part, Graph):
        return part.with_degree_features()
    # Degrees of the rows that the model computes, then those of the halo.
    return replace(part, features=degree_features(part.in_degrees[: part.row_ids.numel()]))


def num_features(given: int, kind: str) -> int:
    """Return the number of features per node of a run on a graph with ``given`` features."""
    return given if kind == "given" else DEGREE_COLUMNS
