"""Host aggregation: a host sends and receives one row per node, though several of its workers have a replica.

Without it a synchronisation has two legs: mirrors send partial sums to masters, masters send totals back. On hosts with
several workers it has four: partial sums are reduced at the node's representative on each host, representatives send to
masters, masters to representatives, and these relay the totals. The legs within hosts are float32: a sum is quantized
when it leaves its host, and the decoded total is relayed unchanged. A representative that has the only copy on its host
takes no part in the legs within hosts.

Letters: R rows (masters, then mirrors), P workers, G hosts, B rows received in a leg.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnqlab.partition.cut import check_host_count
from gnnqlab.partition.host_copies import representatives
from gnnqlab.partition.plan import Plan, Route

if TYPE_CHECKING:
    from gnnqlab.partition.replica_shard import ReplicaShard

__all__ = ["Leg", "direct_legs", "hierarchical_legs"]


@dataclass(frozen=True, eq=False)
class Leg:
    """One exchange of a synchronisation: partial sums towards masters, or totals away from them."""

    plan: Plan
    side_by_side: Plan | None = None
    """For partial sums: the same plan with the received rows stacked, ``(B, D)``, instead of added up."""
    joins: Tensor | None = None
    """Local row of each received row, int64 ``(B,)``."""
    summed: Tensor | None = None
    """True for received rows with at least one neighbour on their sender, bool ``(B,)``."""

    @property
    def gathers(self) -> bool:
        """True if partial sums are sent, False for totals."""
        return self.plan.accumulate


def direct_legs(shard: ReplicaShard, device: torch.device | str = "cpu") -> tuple[Leg, ...]:
    """Return the two legs without host aggregation: to masters and back."""
    parts = shard.plan("forward", device), shard.side_by_side(device)
    return Leg(*parts, shard.boundary.to(device), shard.summed.to(device)), Leg(shard.scatter(device))


def hierarchical_legs(shard: ReplicaShard, hosts: int, device: torch.device | str = "cpu") -> tuple[Leg, ...]:
    """Return the four legs of host aggregation.

    Args:
        shard: one worker's shard.
        hosts: number of hosts, each with equally many consecutive ranks.
        device: device of the row indices.

    Raises:
        ValueError: if the number of workers is not a multiple of the hosts.
    """
    workers, rank = shard.workers, shard.rank
    check_host_count(workers, hosts)
    per_host = workers // hosts
    own_host, all_hosts = rank // per_host, torch.arange(workers) // per_host  # all_hosts (P,)
    # Sort rows by node id, so that both ends of a route use the same order.
    rows = torch.argsort(shard.row_ids)
    ids, copies, has_terms = shard.row_ids[rows], shard.copies[rows] > 0, shard.copies[rows] > 1  # (R,), (R, P), (R, P)
    mirror_master = torch.repeat_interleave(torch.arange(workers), shard.halo_splits)  # (H,)
    master = torch.cat([torch.full((shard.num_owned,), rank), mirror_master])[rows]  # (R,)
    representative = representatives(ids, copies, master, hosts)  # (R, G)
    is_relay, is_remote = representative[:, own_host] == rank, master // per_host != own_host  # (R,), (R,)
    # A representative sends its host's sum, which has terms if any copy on the host has neighbours.
    on_host = has_terms.view(-1, hosts, per_host).any(2)[:, all_hosts]  # (R, P) -> (R, G) -> (R, P)

    def route(peer: int, mask: Tensor) -> Route:
        return Route(peer=peer, rows=rows[mask].to(device), ids=ids[mask].to(device), first=None)

    peers = [(rank + k) % workers for k in range(1, workers)]  # each worker starts with another peer
    host_peers = [peer for peer in peers if peer // per_host == own_host]
    no_rows = torch.zeros_like(is_relay)  # (R,) without rows
    # Receivers and senders of each row's partial sums, within the host (inner) and between hosts (outer).
    inner_send = {peer: representative[:, own_host] == peer if peer in host_peers else no_rows for peer in peers}
    inner_receive = {peer: is_relay & copies[:, peer] if peer in host_peers else no_rows for peer in peers}
    outer_send = {peer: is_relay & is_remote & (master == peer) for peer in peers}
    senders = (master == rank)[:, None] & (representative[:, all_hosts] == torch.arange(workers))  # (R, P)
    outer_receive = {peer: no_rows if peer in host_peers else senders[:, peer] for peer in peers}
    inner, outer = (
        (tuple(route(peer, send[peer]) for peer in peers), tuple(route(peer, receive[peer]) for peer in peers))
        for send, receive in ((inner_send, inner_receive), (outer_send, outer_receive))
    )
    gathers = (
        _gather(rank, workers, *inner, torch.cat([has_terms[inner_receive[peer], peer] for peer in peers]), exact=True),
        _gather(rank, workers, *outer, torch.cat([on_host[outer_receive[peer], peer] for peer in peers]), exact=False),
    )
    # Totals take the way back: from masters to representatives, then from these to the copies on their hosts.
    scatters = (
        Leg(Plan(rank, workers, send=receives, receive=sends, accumulate=False, to_all=True, exact=exact))
        for (sends, receives), exact in ((outer, False), (inner, True))
    )
    return (*gathers, *scatters)


def _gather(
    rank: int, workers: int, send: Iterable[Route], receive: Iterable[Route], has_terms: Tensor, *, exact: bool
) -> Leg:
    send, receive = tuple(send), tuple(receive)
    # The stacked buffer has the rows of one route after those of another, in the order of the peers.
    places, first = [], 0
    for route in receive:
        rows = torch.arange(first, first + route.num_rows, device=route.rows.device)
        places.append(Route(peer=route.peer, rows=rows, ids=route.ids, first=first))
        first += route.num_rows
    joins = torch.cat([route.rows for route in receive]) if receive else torch.empty(0, dtype=torch.int64)  # (B,)
    plan = Plan(rank, workers, send=send, receive=receive, accumulate=True, parts=True, exact=exact)
    stacked_plan = replace(plan, receive=tuple(places), accumulate=False)
    return Leg(plan, stacked_plan, joins, has_terms.to(joins.device))
