"""Exchange plans: rows to send and to receive per peer, the only part of a graph that codecs and transports use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

__all__ = ["HostCopies", "Plan", "Route"]


@dataclass(frozen=True, eq=False)
class Route:
    """Rows sent to, or received from, one peer."""

    peer: int
    rows: Tensor
    """Local rows, int64 ``(n,)``."""
    ids: Tensor
    """Their global node ids, int64 ``(n,)``."""
    first: int | None
    """First row if ``rows`` are consecutive, otherwise ``None``."""
    sampled_positions: Tensor | None = None
    """Positions of the sampled rows in the full route, int64 ``(n,)``; ``None`` if this route has all rows."""

    @property
    def num_rows(self) -> int:
        return self.rows.numel()


@dataclass(frozen=True, eq=False)
class HostCopies:
    """Relayed rows of one worker's plan: each is sent once to each other host that needs it.

    Positions count in a route of the plan, int64 ``(n,)``, ascending. Routes within a host are not listed. See
    :mod:`gnnqlab.partition.host_copies`.
    """

    sent: Mapping[int, Tensor]
    """Receiver on another host -> positions of the rows that this worker sends to it."""
    received: Mapping[int, Tensor]
    """Owner on another host -> positions of the rows that this worker receives from it."""
    passed_on: Mapping[int, Mapping[int, Tensor]]
    """Other worker of this host -> owner -> positions of the received rows that this worker passes on to it."""
    passed_here: Mapping[int, Mapping[int, Tensor]]
    """Other worker of this host -> owner -> positions of the rows that it passes on to this worker."""
    added_rows: int
    """Rows that this worker passes on, minus those of its own rows that others pass on."""

    def received_rows(self, routes: tuple[Route, ...]) -> dict[int, int]:
        """Return the number of rows received from each worker: its own rows, and those that it passes on."""
        counts = {route.peer: self.received.get(route.peer, route.rows).numel() for route in routes}
        for relay, by_owner in self.passed_here.items():
            counts[relay] = counts.get(relay, 0) + sum(rows.numel() for rows in by_owner.values())
        return counts


@dataclass(frozen=True, eq=False)
class Plan:
    """One direction of an exchange."""

    rank: int
    workers: int
    send: tuple[Route, ...]
    receive: tuple[Route, ...]
    accumulate: bool
    """True if received rows are added to the local ones (gradients, partial sums), False if they replace them."""
    parts: bool = False
    """True if several senders have partial sums of the same node, whose rounding errors must be independent."""
    to_all: bool = False
    """True if all receivers of a node's row get identical codes: bit-width and noise do not depend on the receiver."""
    from_owners: bool = False
    """True if backward, too, each row has one sender, and other columns for each receiver with errors of their own."""
    exact: bool = False
    """True if all rows are sent as float32, regardless of the system's codec, bit-widths and cache."""
    host_copies: HostCopies | None = None
    """Relays of rows that are sent once to each other host; ``None``: each row is sent to all of its receivers."""

    def with_host_copies(self, host_copies: HostCopies) -> Plan:
        """Return the plan with rows that are sent once to each other host."""
        return replace(self, host_copies=host_copies)

    @property
    def sent_rows(self) -> Tensor:
        """Number of rows sent to each worker, int64 ``(P,)``; zero for this one."""
        return _counts(self.send, self.workers)

    @property
    def received_rows(self) -> Tensor:
        """Number of rows received from each worker, int64 ``(P,)``; zero for this one."""
        return _counts(self.receive, self.workers)

    def from_peer(self, peer: int) -> Route:
        """Return the route of the rows received from ``peer``.

        Raises:
            ValueError: if ``peer`` is this worker, or no rank of the run.
        """
        return _route_of(self.receive, peer, self)

    def to_peer(self, peer: int) -> Route:
        """Return the route of the rows sent to ``peer``; errors as :meth:`from_peer`."""
        return _route_of(self.send, peer, self)


def _counts(routes: tuple[Route, ...], workers: int) -> Tensor:
    counts = torch.zeros(workers, dtype=torch.int64)  # (P,)
    for route in routes:
        counts[route.peer] = route.num_rows
    return counts


def _route_of(routes: tuple[Route, ...], peer: int, plan: Plan) -> Route:
    for route in routes:
        if route.peer == peer:
            return route
    peers = sorted(route.peer for route in routes)
    raise ValueError(f"worker {plan.rank} exchanges rows with the workers {peers}, got {peer}")
