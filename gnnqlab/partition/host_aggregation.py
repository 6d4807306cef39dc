"""Copies of a node that meet on their host, so that a host sends one row of it, and gets one.

Without hosts a synchronisation has two legs: every mirror's part goes to its master, every total back. On hosts with
several workers it has four: parts meet at a representative of the node on their host, representatives send to masters,
masters to representatives, and these relay what they got. The legs within hosts are float32: a sum is rounded where it
leaves its host, and a relayed total is the one that was decoded. A representative alone on its host has nothing to do
within it.

Letters: R rows (masters, then mirrors), P workers, G hosts, B rows that come in a leg.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnqlab.partition.plan import Plan, Route

if TYPE_CHECKING:
    from gnnqlab.partition.replica_shard import ReplicaShard

__all__ = ["Leg", "apart", "meeting", "representatives"]


@dataclass(frozen=True, eq=False)
class Leg:
    """One exchange of a synchronisation: parts of sums towards masters, or totals away from them."""

    plan: Plan
    side_by_side: Plan | None = None
    """Of parts: the same with the rows that come side by side, ``(B, D)``, in place of their sum."""
    joins: Tensor | None = None
    """The rows to which those that come belong, int64 ``(B,)``."""
    summed: Tensor | None = None
    """Which of them have a neighbour to sum where they are from, bool ``(B,)``."""

    @property
    def gathers(self) -> bool:
        return self.plan.accumulate


def representatives(ids: Tensor, held: Tensor, master: Tensor, hosts: int) -> Tensor:
    """Return who stands for a node on each host, int64 ``(R, G)``; -1 where the host has no copy.

    The master on its own host; elsewhere the copies take turns by node id, so that no worker relays for all.

    Args:
        ids: node of each row, int64 ``(R,)``.
        held: which workers have a copy, bool ``(R, P)``.
        master: int64 ``(R,)``.
        hosts: consecutive workers share one.

    Example:
        >>> held = torch.tensor([[True, False, True, True], [False, True, True, True]])
        >>> representatives(torch.tensor([4, 5]), held, torch.tensor([0, 1]), 2).tolist()
        [[0, 2], [1, 3]]
    """
    per_host = held.shape[1] // hosts
    here = held.view(-1, hosts, per_host)
    count = here.sum(2)
    turn = ids[:, None] % count.clamp(min=1)
    chosen = (here & (here.cumsum(2) == turn[:, :, None] + 1)).int().argmax(2)
    found = torch.where(count > 0, chosen + per_host * torch.arange(hosts), -1)
    found[torch.arange(ids.numel()), master // per_host] = master
    return found


def apart(shard: ReplicaShard, device: torch.device | str = "cpu") -> tuple[Leg, ...]:
    """Return the two legs of copies that do not meet: to masters and back."""
    parts = shard.plan("forward", device), shard.side_by_side(device)
    return Leg(*parts, shard.boundary.to(device), shard.summed.to(device)), Leg(shard.scatter(device))


def meeting(shard: ReplicaShard, hosts: int, device: torch.device | str = "cpu") -> tuple[Leg, ...]:
    """Return the four legs of copies that meet on their hosts.

    Args:
        shard: the share of one worker.
        hosts: consecutive workers share one; equally many each.
        device: where rows are.

    Raises:
        ValueError: if hosts do not share the workers evenly.
    """
    workers, rank = shard.workers, shard.rank
    if hosts < 1 or workers % hosts:
        raise ValueError(f"workers must be a multiple of the hosts, got {workers} worker(s) on {hosts} hosts")
    per_host = workers // hosts
    here, all_hosts = rank // per_host, torch.arange(workers) // per_host
    # Rows by node id, so that both ends of a route have them in one order.
    rows = torch.argsort(shard.row_ids)
    ids, held, fills = shard.row_ids[rows], shard.copies[rows] > 0, shard.copies[rows] > 1
    elsewhere = torch.repeat_interleave(torch.arange(workers), shard.halo_splits)
    master = torch.cat([torch.full((shard.num_owned,), rank), elsewhere])[rows]
    stands = representatives(ids, held, master, hosts)
    mine, away = stands[:, here] == rank, master // per_host != here
    on_host = fills.view(-1, hosts, per_host).any(2)[:, all_hosts]  # what a representative brings: its host's sum

    def route(peer: int, chosen: Tensor) -> Route:
        return Route(peer=peer, rows=rows[chosen].to(device), ids=ids[chosen].to(device), first=None)

    peers = [(rank + k) % workers for k in range(1, workers)]
    within = [peer for peer in peers if peer // per_host == here]
    none = torch.zeros_like(mine)
    # To whom each row's part goes, and from whom parts of it come, within the host and between hosts.
    up = {peer: stands[:, here] == peer if peer in within else none for peer in peers}
    down = {peer: mine & held[:, peer] if peer in within else none for peer in peers}
    out = {peer: mine & away & (master == peer) for peer in peers}
    into = (master == rank)[:, None] & (stands[:, all_hosts] == torch.arange(workers))
    back = {peer: none if peer in within else into[:, peer] for peer in peers}
    inner, outer = (
        (tuple(route(peer, one[peer]) for peer in peers), tuple(route(peer, other[peer]) for peer in peers))
        for one, other in ((up, down), (out, back))
    )
    gathers = (
        _gather(rank, workers, *inner, torch.cat([fills[down[peer], peer] for peer in peers]), exact=True),
        _gather(rank, workers, *outer, torch.cat([on_host[back[peer], peer] for peer in peers]), exact=False),
    )
    scatters = (
        Leg(Plan(rank, workers, send=gets, receive=sends, accumulate=False, to_all=True, exact=exact))
        for (sends, gets), exact in ((outer, False), (inner, True))
    )
    return (*gathers, *scatters)


def _gather(
    rank: int, workers: int, send: Iterable[Route], receive: Iterable[Route], summed: Tensor, *, exact: bool
) -> Leg:
    send, receive = tuple(send), tuple(receive)
    places, first = [], 0
    for route in receive:
        rows = torch.arange(first, first + route.num_rows, device=route.rows.device)
        places.append(Route(peer=route.peer, rows=rows, ids=route.ids, first=first))
        first += route.num_rows
    joins = torch.cat([route.rows for route in receive]) if receive else torch.empty(0, dtype=torch.int64)
    plan = Plan(rank, workers, send=send, receive=receive, accumulate=True, parts=True, exact=exact)
    beside = replace(plan, receive=tuple(places), accumulate=False)
    return Leg(plan, beside, joins, summed.to(joins.device))
