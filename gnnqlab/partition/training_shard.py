"""One worker's shard of the subgraph induced by the training nodes, for the inductive protocol.

The nodes have the owners and the global ids of the whole graph, so that noise and dropout masks, which are functions of
the id, do not depend on the number of workers. Letters as in ``shard.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnqlab.graph.features import SparseRows
from gnnqlab.graph.link_split import edge_subgraph
from gnnqlab.partition.shard import Shard, build_shard

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["build_training_shard", "training_edges"]


def training_edges(graph: Graph) -> Graph:
    """Return the graph with the edges between training nodes only; other nodes stay, without edges.

    Example:
        >>> from gnnqlab.graph import Graph
        >>> path = Graph.from_edges([0, 1, 2], [1, 2, 3], num_nodes=4, labels=[0, 1, 0, 1], self_loops="remove")
        >>> training_edges(path.with_split([0, 1], [2], [3])).num_edges, path.num_edges
        (2, 6)
    """
    target = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)  # (E,)
    in_graph = graph.train_mask[target] & graph.train_mask[graph.indices.long()]  # (E,) bool
    return edge_subgraph(graph, in_graph, target)


def build_training_shard(graph: Graph, owner: Tensor, rank: int, workers: int) -> Shard:
    """Cut one worker's shard out of the subgraph of training nodes.

    Degrees, and so the coefficients α, are those of the subgraph. The owned nodes are the worker's training nodes; a
    worker may have none.

    Args:
        graph: the whole graph.
        owner: owner of every node, int64 ``(N_global,)``, from the partition of the whole graph.
        rank: rank of the shard's worker.
        workers: P.

    Raises:
        ValueError: if ``owner`` does not fit the graph.
    """
    return _only_training_rows(build_shard(training_edges(graph), owner, rank, workers))


def _only_training_rows(shard: Shard) -> Shard:
    """Return a shard without the rows of other nodes, none of which has an edge."""
    is_owned_kept = shard.train_mask  # (N,)
    rows = is_owned_kept.nonzero().flatten()  # (N',) local rows that stay
    is_kept = torch.cat([is_owned_kept, torch.ones(shard.num_halo, dtype=torch.bool)])  # (N + H,): the halo stays
    local_ids = is_kept.cumsum(0) - 1  # old local id -> new local id, of rows that stay
    indptr = torch.zeros(rows.numel() + 1, dtype=torch.int64)
    indptr[1:] = shard.indptr.diff()[rows].cumsum(0)
    features = shard.features
    return replace(
        shard,
        num_central=int(is_owned_kept[: shard.num_central].sum()),
        owned=shard.owned[rows],
        boundary=local_ids[shard.boundary],
        indptr=indptr,
        indices=local_ids[shard.indices.long()].to(torch.int32),  # no edge is lost, so the order stays
        in_degrees=shard.in_degrees[is_kept],
        out_degrees=shard.out_degrees[is_kept],
        importance=shard.importance[is_kept],
        features=features.index_rows(rows) if isinstance(features, SparseRows) else features[rows],
        labels=shard.labels[rows],
        train_mask=shard.train_mask[rows],
        val_mask=shard.val_mask[rows],
        test_mask=shard.test_mask[rows],
    )
