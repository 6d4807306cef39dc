"""One worker's share of a graph cut into contiguous blocks of rows (CAGNET, SANCUS).

Local ids: the rows of the worker's own block in ascending order, then those of the other blocks, block after block. A
shard holds two matrices over them, its rows of A and its rows of A's transpose: gradients follow the out-edges, which
differ from the in-edges on a directed graph. Whole blocks are sent, so all other nodes are halo nodes, though at most
one remote block is in memory at a time.

With replication c, the workers ``i c .. i c + c - 1`` all compute the rows of block i, each from its own share of the
columns; they share the masters of the block's nodes, which count in loss and score, in equal parts.

Letters: N rows of the own block, V nodes, Q blocks, P workers, c replication.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from gnnqlab.graph.edge_data import refuse_features
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.partition.coefficients import aggregation_coefficients, divisors
from gnnqlab.partition.plan import Plan, Route
from gnnqlab.partition.shard import Shard, graph_fields, weights_of

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["BlockMatrix", "BlockShard", "block_sizes", "build_block_shard"]


@dataclass(frozen=True, eq=False)
class BlockMatrix(Adjacency):
    """A worker's rows of A and of A's transpose."""

    returning: Adjacency | None = None
    """Out-edges of this worker's rows, ``(N, V)``, for the backward pass."""

    def to(self, device: torch.device | str) -> BlockMatrix:
        if torch.device(device) == self.device:
            return self
        adjacency = Adjacency(*self.csr, num_columns=self.num_columns).to(device)
        out_edges = None if self.returning is None else self.returning.to(device)
        return BlockMatrix(*adjacency.csr, num_columns=self.num_columns, returning=out_edges)


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockShard(Shard):
    """One worker's shard of a block partition: the in-edges and out-edges of its block.

    Fields of the base class: ``owned`` are the nodes mastered by this worker, ``halo`` all others; features, labels
    and masks have a row per node of the block ``(N,)``, masks are false where the master is another worker; degrees
    are of all local nodes ``(V,)``. No row is central: each may have neighbours in any block.
    """

    cuts: ClassVar[str] = "blocks"

    replication: int
    """Number of workers that compute the same block, c."""
    block: Tensor
    """Global ids of the block's rows, ascending, int64 ``(N,)``."""
    block_splits: Tensor
    """Number of rows of each block, int64 ``(Q,)``."""
    leaving_indptr: Tensor
    """CSR by source over the block's rows, int64 ``(N + 1,)``."""
    leaving_indices: Tensor
    """Local column ids of the destinations, int32."""
    leaving_weights: Tensor | None = None
    """Weights of the out-edges, as ``edge_weights``."""

    @property
    def row_ids(self) -> Tensor:
        return self.block

    @property
    def num_columns(self) -> int:
        return self.num_global_nodes

    @property
    def row(self) -> int:
        """Index of this block, i."""
        return self.rank // self.replication

    @property
    def column(self) -> int:
        """Index of this worker's share of the columns, j."""
        return self.rank % self.replication

    @property
    def num_marginal(self) -> int:
        """Number of owned nodes with a neighbour in another block."""
        return int(self._needs_others[torch.isin(self.block, self.owned)].sum())  # (N,) -> (masters of this worker,)

    @property
    def num_cut_edges(self) -> int:
        return int(self._of_copies.sum())

    def independent_edges(self, direction: str) -> int:
        """Count the edges whose both ends are in this block; they need no row of another worker."""
        indices = self.indices if direction == "forward" else self.leaving_indices
        return int((indices < self.block.numel()).sum())

    @property
    def _of_copies(self) -> Tensor:
        return self.indices >= self.block.numel()

    @property
    def _needs_others(self) -> Tensor:
        is_marginal = torch.zeros(self.block.numel(), dtype=torch.bool)
        rows = torch.repeat_interleave(torch.arange(self.block.numel()), self.indptr.diff())  # (E,) row of each in-edge
        is_marginal[rows[self._of_copies]] = True
        return is_marginal

    @property
    def rows_by_kind(self) -> dict[str, int]:
        return {"central": self.num_owned - self.num_marginal, "marginal": self.num_marginal, "halo": self.num_halo}

    def plan(self, direction: str, device: torch.device | str = "cpu") -> Plan:
        """Return the exchange plan of whole blocks: all rows to all workers, gradients back to the owners.

        Raises:
            ValueError: if ``direction`` is neither ``forward`` nor ``backward``.
        """
        return replace(super().plan(direction, device), to_all=direction == "forward")

    def gather(self, device: torch.device | str = "cpu") -> Plan:
        """Return the plan that reduces partial sums of the block at each node's master."""
        own_route = self._slice(self.rank, device)
        # Each member has partial sums of all rows of the block: a row's sum is completed at the row's master.
        send = tuple(self._slice(peer, device) for peer in self._members)
        receive = tuple(replace(own_route, peer=peer) for peer in self._members)
        return Plan(self.rank, self.workers, send=send, receive=receive, accumulate=True, parts=True)

    def scatter(self, device: torch.device | str = "cpu") -> Plan:
        """Return the plan that sends totals from masters to all workers that compute the block."""
        own_route = self._slice(self.rank, device)
        send = tuple(replace(own_route, peer=peer) for peer in self._members)
        receive = tuple(self._slice(peer, device) for peer in self._members)
        return Plan(self.rank, self.workers, send=send, receive=receive, accumulate=False, to_all=True)

    @property
    def _members(self) -> list[int]:
        """The other workers that compute this block."""
        first = self.row * self.replication
        return [each for each in range(first, first + self.replication) if each != self.rank]

    def _slice(self, member: int, device: torch.device | str) -> Route:
        """Return the route of the block's rows that are mastered by ``member``."""
        sizes = block_sizes(self.block.numel(), self.replication)
        place = member % self.replication
        first = int(sizes[:place].sum())
        rows = torch.arange(first, first + int(sizes[place]))  # consecutive
        return Route(peer=member, rows=rows.to(device), ids=self.block[rows].to(device), first=first)

    def stages(self, column: int | None = None) -> range:
        """Return the blocks summed by a column of workers: an equal share, and the remainder for the last column."""
        blocks, c = self.block_splits.numel(), self.replication
        share = blocks // c
        j = self.column if column is None else column
        return range(j * share, blocks if j == c - 1 else (j + 1) * share)

    def columns_of(self, block: int) -> tuple[int, int]:
        """Return the local ids of a block's nodes as a half-open interval ``(first, end)``."""
        size = int(self.block_splits[block])
        # The own block has the first local ids, so blocks before it are shifted by its size.
        if block == self.row:
            return 0, size
        offset = int(self.block_splits[:block].sum())
        first = offset + self.block.numel() if block < self.row else offset
        return first, first + size

    def matrix(self, alpha: str) -> BlockMatrix:
        """Return this worker's rows of A and of its transpose, with weights α, ``(N, V)`` each."""
        out_edges = Adjacency(
            self.leaving_indptr, self.leaving_indices, self._leaving_alpha(alpha), num_columns=self.num_columns
        )
        in_edges = self.indptr, self.indices, self.alpha(alpha)
        return BlockMatrix(*in_edges, num_columns=self.num_columns, returning=out_edges)

    def _leaving_alpha(self, kind: str) -> Tensor:
        """Return α of the out-edges: source and destination are swapped."""
        if kind == "mean":
            # The mean divides by the in-degree of the destination, which is the column of an out-edge.
            alpha = divisors(self.in_degrees).reciprocal()[self.leaving_indices.long()]  # (V,) -> (E,)
            return (alpha if self.leaving_weights is None else alpha * self.leaving_weights).float()
        structure = self.leaving_indptr, self.leaving_indices, self.out_degrees, self.in_degrees
        return aggregation_coefficients(kind, *structure, self.leaving_weights)


def block_sizes(num_nodes: int, blocks: int) -> Tensor:
    """Return the sizes of equal blocks, int64 ``(Q,)``; the first few are one row longer.

    Example:
        >>> block_sizes(10, 4).tolist()
        [3, 3, 2, 2]
    """
    return torch.tensor([(num_nodes + blocks - 1 - each) // blocks for each in range(blocks)])


def build_block_shard(graph: Graph, owner: Tensor, rank: int, workers: int, replication: int) -> BlockShard:
    """Cut one worker's :class:`BlockShard` out of a graph.

    Args:
        graph: the whole graph.
        owner: the master of every node, int64 ``(V,)``, ascending.
        rank: rank of the shard's worker.
        workers: P.
        replication: c.

    Raises:
        ValueError: if ``owner`` is of another graph, or edges have features.
    """
    if graph.edge_features is not None:
        refuse_features("a block partition", "distributes edges without their features")
    num_nodes = graph.num_nodes
    if owner.shape != (num_nodes,):
        raise ValueError(
            f"owner must hold a master for each of {num_nodes} nodes, got shape {tuple(owner.shape)}; cut this graph"
        )
    splits = (owner // replication).bincount(minlength=workers // replication)  # (Q,)
    row, firsts = rank // replication, torch.cat([torch.zeros(1, dtype=torch.int64), splits.cumsum(0)])  # (Q + 1,)
    first, last = int(firsts[row]), int(firsts[row + 1])
    block = torch.arange(first, last)
    nodes = torch.cat([block, torch.arange(first), torch.arange(last, num_nodes)])  # own block first
    local_ids = torch.empty(num_nodes, dtype=torch.int32)  # (V,) global id -> local id
    local_ids[nodes] = torch.arange(num_nodes, dtype=torch.int32)

    source = graph.indices.long()
    target = torch.repeat_interleave(torch.arange(num_nodes), graph.in_degrees)  # (E,) in the order of indices
    # CSR by destination for the forward pass, by source for the backward pass.
    in_edges, out_edges = (_rows(*ends, first, last, local_ids) for ends in ((target, source), (source, target)))
    masters = owner[block] == rank
    is_remote = owner != rank
    return BlockShard(
        **graph_fields(graph, rows=block, nodes=nodes, edges=in_edges[2], masters=masters),
        rank=rank,
        workers=workers,
        num_central=0,
        owned=block[masters],
        halo=is_remote.nonzero().flatten(),
        halo_splits=owner[is_remote].bincount(minlength=workers),
        boundary=torch.arange(int(masters.sum())).repeat(workers - 1),  # all masters, to every other worker
        boundary_splits=masters.sum() * (torch.arange(workers) != rank),
        indptr=in_edges[0],
        indices=in_edges[1],
        importance=torch.zeros(num_nodes),
        replication=replication,
        block=block,
        block_splits=splits,
        leaving_indptr=out_edges[0],
        leaving_indices=out_edges[1],
        leaving_weights=weights_of(graph, out_edges[2]),
    )


def _rows(rows: Tensor, columns: Tensor, first: int, last: int, local_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the CSR of the edges with rows in ``[first, last)``, columns as local ids, and the edges' indices."""
    edges = ((rows >= first) & (rows < last)).nonzero().flatten()  # ascending indices of the edges
    local_rows = rows[edges] - first
    order = torch.argsort(local_rows, stable=True)  # stable: a row's edges stay in the graph's order
    indptr = torch.zeros(last - first + 1, dtype=torch.int64)
    indptr[1:] = local_rows.bincount(minlength=last - first).cumsum(0)
    return indptr, local_ids[columns[edges[order]]], edges[order]
