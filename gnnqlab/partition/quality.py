"""Quality of a partition, measured from its shards for any kind of cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gnnqlab.partition.shard import Shard

__all__ = ["Quality", "measure_quality"]

_DENSE = 0.9
"""Share of the largest possible number of halo rows above which no partition of the graph saves much."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Quality measures of one partition; ratios are dimensionless."""

    edge_cut: int
    """Number of edges between different owners."""
    edge_cut_share: float
    """``edge_cut`` relative to all edges."""
    remote_ratio: float
    """AdaQP Table 1: mean number of remote 1-hop neighbours over mean number of owned nodes; under a column partition,
    received rows, each a share of the columns."""
    replication: float
    """Stored rows per node, copies included (replication factor; CDFGNN Table 3, RF). Under a column partition a copy
    is a share of the columns and counts as that share: ``2 - 1 / P``."""
    inner: int
    """Number of rows sent between workers of one host."""
    outer: int
    """Number of rows sent between hosts."""
    most_inner: int
    """Largest number of rows that one worker sends within its host (CDFGNN Table 3, Inner)."""
    most_outer: int
    """Largest number of rows that one worker sends to other hosts (CDFGNN Table 3, Outer)."""
    repeated: int
    """Rows that their sender sends to another worker, too: a network with multicast would send each of them once."""
    repeated_outer: int
    """Rows between hosts that the receiver's host gets for another of its workers, too: sent once per host, these would
    be saved, and shared within the host."""
    node_imbalance: float
    """Largest number of owned nodes, relative to the mean."""
    edge_imbalance: float
    """Largest number of local edges, relative to the mean (CDFGNN Table 3, Edge IF)."""
    marginal_share: float
    """Share of marginal nodes, which have a neighbour on another worker."""
    halo_rows: Tensor
    """Number of rows sent per exchange, int64 ``(P, P)``: [sender, receiver]."""
    rows_by_kind: dict[str, Tensor]
    """Number of rows on each worker by kind, int64 ``(P,)`` each: central, marginal, and last halo or mirrors."""

    @property
    def advice(self) -> str:
        """Sentence for a partition of a dense graph, in which nearly every node is a neighbour of every worker.

        Empty below 90 % of the largest number of halo rows: for ``P`` workers a remote ratio of ``P - 1``, at which
        every row is sent to every other worker. Two workers reach it with many sparse graphs too.
        """
        workers = len(self.halo_rows)
        if workers <= 2 or self.remote_ratio < _DENSE * (workers - 1):
            return ""
        return (
            f"a cut cannot help here: {self.remote_ratio:.1f} rows per node are sent, of at most {workers - 1} with "
            f"{workers} workers, because nearly every node has neighbours on every worker; use fewer workers, or a "
            "system that sends fewer rows or bits (bns-gcn, fixed-bits)"
        )

    def bytes_per_pair(self, columns: int, bits: int = 32) -> Tensor:
        """Compute the payload bytes per exchange for rows of ``columns`` elements, int64 ``(P, P)``.

        Equals ``rows * ceil(columns * bits / 8)`` (AdaQP Fig. 2, first layer).
        """
        return self.halo_rows * -(-columns * bits // 8)


def measure_quality(shards: Sequence[Shard], *, per_host: int | None = None) -> Quality:
    """Compute the :class:`Quality` of a partition from its shards.

    Args:
        shards: every worker's shard, in rank order.
        per_host: number of workers per host; consecutive ranks share a host. Default: all on one host.
    """
    workers = len(shards)
    per_host = per_host or workers
    halo_rows = torch.stack([shard.plan("forward").received_rows for shard in shards], dim=1)  # [sender, receiver]
    host = torch.arange(workers) // per_host
    inner_rows = halo_rows * (host[:, None] == host[None, :])  # (P, P)
    outer_rows = halo_rows - inner_rows
    # Of a row, every worker gets other columns: none is repeated, and a message has 1 / P of the row.
    has_shares = shards[0].cuts == "columns"
    repeated, repeated_outer = (0, 0) if has_shares else _count_repeated(shards, per_host)
    nodes = torch.tensor([shard.num_owned for shard in shards], dtype=torch.float64)  # (P,) float64 for the means
    edges = torch.tensor([shard.num_edges for shard in shards], dtype=torch.float64)
    kinds = {kind: torch.tensor([shard.rows_by_kind[kind] for shard in shards]) for kind in shards[0].rows_by_kind}
    cut = sum(shard.num_cut_edges for shard in shards)
    num_nodes, num_edges = int(nodes.sum()), int(edges.sum())
    num_copies = (sum(int(rows.sum()) for rows in kinds.values()) - num_nodes) / (workers if has_shares else 1)
    return Quality(
        edge_cut=cut,
        edge_cut_share=cut / max(num_edges, 1),
        # the number of workers cancels out in means
        remote_ratio=int(halo_rows.sum()) / max(num_nodes, 1) / (workers if has_shares else 1),
        replication=(num_nodes + num_copies) / max(num_nodes, 1),
        inner=int(inner_rows.sum()),
        outer=int(outer_rows.sum()),
        most_inner=int(inner_rows.sum(1).max()),
        most_outer=int(outer_rows.sum(1).max()),
        repeated=repeated,
        repeated_outer=repeated_outer,
        node_imbalance=float(nodes.max() / nodes.mean()) if num_nodes else 1.0,
        edge_imbalance=float(edges.max() / edges.mean()) if num_edges else 1.0,
        marginal_share=sum(shard.num_marginal for shard in shards) / max(num_nodes, 1),
        halo_rows=halo_rows,
        rows_by_kind=kinds,
    )


def _count_repeated(shards: Sequence[Shard], per_host: int) -> tuple[int, int]:
    """Return the rows that are sent more than once to any worker, and to one other host."""
    repeated = repeated_outer = 0
    hosts = len(shards) // per_host
    for shard in shards:
        plan, own_host = shard.plan("forward"), shard.rank // per_host
        rows = torch.cat([torch.empty(0, dtype=torch.int64), *(route.rows for route in plan.send)])  # (R,)
        peers = torch.cat([rows.new_empty(0), *(torch.full_like(route.rows, route.peer) for route in plan.send)])
        repeated += rows.numel() - rows.unique().numel()
        is_outer = peers // per_host != own_host
        pairs = rows[is_outer] * hosts + peers[is_outer] // per_host  # (row, host) as one key
        repeated_outer += pairs.numel() - pairs.unique().numel()
    return repeated, repeated_outer
