"""Throttle this worker's connections to other hosts to the rate of a simulated link.

The kernel paces the packets of a connection (``SO_MAX_PACING_RATE``), which needs no privilege: this throttles
gradients, evaluation and large messages. Up to 128 kB are sent at once, so ``gnnqlab.message.transport.paced`` delays
small messages in addition.
"""

from __future__ import annotations

import os
import socket

from gnnqlab.train.link import Link

__all__ = ["pace"]

_SO_MAX_PACING_RATE = 47  # of <asm/socket.h>

Address = tuple[str, int]


def pace(link: Link, rank: int, workers: int, *, at_once: int) -> int:
    """Limit this worker's rate to other hosts; every worker must call this together, after joining the group.

    Args:
        link: the link.
        rank: this worker.
        workers: P.
        at_once: number of connections over which a worker sends at the same time; they share its part of the link.

    Returns:
        Number of throttled connections.
    """
    from gnnqlab.plain_values import all_gather_values

    assert link.bytes_per_s is not None
    connections = _connections()
    # The remote address of a connection is the local one of its peer: so each connection is assigned to a rank.
    addresses_by_rank: list[list[Address]] = all_gather_values([address for address, _, _ in connections])
    owner = {address: peer_rank for peer_rank, addresses in enumerate(addresses_by_rank) for address in addresses}
    # The workers of a host share its link, and so do the connections on which one of them sends at the same time.
    rate = int(link.bytes_per_s / (workers // link.hosts) / max(at_once, 1))
    count = 0
    for _, peer, descriptor in connections:
        peer_rank = owner.get(peer)
        if peer_rank is not None and link.host(peer_rank, workers) != link.host(rank, workers):
            # A duplicate, which the end of the block closes; the option is of the connection, not of its descriptor.
            with socket.socket(fileno=os.dup(descriptor)) as connection:
                connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, rate)
            count += 1
    return count


def _connections() -> list[tuple[Address, Address, int]]:
    """Return local address, remote address and file descriptor of every TCP connection of this process."""
    connections = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
                    # IPv6 addresses have two more fields.
                    own_address, peer = connection.getsockname()[:2], connection.getpeername()[:2]
                    connections.append((own_address, peer, int(name)))
        except OSError:
            continue  # already closed, or not connected
    return connections
