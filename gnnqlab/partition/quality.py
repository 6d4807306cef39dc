"""What a partition costs, computed from the shards that training uses."""

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
    """Copies per node: (owned + halo rows, all workers) / nodes."""
    inner: int
    """Halo rows whose owner is another worker on the same host."""
    outer: int
    """Halo rows whose owner is on another host."""
    node_imbalance: float
    """Most owned nodes over the mean."""
    edge_imbalance: float
    """Most local edges over the mean."""
    marginal_share: float
    """Marginal nodes over all nodes."""
    halo_rows: Tensor
    """Rows that travel per exchange, int64 ``(P, P)``: [sender, receiver]."""

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
    halo_rows = torch.stack([shard.halo_splits for shard in shards], dim=1)
    host = torch.arange(workers) // per_host
    same_host = host[:, None] == host[None, :]
    nodes = torch.tensor([shard.num_owned for shard in shards], dtype=torch.float64)
    edges = torch.tensor([shard.num_edges for shard in shards], dtype=torch.float64)
    cut = sum(int((shard.indices >= shard.num_owned).sum()) for shard in shards)
    marginal = sum(shard.num_owned - shard.num_central for shard in shards)
    num_nodes, num_edges, num_halo = int(nodes.sum()), int(edges.sum()), int(halo_rows.sum())
    return Quality(
        edge_cut=cut,
        edge_cut_share=cut / max(num_edges, 1),
        remote_ratio=num_halo / max(num_nodes, 1),
        replication=(num_nodes + num_halo) / max(num_nodes, 1),
        inner=int(halo_rows[same_host].sum()),
        outer=int(halo_rows[~same_host].sum()),
        node_imbalance=float(nodes.max() / nodes.mean()) if num_nodes else 1.0,
        edge_imbalance=float(edges.max() / edges.mean()) if num_edges else 1.0,
        marginal_share=marginal / max(num_nodes, 1),
        halo_rows=halo_rows,
    )
