"""Rows of an edge-cut that are sent once to each other host, and passed on by one of its workers to the others.

Each row has one relay on each other host that needs it: one of the workers that need it, by node id in turn. The owner
sends the row to the relay, which passes the same bytes on to the other workers of its host. The rows that are saved
between hosts are those of ``Quality.repeated_outer``; the number of all sent rows does not change.

Letters: n rows of a route, P workers, G hosts, M = P / G workers of a host.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gnnqlab.partition.plan import HostCopies, Plan

__all__ = ["receivers_on_host", "relayed_rows", "representatives", "with_relays"]


def representatives(ids: Tensor, held: Tensor, master: Tensor, hosts: int) -> Tensor:
    """Return each node's representative on each host, int64 ``(R, G)``; -1 if the host has no copy.

    It is the master on the master's host; elsewhere node ids rotate over the copies, which balances the relaying.

    Args:
        ids: node of each row, int64 ``(R,)``.
        held: True for workers with a copy, bool ``(R, P)``.
        master: rank of the master, int64 ``(R,)``.
        hosts: number of hosts; consecutive ranks share a host.

    Example:
        >>> held = torch.tensor([[True, False, True, True], [False, True, True, True]])
        >>> representatives(torch.tensor([4, 5]), held, torch.tensor([0, 1]), 2).tolist()
        [[0, 2], [1, 3]]
    """
    per_host = held.shape[1] // hosts
    by_host = held.view(-1, hosts, per_host)  # (R, P) -> (R, G, P / G)
    count = by_host.sum(2)  # (R, G)
    turn = ids[:, None] % count.clamp(min=1)  # (R, G); clamped, since hosts without a copy are masked below
    # The copy whose running count on its host is turn + 1, i.e. number ``turn`` of them.
    copy_index = (by_host & (by_host.cumsum(2) == turn[:, :, None] + 1)).int().argmax(2)  # (R, G, P / G) -> (R, G)
    representative = torch.where(count > 0, copy_index + per_host * torch.arange(hosts), -1)  # (R, G)
    # On its host the master itself stands for the node: the sum of all hosts is formed there.
    representative[torch.arange(ids.numel()), master // per_host] = master
    return representative


def receivers_on_host(ids: Mapping[int, Tensor], sender: int, per_host: int) -> dict[int, Tensor]:
    """Return a mask of the workers that get each row, for each receiver on another host.

    Args:
        ids: receiver -> global node ids of the rows that it gets, int64 ``(n,)``.
        sender: rank of the sender of all rows.
        per_host: M; consecutive ranks share a host.

    Returns:
        Receiver -> uint8 ``(n, M)``, 1 for each worker of its host that gets the row.

    Example:
        >>> rows = {1: torch.tensor([7]), 2: torch.tensor([7, 9]), 3: torch.tensor([9])}
        >>> {peer: needs.tolist() for peer, needs in receivers_on_host(rows, sender=0, per_host=2).items()}
        {2: [[1, 0], [1, 1]], 3: [[1, 1]]}
    """
    found: dict[int, Tensor] = {}
    for host in sorted({peer // per_host for peer in ids} - {sender // per_host}):
        peers = sorted(peer for peer in ids if peer // per_host == host)
        nodes, places = torch.cat([ids[peer] for peer in peers]).unique(return_inverse=True)
        needs = torch.zeros(nodes.numel(), per_host, dtype=torch.uint8, device=nodes.device)
        by_peer = dict(zip(peers, places.split([ids[peer].numel() for peer in peers]), strict=True))
        for peer, rows in by_peer.items():
            needs[rows, peer % per_host] = 1
        found |= {peer: needs[rows] for peer, rows in by_peer.items()}
    return found


def with_relays(plan: Plan, sent: Mapping[int, Tensor], received: Mapping[int, Tensor], per_host: int) -> Plan:
    """Return a plan whose rows are sent once to each other host.

    Args:
        plan: the rows that this worker sends and receives, those of a route in ascending order of node ids.
        sent: result of :func:`receivers_on_host` for the rows that this worker sends.
        received: sender on another host -> its result for this worker, uint8 ``(n, M)``.
        per_host: M.
    """
    rank = plan.rank
    to_relay, saved = {}, 0
    for peer, needs in sent.items():
        route = plan.to_peer(peer)
        to_relay[peer] = _places(_relay(route.ids, needs, rank, peer, per_host) == peer, route.rows.device)
        saved += route.num_rows - to_relay[peer].numel()
    from_owner: dict[int, Tensor] = {}
    passed_on: dict[int, dict[int, Tensor]] = {}
    passed_here: dict[int, dict[int, Tensor]] = {}
    for owner, needs in sorted(received.items()):
        route = plan.from_peer(owner)
        relay = _relay(route.ids, needs, owner, rank, per_host)
        from_owner[owner] = _places(relay == rank, route.rows.device)
        first = rank - rank % per_host
        for other in range(first, first + per_host):
            if other == rank:
                continue
            is_passed_on = (relay == rank) & (needs[:, other - first].cpu() > 0)
            for table, chosen in ((passed_on, is_passed_on), (passed_here, relay == other)):
                if bool(chosen.any()):
                    table.setdefault(other, {})[owner] = _places(chosen, route.rows.device)
    passed = sum(rows.numel() for by_owner in passed_on.values() for rows in by_owner.values())
    return plan.with_host_copies(HostCopies(to_relay, from_owner, passed_on, passed_here, added_rows=passed - saved))


def relayed_rows(
    ids: Mapping[tuple[int, int], Tensor], workers: int, hosts: int
) -> dict[tuple[int, int], dict[tuple[int, int], int]]:
    """Count the rows between each pair of workers if a row is sent once to each other host; for forecasts.

    Args:
        ids: (sender, receiver) -> global node ids of a message, int64 ``(n,)``.
        workers: P.
        hosts: G.

    Returns:
        (sender, receiver) -> ``{(from, to): rows}``: the rows of this message that the sender sends to the receiver,
        and those that each relay passes on.

    Example:
        >>> relayed_rows({(0, 2): torch.tensor([4, 6]), (0, 3): torch.tensor([4])}, workers=4, hosts=2)
        {(0, 2): {(0, 2): 2}, (0, 3): {(2, 3): 1}}
    """
    per_host = workers // hosts
    counts: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
    for sender in sorted({ends[0] for ends in ids}):
        by_receiver = {ends[1]: rows for ends, rows in ids.items() if ends[0] == sender}
        needs = receivers_on_host(by_receiver, sender, per_host)
        for peer, rows in by_receiver.items():
            if peer not in needs:  # a worker of the sender's host
                counts[sender, peer] = {(sender, peer): rows.numel()}
                continue
            relays, numbers = _relay(rows, needs[peer], sender, peer, per_host).unique(return_counts=True)
            pairs = zip(relays.tolist(), numbers.tolist(), strict=True)
            counts[sender, peer] = {(sender if relay == peer else relay, peer): count for relay, count in pairs}
    return counts


def _relay(ids: Tensor, needs: Tensor, sender: int, receiver: int, per_host: int) -> Tensor:
    """Return the relay of each row on the receiver's host, int64 ``(n,)``, by node id in turn."""
    host = receiver // per_host
    hosts = 1 + max(host, sender // per_host)
    held = torch.zeros(ids.numel(), hosts * per_host, dtype=torch.bool)
    held[:, host * per_host : (host + 1) * per_host] = needs.cpu() > 0
    return representatives(ids.cpu(), held, torch.full((ids.numel(),), sender), hosts)[:, host]


def _places(chosen: Tensor, device: torch.device) -> Tensor:
    return chosen.nonzero().flatten().to(device)
