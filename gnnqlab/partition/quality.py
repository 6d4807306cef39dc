"""What a partition costs, asked of the shards that training uses, whatever was cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gnnqlab.partition.shard import Shard

__all__ = ["Quality", "measure_quality"]


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Figures of one partition; ratios are pure numbers."""

    edge_cut: int
    """Edges whose ends have different owners."""
    edge_cut_share: float
    """``edge_cut`` over all edges."""
    remote_ratio: float
    """AdaQP Table 1: mean number of remote 1-hop neighbours over mean number of owned nodes."""
    replication: float
    """Rows that workers hold, copies included, per node (CDFGNN Table 3, RF)."""
    inner: int
    """Rows that travel between workers of one host."""
    outer: int
    """Rows that travel between hosts."""
    most_inner: int
    """Rows that one worker sends within its host, at most (CDFGNN Table 3, Inner)."""
    most_outer: int
    """Rows that one worker sends to other hosts, at most (CDFGNN Table 3, Outer)."""
    node_imbalance: float
    """Most owned nodes over the mean."""
    edge_imbalance: float
    """Most local edges over the mean (CDFGNN Table 3, Edge IF)."""
    marginal_share: float
    """Marginal nodes over all nodes."""
    halo_rows: Tensor
    """Rows that travel per exchange, int64 ``(P, P)``: [sender, receiver]."""
    rows_by_kind: dict[str, Tensor]
    """Rows that each worker holds, int64 ``(P,)`` for each kind; copies of others' rows come last."""

    def bytes_per_pair(self, columns: int, bits: int = 32) -> Tensor:
        """Return payload bytes per exchange for rows of ``columns`` elements, int64 ``(P, P)``.

        Equals ``rows * ceil(columns * bits / 8)`` (AdaQP Fig. 2, first layer).
        """
        return self.halo_rows * -(-columns * bits // 8)


def measure_quality(shards: Sequence[Shard], *, per_host: int | None = None) -> Quality:
    """Compute :class:`Quality` from all shards of a partition.

    Args:
        shards: every worker's shard, in rank order.
        per_host: workers on one host; consecutive ranks share a host. Default: all on one.
    """
    workers = len(shards)
    per_host = per_host or workers
    halo_rows = torch.stack([shard.plan("forward").received_rows for shard in shards], dim=1)
    host = torch.arange(workers) // per_host
    inner_rows = halo_rows * (host[:, None] == host[None, :])
    outer_rows = halo_rows - inner_rows
    nodes = torch.tensor([shard.num_owned for shard in shards], dtype=torch.float64)
    edges = torch.tensor([shard.num_edges for shard in shards], dtype=torch.float64)
    kinds = {kind: torch.tensor([shard.rows_by_kind[kind] for shard in shards]) for kind in shards[0].rows_by_kind}
    cut = sum(shard.num_cut_edges for shard in shards)
    num_nodes, num_edges, num_rows = int(nodes.sum()), int(edges.sum()), sum(int(rows.sum()) for rows in kinds.values())
    return Quality(
        edge_cut=cut,
        edge_cut_share=cut / max(num_edges, 1),
        remote_ratio=int(halo_rows.sum()) / max(num_nodes, 1),
        replication=num_rows / max(num_nodes, 1),
        inner=int(inner_rows.sum()),
        outer=int(outer_rows.sum()),
        most_inner=int(inner_rows.sum(1).max()),
        most_outer=int(outer_rows.sum(1).max()),
        node_imbalance=float(nodes.max() / nodes.mean()) if num_nodes else 1.0,
        edge_imbalance=float(edges.max() / edges.mean()) if num_edges else 1.0,
        marginal_share=sum(shard.num_marginal for shard in shards) / max(num_nodes, 1),
        halo_rows=halo_rows,
        rows_by_kind=kinds,
    )
