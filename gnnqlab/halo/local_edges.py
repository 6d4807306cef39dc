"""Local edges of each rank, its halo nodes and the rows to send, from edges and owners in global ids.

Letters: V source nodes, E edges of this rank, N own source nodes, H halo nodes, P ranks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.halo.halo_lists import MAX_IDS, RowLists, is_integer
from gnnqlab.plain_values import all_gather_values

__all__ = ["EdgeOwners", "LocalEdges", "Localized"]

_NONE = torch.empty(0, dtype=torch.int64)
_NUM_NUMBERS = 6
"""Numbers of each rank before its counts, in :meth:`EdgeOwners.localize`."""
_MAX_CAPACITY = 4096
"""Most ids of a rank that are gathered with its numbers: 32 KiB, which every rank receives from every other."""


@dataclass(frozen=True, eq=False)
class LocalEdges:
    """Edges of one rank in local numbers."""

    edge_index: Tensor
    """Source and target of each edge, int64 ``(2, E)``: rows of ``torch.cat([x, halo])``, own rows first. With
    ``target_owner``, targets are rows of the own targets."""
    positions: Tensor
    """Position of each edge in the ``edge_index`` that rank ``ranks`` has passed, int64 ``(E,)``."""
    ranks: Tensor
    """Rank that has passed the edge, int64 ``(E,)``; another one only for edges to halo nodes, with ``hops > 1``."""
    own_ids: Tensor
    """Global ids of the own rows, ascending, int64 ``(N,)``."""
    target_ids: Tensor
    """Global ids of the own targets, ascending; ``own_ids`` without ``target_owner``."""


@dataclass(frozen=True, eq=False)
class Localized:
    """Result of :meth:`EdgeOwners.localize`."""

    edges: LocalEdges
    lists: RowLists | None
    """Rows to send and to receive; ``None`` if no rank has other halo nodes than before."""
    numbers: tuple[int, ...]
    """Number of the plan on each rank."""


class EdgeOwners:
    """Owners of the nodes of a graph, by which edges are localized; collective over a group.

    Args:
        owner: rank that owns each source node, ``(V,)``.
        target_owner: rank that owns each target node; ``None``: source and target nodes are the same.
        hops: number of layers that one exchange serves.
        settings: other settings, which must be equal on all ranks.
        rank, workers, group: this rank, number of ranks, and process group.
        number: number of the plan in its process.
    """

    def __init__(
        self,
        owner: Tensor,
        target_owner: Tensor | None,
        hops: int,
        *,
        settings: tuple[object, ...],
        rank: int,
        workers: int,
        group: dist.ProcessGroup | None,
        number: int,
    ) -> None:
        self._rank, self._workers, self._group, self._hops, self._number = rank, workers, group, hops, number
        over_nccl = workers > 1 and dist.get_backend(group) == "nccl"
        self._device = torch.device("cuda", torch.cuda.current_device()) if over_nccl else torch.device("cpu")
        self._is_bipartite = target_owner is not None
        owners = [torch.as_tensor(owner).cpu(), torch.as_tensor(owner if target_owner is None else target_owner).cpu()]
        self._fault = self._owner_fault(owners)
        self._digest = _digest(owners, hops, *settings)
        if self._fault:
            owners = [_NONE, _NONE]
        self._owner, self._target_owner = (each.long() for each in owners)
        self._own_ids = (self._owner == rank).nonzero().flatten()
        self._target_ids = (self._target_owner == rank).nonzero().flatten()
        self._places = _places(self._own_ids, self._owner.numel())  # (V,) local row of each own or halo node
        # Shared for one kind of nodes, because with several hops halo nodes are targets, too.
        self._target_places = self._places
        if self._is_bipartite:
            self._target_places = _places(self._target_ids, self._target_owner.numel())
        self._halo_ids = _NONE
        self._is_first = True
        self._capacity = 0  # ids that are gathered with the numbers of a rank, in place of a second collective

    def localize(self, edge_index: Tensor) -> Localized:
        """Localize the edges of all ranks.

        Args:
            edge_index: source and target of each edge in global ids, ``(2, e)``: all edges on every rank, or on each
                rank those to its own targets.

        Raises:
            ValueError: on all ranks, if the edges of one break a rule; it names the rank.
        """
        fault = self._fault or self._edge_fault(edge_index)
        edges = torch.empty(2, 0, dtype=torch.int64) if fault else edge_index.detach().to("cpu", torch.int64)
        is_own = self._target_owner.index_select(0, edges[1]) == self._rank  # index_select: twice as fast as an index
        if bool(is_own.all()):  # the neighbour list of a rank, which is not copied
            positions, (source, target) = torch.arange(edges.shape[1]), edges
        else:
            positions = is_own.nonzero().flatten()
            source, target = edges.index_select(1, positions)
        num_kept = positions.numel()
        halo_ids, counts = self._halo(source)
        is_new = self._is_first or self._hops > 1 or not torch.equal(halo_ids, self._halo_ids)
        numbers = [bool(fault), edges.shape[1], num_kept, self._digest, self._number, is_new, *counts]
        gathered, work = self._start_gather(numbers, halo_ids)
        # Local rows need no other rank, so they are looked up while the numbers are gathered.
        local = self._local(source, target, halo_ids) if self._hops == 1 else None
        if work is not None:
            work.wait()
        columns = gathered.cpu()
        self._check(columns[:, :_NUM_NUMBERS].tolist(), fault)
        ranks, lists = torch.full_like(positions, self._rank), None
        if local is None:
            source, target, ranks, positions = self._further_hops(source, target, positions)
            halo_ids, counts = self._halo(source)
            lists = self._lists(halo_ids.split(counts), self._swap(halo_ids.split(counts)))
            local = self._local(source, target, halo_ids)
        elif bool(columns[:, _NUM_NUMBERS - 1].any()):
            lists = self._lists(halo_ids.split(counts), self._requests(halo_ids.split(counts), columns))
        self._halo_ids, self._is_first = halo_ids, False
        found = (each.to(edge_index.device) for each in (local, positions, ranks, self._own_ids, self._target_ids))
        return Localized(LocalEdges(*found), lists, tuple(columns[:, 4].tolist()))

    def _local(self, source: Tensor, target: Tensor, halo_ids: Tensor) -> Tensor:
        """Return edges in local rows, int64 ``(2, E)``."""
        # Halo nodes are the rows after the own ones; places of earlier halo nodes are never read.
        num_own = self._own_ids.numel()
        self._places[halo_ids] = torch.arange(num_own, num_own + halo_ids.numel())
        local = torch.empty(2, source.numel(), dtype=torch.int64)
        torch.index_select(self._places, 0, source, out=local[0])
        torch.index_select(self._target_places, 0, target, out=local[1])
        return local

    def _halo(self, source: Tensor) -> tuple[Tensor, list[int]]:
        """Return the ids of sources that other ranks own, by owner and then ascending, and their number by owner."""
        is_source = torch.zeros(self._owner.numel(), dtype=torch.bool)  # (V,); faster than sorting the sources
        is_source.index_fill_(0, source, True)
        is_source[self._own_ids] = False
        ids = is_source.nonzero().flatten()
        owners = self._owner[ids]
        return ids[owners.argsort(stable=True)], torch.bincount(owners, minlength=self._workers).tolist()

    def _further_hops(self, source: Tensor, target: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        """Add the edges to halo nodes within ``hops - 1`` hops, which their owners send."""
        own_edges = torch.stack([source, target, torch.full_like(positions, self._rank), positions])  # (4, E)
        edges, requested = own_edges, torch.zeros(self._owner.numel(), dtype=torch.bool)
        for _ in range(self._hops - 1):
            halo_ids, _ = self._halo(edges[0])
            frontier = halo_ids[~requested[halo_ids]]
            requested[frontier] = True
            owners = self._owner[frontier]
            requests = self._swap([frontier[owners == peer] for peer in range(self._workers)])
            replies = [own_edges[:, torch.isin(target, ids)] for ids in requests]  # edges to the nodes of a request
            received = self._swap([reply.flatten() for reply in replies])
            edges = torch.cat([edges, *(reply.view(4, -1) for reply in received)], dim=1)
        return tuple(edges)

    def _lists(self, halo_parts: Sequence[Tensor], requests: Sequence[Tensor]) -> RowLists:
        return RowLists(self._own_ids.numel(), [self._places[ids] for ids in requests], requests, halo_parts)

    def _requests(self, halo_parts: Sequence[Tensor], columns: Tensor) -> list[Tensor]:
        """Return the ids that each rank requests of this one, from gathered numbers or in a second collective."""
        first = _NUM_NUMBERS + self._workers
        counts = columns[:, _NUM_NUMBERS:first]  # (P, P): rows from each owner to each rank
        totals, capacity = counts.sum(1), self._capacity
        # Equal on all ranks, because all of them have the same numbers.
        self._capacity = max(capacity, min(int(totals.max()) * 5 // 4, _MAX_CAPACITY))
        if int(totals.max()) > capacity:
            return self._swap(halo_parts, counts[:, self._rank].tolist())
        starts = (first + counts[:, : self._rank].sum(1)).tolist()
        ends = (first + counts[:, : self._rank + 1].sum(1)).tolist()
        return [columns[rank, start:end] for rank, (start, end) in enumerate(zip(starts, ends, strict=True))]

    def _swap(self, parts: Sequence[Tensor], sizes: list[int] | None = None) -> list[Tensor]:
        """Send a part to each rank and return the parts received, int64; ``sizes`` of the latter if they are known."""
        if self._workers == 1:
            return [_NONE]
        if sizes is None:
            received_sizes = torch.empty(self._workers, dtype=torch.int64, device=self._device)
            own_sizes = torch.tensor([part.numel() for part in parts], device=self._device)
            dist.all_to_all_single(received_sizes, own_sizes, group=self._group)
            sizes = received_sizes.tolist()
        received = torch.empty(sum(sizes), dtype=torch.int64, device=self._device)
        sent = torch.cat(list(parts)).to(self._device)
        dist.all_to_all_single(received, sent, sizes, [part.numel() for part in parts], group=self._group)
        return list(received.cpu().split(sizes))

    def _start_gather(self, numbers: Sequence[int], ids: Tensor) -> tuple[Tensor, dist.Work | None]:
        """Start to gather the numbers of all ranks, int64 ``(P, n)``, and as many ids as there is capacity for."""
        own = torch.zeros(len(numbers) + self._capacity, dtype=torch.int64)
        own[: len(numbers)] = torch.tensor(numbers)
        own[len(numbers) : len(numbers) + ids.numel()] = ids[: self._capacity]
        if self._workers == 1:
            return own[None], None
        own = own.to(self._device)
        rows = own.new_empty(self._workers, own.numel())
        return rows, dist.all_gather(list(rows), own, group=self._group, async_op=True)

    def _check(self, numbers: Sequence[Sequence[int]], fault: str) -> None:
        """Raise the same error on all ranks if a rank has a fault, or if owners or edges do not match.

        Args:
            numbers: of each rank: 1 for a fault, edges, edges to own targets, digest of owners and settings.
            fault: fault of this rank.
        """
        if any(row[0] for row in numbers):
            faults = all_gather_values(fault, group=self._group) if self._workers > 1 else [fault]
            rank = next(rank for rank, text in enumerate(faults) if text)
            raise ValueError(f"rank {rank}: {faults[rank]}")
        others = [rank for rank, row in enumerate(numbers) if row[3] != numbers[0][3]]
        if others:
            raise ValueError(
                "owner, target_owner, hops, seed, transport and name must be the same on all ranks, got others on rank "
                f"{others[0]} than on rank 0; compute them from the same data"
            )
        given, kept = [row[1] for row in numbers], [row[2] for row in numbers]
        has_all = len(set(given)) == 1 and sum(kept) == given[0]
        if not has_all and given != kept:
            rank = next(rank for rank in range(self._workers) if given[rank] != kept[rank])
            raise ValueError(
                f"rank {rank}: edge_index must have all edges on every rank, or on each rank the edges to its own "
                f"targets, got {given[rank] - kept[rank]} of {given[rank]} edges to targets of other ranks; "
                "pass edge_index[:, owner[edge_index[1]] == rank]"
            )

    def _owner_fault(self, owners: Sequence[Tensor]) -> str:
        """Return the error message of the first rule that owners or hops break, or an empty string."""
        for name, owner in zip(("owner", "target_owner"), owners, strict=True):
            if owner.dim() != 1 or not is_integer(owner):
                return f"{name} must be the rank of each node, integers (V,), got {owner.dtype} {tuple(owner.shape)}"
            if owner.numel() > MAX_IDS:
                return f"{name} must have at most 2**32 nodes, got {owner.numel()}"
            if owner.numel() and not (0 <= int(owner.min()) and int(owner.max()) < self._workers):
                invalid = int(owner.min()) if int(owner.min()) < 0 else int(owner.max())
                return f"{name} must have ranks in [0, {self._workers}), got {invalid}; use one part for each rank"
        if self._hops < 1 or (self._hops > 1 and self._is_bipartite):
            return f"hops must be at least 1, and 1 with target_owner, got {self._hops}; use one plan for each layer"
        return ""

    def _edge_fault(self, edge_index: Tensor) -> str:
        """Return the error message of the first rule that one rank's edges break, or an empty string."""
        if edge_index.dim() != 2 or edge_index.shape[0] != 2 or not is_integer(edge_index):
            return f"edge_index must be integers (2, E), got {edge_index.dtype} {tuple(edge_index.shape)}"
        for name, ids, owner in zip(("sources", "targets"), edge_index, (self._owner, self._target_owner), strict=True):
            if ids.numel() and not (0 <= int(ids.min()) and int(ids.max()) < owner.numel()):
                invalid = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
                return f"{name} of edge_index must be node ids in [0, {owner.numel()}), got {invalid}"
        return ""


def _places(own_ids: Tensor, num_nodes: int) -> Tensor:
    places = torch.full((num_nodes,), -1, dtype=torch.int64)
    places[own_ids] = torch.arange(own_ids.numel())
    return places


def _digest(owners: Sequence[Tensor], *settings: object) -> int:
    """Hash owners and settings to a signed 64-bit number."""
    digest = hashlib.blake2b(repr(settings).encode(), digest_size=8)
    for owner in owners:
        if is_integer(owner):  # a fault otherwise
            digest.update(owner.long().contiguous().numpy().tobytes())
    return int.from_bytes(digest.digest(), "little", signed=True)
