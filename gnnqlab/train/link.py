"""The link between the workers of a run: kind, rate, and bytes sent over it. Standard library only.

The guard of a run creates the link and describes it in ``link.json`` for workers, summaries and reports.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnnqlab.atomic import write_text

__all__ = [
    "FASTEST",
    "FILE",
    "INTERFACE",
    "MAX_HOSTS",
    "SLOWEST",
    "Link",
    "link_name",
    "parse_link",
    "read_sent_bytes",
]

FILE = "link.json"
INTERFACE = "eth0"
"""Name of an emulated host's only interface."""
MAX_HOSTS = 64
SLOWEST, FASTEST = 1_000_000, 100_000_000_000
"""Range of a link's rate, in bits per second."""
_LINK = re.compile(r"(\d+(?:\.\d+)?)(k|m|g)bit", re.IGNORECASE)
_FACTORS = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


def parse_link(link: str) -> int:
    """Return the rate of a link's name in bits per second.

    Raises:
        ValueError: if it is not a number with ``kbit``, ``mbit`` or ``gbit``, or is out of range.

    Example:
        >>> parse_link("1gbit"), parse_link("2.5Gbit")
        (1000000000, 2500000000)
    """
    match = _LINK.fullmatch(link.strip())
    if match is None:
        raise ValueError(
            f"link must be a number with kbit, mbit or gbit, got {link!r}; write '1gbit' for 10^9 bits per second"
        )
    rate = round(float(match[1]) * _FACTORS[match[2].lower()])
    if not SLOWEST <= rate <= FASTEST:
        raise ValueError(f"link must lie between 1mbit and 100gbit, got {link!r}")
    return rate


def link_name(bits_per_second: float) -> str:
    """Return the name of a link with about this rate: three digits, limited to the range of links.

    Example:
        >>> link_name(181_764_000), link_name(2.5e9), link_name(3)
        ('182mbit', '2500mbit', '1mbit')
    """
    # A measured rate is not more precise than three digits.
    rate = min(max(float(f"{bits_per_second:.3g}"), SLOWEST), FASTEST)
    return f"{rate / 1e6:.10g}mbit"


@dataclass(frozen=True, kw_only=True)
class Link:
    """Link that joins the hosts of a run."""

    kind: str = "loopback"
    """``none`` (one worker), ``loopback``, ``emulated`` (network namespaces) or ``paced`` (a throttled loopback)."""
    hosts: int = 1
    """Number of hosts; rank r is on host ``r // (workers / hosts)``."""
    name: str = ""
    """Requested rate, for instance ``1gbit``; empty on a loopback."""
    namespaces: tuple[str, ...] = ()
    """Network namespace of each host, if emulated."""
    goodput: float | None = None
    """Bytes per second that a plain socket transferred when the link was created, if measured."""
    reason: str = ""
    """Reason for a paced instead of an emulated link."""

    @property
    def bytes_per_s(self) -> float | None:
        """Nominal rate of one host's link, each way."""
        return parse_link(self.name) / 8 if self.name else None

    @property
    def label(self) -> str:
        """Label in tables and plots.

        Example:
            >>> Link(kind="emulated", hosts=2, name="1gbit").label
            '1gbit emulated, 2 hosts'
        """
        return f"{self.name} {self.kind}, {self.hosts} hosts" if self.name else self.kind

    def host(self, rank: int, workers: int) -> int:
        """Return the host of a rank."""
        return rank * self.hosts // workers

    def write(self, folder: Path) -> None:
        """Write the description of this link to a run folder."""
        write_text(folder / FILE, json.dumps(dataclasses.asdict(self), indent=1))

    @classmethod
    def from_folder(cls, folder: Path, workers: int) -> Link:
        """Return the link of a run; a loopback if the folder has no description."""
        try:
            fields: dict[str, Any] = json.loads((folder / FILE).read_text())
        except (OSError, ValueError):
            return cls(kind="loopback" if workers > 1 else "none")
        return cls(**{**fields, "namespaces": tuple(fields["namespaces"])})


def read_sent_bytes(interface: str = INTERFACE) -> int:
    """Return the bytes sent over this host's interface so far, headers included; 0 if there is no such interface."""
    with open("/proc/self/net/dev") as file:  # of this process's network namespace
        for line in file:
            name, _, counts = line.partition(":")
            # Eight columns of received packets, then the bytes sent.
            if name.strip() == interface:
                return int(counts.split()[8])
    return 0


class HostTrafficCounter:
    """Counter of the bytes that a worker's host sends to other hosts; the first worker on a host counts for all."""

    def __init__(self, link: Link, rank: int, workers: int) -> None:
        # Consecutive ranks share a host, so the first one on it follows a rank of another host.
        is_first_on_host = rank == 0 or link.host(rank, workers) != link.host(rank - 1, workers)
        # Only an emulated host has an interface of its own; elsewhere all workers share one.
        self._counts = link.kind == "emulated" and is_first_on_host
        self._before = 0

    def take(self) -> int | None:
        """Return the bytes since the last call, headers included; ``None`` if this worker does not count them."""
        if not self._counts:
            return None
        total_bytes = read_sent_bytes()
        sent_bytes, self._before = total_bytes - self._before, total_bytes
        return sent_bytes
