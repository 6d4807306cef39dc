"""Node features of a run: those of the graph, columns of the degree, or embeddings that are trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from torch import Tensor

from gnnqlab.graph.features import DEGREE_COLUMNS, degree_features
from gnnqlab.graph.graph import Graph
from gnnqlab.kernels.noise import stream, uniform32
from gnnqlab.partition.shard import Shard

__all__ = ["NODE_FEATURES", "check_learned", "initial_embeddings", "num_features", "with_node_features"]

NODE_FEATURES = ("given", "degree", "learned")

Part = TypeVar("Part", Graph, Shard)


def with_node_features(part: Part, kind: str, *, columns: int = 1, seed: int = 0) -> Part:
    """Return a graph, or one worker's shard, with the node features of a run at its start.

    A shard holds the degrees of its nodes in the graph of message passing, so its rows equal those of that graph: for
    link prediction without the held-out edges, for the inductive protocol in the subgraph of training nodes.

    Args:
        part: the whole graph, or a shard of it.
        kind: one of ``NODE_FEATURES``.
        columns: of ``learned``.
        seed: of ``learned``.

    Example:
        >>> graph = Graph.from_edges([0, 1], [1, 2], num_nodes=3)
        >>> with_node_features(graph, "given") is graph, with_node_features(graph, "degree").num_features
        (True, 16)
    """
    if kind == "given":
        return part
    if isinstance(part, Graph):
        if kind == "degree":
            return part.with_degree_features()
        ids = part.in_degrees.new_ones(part.num_nodes).cumsum(0) - 1
        return part._replace(features=initial_embeddings(ids, part.num_nodes, columns, seed=seed))
    if kind == "learned":
        rows = initial_embeddings(part.row_ids, part.num_global_nodes, columns, seed=seed)
        return replace(part, features=rows)
    # Degrees of the rows that the model computes, then those of the halo.
    return replace(part, features=degree_features(part.in_degrees[: part.row_ids.numel()]))


def initial_embeddings(ids: Tensor, num_nodes: int, columns: int, *, seed: int) -> Tensor:
    """Return embeddings before training: Glorot-uniform (2010) for a table of all nodes, as models of OGB have them.

    Args:
        ids: nodes, int64 ``(N,)``.
        num_nodes: number of nodes of the whole graph, V.
        columns: D.
        seed: a row is a function of the seed and the id, so that it does not depend on the worker.

    Returns:
        float32 ``(N, D)``, within ``sqrt(6 / (V + D))``.

    Example:
        >>> import torch
        >>> table = initial_embeddings(torch.arange(4), 4, 2, seed=0)
        >>> torch.equal(initial_embeddings(torch.tensor([2]), 4, 2, seed=0), table[2:3]), bool((table.abs() <= 1).all())
        (True, True)
    """
    bound = math.sqrt(6.0 / (num_nodes + columns))
    drawn = uniform32(ids, columns, seed=seed, epoch=0, stream=stream("features", 0))  # (N, D) in [0, 2^32)
    return (drawn.double() / 2**31 - 1.0).mul_(bound).float()


def num_features(given: int, kind: str, columns: int) -> int:
    """Return the number of features per node of a run: ``given`` of the graph, or ``columns`` of trained embeddings."""
    return {"given": given, "degree": DEGREE_COLUMNS, "learned": columns}[kind]


def check_learned(kind: str, cuts: str, train: Mapping[str, Any]) -> None:
    """Check that a run supports trained embeddings of nodes, if it has some.

    Args:
        kind: one of ``NODE_FEATURES``.
        cuts: as ``Partitioner.cuts``.
        train: settings of training.

    Raises:
        ValueError: with rule, value and way out.
    """
    if kind != "learned":
        return
    if cuts != "nodes":
        raise ValueError(
            f"node_features 'learned' need one owner per node, as in an edge-cut, got a partition of {cuts}; choose "
            "vanilla or adaqp, or node_features 'degree'"
        )
    if train["protocol"] != "transductive":
        raise ValueError(
            f"node_features 'learned' exist for nodes that training sees, got protocol {train['protocol']!r}; choose "
            "node_features 'degree'"
        )
    if train["input_features"] != "resend":
        raise ValueError(
            f"node_features 'learned' change in every epoch, got input_features {train['input_features']!r}; choose "
            "'resend'"
        )
    if ":" in train["optimizer"]:
        raise ValueError(
            f"node_features 'learned' are updated by their owner with optimizer 'adam', 'adamw' or 'sgd', got "
            f"{train['optimizer']!r}; choose one of these"
        )
