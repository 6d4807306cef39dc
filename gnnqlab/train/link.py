"""The wire between the workers of a run: which one it is, how fast, and what has crossed it. Standard library only.

The guard of a run makes the wire and describes it in ``link.json``; workers, summaries and reports read it there.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnnqlab.atomic import write_text

__all__ = ["FASTEST", "FILE", "INTERFACE", "MOST_HOSTS", "SLOWEST", "Link", "link_name", "parse_link", "sent_by_host"]

FILE = "link.json"
INTERFACE = "eth0"
"""Name of an emulated host's only interface."""
MOST_HOSTS = 64
SLOWEST, FASTEST = 1_000_000, 100_000_000_000
"""Bits per second that a link may have."""
_LINK = re.compile(r"(\d+(?:\.\d+)?)(k|m|g)bit", re.IGNORECASE)
_FACTORS = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


def parse_link(link: str) -> int:
    """Bits per second of a link's name.

    Raises:
        ValueError: if it is not a number with ``kbit``, ``mbit`` or ``gbit``, or out of range.

    Example:
        >>> parse_link("1gbit"), parse_link("2.5Gbit")
        (1000000000, 2500000000)
    """
    found = _LINK.fullmatch(link.strip())
    if found is None:
        raise ValueError(
            f"link must be a number with kbit, mbit or gbit, got {link!r}; write '1gbit' for 10^9 bits per second"
        )
    rate = round(float(found[1]) * _FACTORS[found[2].lower()])
    if not SLOWEST <= rate <= FASTEST:
        raise ValueError(f"link must lie between 1mbit and 100gbit, got {link!r}")
    return rate


def link_name(bits_per_second: float) -> str:
    """Name of a link with about this rate: three digits, within what a link may have.

    Example:
        >>> link_name(181_764_000), link_name(2.5e9), link_name(3)
        ('182mbit', '2500mbit', '1mbit')
    """
    rate = min(max(float(f"{bits_per_second:.3g}"), SLOWEST), FASTEST)
    return f"{rate / 1e6:.10g}mbit"


@dataclass(frozen=True, kw_only=True)
class Link:
    """What joins the hosts of a run."""

    kind: str = "loopback"
    """``none`` (one worker), ``loopback``, ``emulated`` (network namespaces) or ``paced`` (a loopback slowed down)."""
    hosts: int = 1
    """Hosts; rank r lives on host ``r // (workers / hosts)``."""
    name: str = ""
    """The rate as it was asked for, for instance ``1gbit``; empty on a loopback."""
    namespaces: tuple[str, ...] = ()
    """Network namespace of each host, if emulated."""
    goodput: float | None = None
    """Bytes per second that a plain socket moved when the link was made, if that was measured."""
    reason: str = ""
    """Why the link is paced and not emulated."""

    @property
    def bytes_per_s(self) -> float | None:
        """Nominal rate of one host's link, each way."""
        return parse_link(self.name) / 8 if self.name else None

    @property
    def label(self) -> str:
        """How tables and plots call it.

        Example:
            >>> Link(kind="emulated", hosts=2, name="1gbit").label
            '1gbit emulated, 2 hosts'
        """
        return f"{self.name} {self.kind}, {self.hosts} hosts" if self.name else self.kind

    def host(self, rank: int, workers: int) -> int:
        """The host on which a rank lives."""
        return rank * self.hosts // workers

    def write(self, folder: Path) -> None:
        """Describe this link in a run folder."""
        write_text(folder / FILE, json.dumps(dataclasses.asdict(self), indent=1))

    @classmethod
    def of(cls, folder: Path, workers: int) -> Link:
        """The link of a run; a loopback if none was described."""
        try:
            found: dict[str, Any] = json.loads((folder / FILE).read_text())
        except (OSError, ValueError):
            return cls(kind="loopback" if workers > 1 else "none")
        return cls(**{**found, "namespaces": tuple(found["namespaces"])})


def sent_by_host(interface: str = INTERFACE) -> int:
    """Bytes that this host has sent over its interface so far, headers included; 0 if it has no such interface."""
    with open("/proc/self/net/dev") as file:
        for line in file:
            name, _, counts = line.partition(":")
            if name.strip() == interface:
                return int(counts.split()[8])
    return 0


class Crossing:
    """Counts what a worker's host sends to the others; of several workers on a host the first counts for all."""

    def __init__(self, link: Link, rank: int, workers: int) -> None:
        first = rank == 0 or link.host(rank, workers) != link.host(rank - 1, workers)
        self._counts = link.kind == "emulated" and first
        self._before = 0

    def take(self) -> int | None:
        """Bytes since the last call, headers included; ``None`` where they are not counted."""
        if not self._counts:
            return None
        now = sent_by_host()
        sent, self._before = now - self._before, now
        return sent
