"""Cost of transfers between workers: ``γ + θ · bytes`` per exchange, with the bytes of the busiest link.

On a loopback every worker has a link of its own. Each emulated host has one link, which its workers share; rows between
workers of one host do not use it.

Letters: P workers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnnqlab.partition.cut import check_host_count
from gnnqlab.theory.cost import LinkCost
from gnnqlab.train.link import parse_link

__all__ = ["GOODPUT", "WITHIN_HOST", "Wire"]

Array = NDArray[np.float64]

GOODPUT = 0.97
"""Share of a link's rate for rows: frames have headers, and the token bucket of the rate limit wakes late."""
WITHIN_HOST = 2e9
"""Bytes per second between workers of one host."""


@dataclass(frozen=True, kw_only=True)
class Wire:
    """Equal links of P workers."""

    workers: int
    hosts: int = 1
    """Number of hosts; rank r runs on host ``r // (P / hosts)``."""
    theta_s_per_byte: float
    """θ of a link."""
    gamma_s: float = 0.0
    """γ of an exchange: latency independent of message sizes, and waiting for slower workers."""
    transport: str = "direct"
    """``direct``: all messages are sent at once; ``ring``: round by round."""
    name: str = "loopback"
    """Name in tables."""

    def __post_init__(self) -> None:
        check_host_count(self.workers, self.hosts)
        if self.theta_s_per_byte < 0 or self.gamma_s < 0:
            raise ValueError(f"θ and γ must not be negative, got {self.theta_s_per_byte} and {self.gamma_s}")

    @classmethod
    def from_rate(
        cls, link: str, *, workers: int, hosts: int = 2, gamma_s: float = 0.0, transport: str = "direct"
    ) -> Wire:
        """Create a wire from the rate in a link's name, for instance ``1gbit``; nothing is measured.

        Example:
            >>> wire = Wire.from_rate("80mbit", workers=2)
            >>> round(wire.exchange_s(np.array([[0, 9_700_000], [0, 0]])), 6)
            1.0
        """
        theta = 8 / parse_link(link) / GOODPUT
        return cls(
            workers=workers, hosts=hosts, theta_s_per_byte=theta, gamma_s=gamma_s, transport=transport, name=link
        )

    def busiest_bytes(self, sent_bytes: Array) -> float:
        """Return the bytes of the busiest link in one direction in one exchange; for a ring, summed over rounds.

        Args:
            sent_bytes: from worker to worker, ``(P, P)``.
        """
        link_bytes = np.where(self._linked_pairs(), sent_bytes, 0.0)  # (P, P) without messages inside a host
        if self.transport != "ring":
            return self._busiest(link_bytes)
        rank = np.arange(self.workers)
        # (P, P) masks: in ring round k, rank r sends to r + k.
        rounds = ((rank[None, :] - rank[:, None]) % self.workers == k for k in range(1, self.workers))
        return sum(self._busiest(np.where(mask, link_bytes, 0.0)) for mask in rounds)

    def exchange_s(self, sent_bytes: Array) -> float:
        """Return the seconds of one exchange."""
        return self.gamma_s + self.theta_s_per_byte * self.busiest_bytes(sent_bytes)

    def by_tier(self, sent_bytes: Array) -> dict[str, tuple[float, float]]:
        """Return bytes and seconds of one exchange by tier, ``inner`` within a host and ``outer`` between hosts.

        On one host everything is inner. With several hosts, 2 GB/s are assumed between workers of one host, where only
        memory limits the rate.

        Args:
            sent_bytes: from worker to worker, ``(P, P)``.

        Example:
            >>> wire = Wire.from_rate("80mbit", workers=4, hosts=2)
            >>> sent = np.zeros((4, 4))
            >>> sent[0, 1], sent[0, 2] = 2e9, 9.7e6
            >>> {tier: (round(amount), round(seconds, 6)) for tier, (amount, seconds) in wire.by_tier(sent).items()}
            {'inner': (2000000000, 1.0), 'outer': (9700000, 1.0)}
        """
        if self.hosts == 1:
            return {"inner": (float(sent_bytes.sum()), self.exchange_s(sent_bytes)), "outer": (0.0, 0.0)}
        inner_bytes = np.where(self._linked_pairs(), 0.0, sent_bytes)
        busiest_bytes = max(inner_bytes.sum(axis=end).max() for end in (0, 1))  # receiving ends, sending ends
        outer_bytes = float(sent_bytes.sum() - inner_bytes.sum())
        return {
            "inner": (float(inner_bytes.sum()), float(busiest_bytes) / WITHIN_HOST),
            "outer": (outer_bytes, self.exchange_s(sent_bytes)),
        }

    def reduce_bytes(self, num_bytes: int) -> float:
        """Return the bytes of each link in one direction for a ring all-reduce of ``num_bytes`` of gradients."""
        # Reduce-scatter and all-gather move (P - 1) / P of the bytes each.
        return 2 * (self.workers - 1) / self.workers * num_bytes if self.workers > 1 else 0.0

    def cost(self) -> LinkCost:
        """Return θ and γ of every pair as timed by a run's assigner, in ring rounds.

        Workers of one host that send to other hosts at the same time share its link.
        """
        rank = np.arange(self.workers)
        linked_pairs = self._linked_pairs()
        theta = np.full((self.workers, self.workers), 1 / WITHIN_HOST)
        for k in range(1, self.workers):  # ring round k: rank r sends to r + k
            target = (rank + k) % self.workers
            mask = linked_pairs[rank, target]
            sharers = np.bincount(self._host(rank), mask, minlength=self.hosts)[self._host(rank)]  # (P,)
            theta[rank[mask], target[mask]] = self.theta_s_per_byte * np.maximum(sharers[mask], 1)
            # On a loopback every worker has a link of its own, so nothing is shared.
            if self.hosts == 1:
                theta[rank, target] = self.theta_s_per_byte
        np.fill_diagonal(theta, 0.0)
        gamma = np.full_like(theta, self.gamma_s)
        np.fill_diagonal(gamma, 0.0)
        defaults = LinkCost.uniform(self.workers, bytes_per_s=WITHIN_HOST)  # for R² and moments only
        return LinkCost(theta_s_per_byte=theta, gamma_s=gamma, r_squared=defaults.r_squared, moments=defaults.moments)

    def _host(self, rank: NDArray[np.int64]) -> NDArray[np.int64]:
        return rank * self.hosts // self.workers  # consecutive ranks share a host

    def _linked_pairs(self) -> NDArray[np.bool_]:
        """Return a mask of the pairs whose messages use a link, ``(P, P)``."""
        rank = np.arange(self.workers)
        if self.hosts == 1:
            return rank[:, None] != rank[None, :]
        host = self._host(rank)
        return np.asarray(host[:, None] != host[None, :])

    def _busiest(self, link_bytes: Array) -> float:
        host = np.arange(self.workers) if self.hosts == 1 else self._host(np.arange(self.workers))
        out_bytes, in_bytes = (np.bincount(host, link_bytes.sum(axis=end)) for end in (1, 0))  # (P, P) -> (hosts,)
        return float(max(out_bytes.max(), in_bytes.max()))
