"""Machines of a run and the links between them, as measured before its first epoch. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnnqlab.run import folder as files
from gnnqlab.units import human_bit_rate, human_seconds

__all__ = ["FILE", "MachineLinks", "read_machine_links"]

FILE = "machines.json"


@dataclass(frozen=True)
class MachineLinks:
    """Machines of a run over several ones, the links between them, and warnings.

    Example:
        >>> link = {"machines": [0, 1], "latency_s": 0.0002, "bit_per_s": 9e8, "clock_s": 0.0}
        >>> print(MachineLinks(machines=[{}, {}], links=[link]))
        machines 0 and 1: 900 Mbit/s, 200 µs
    """

    machines: list[dict[str, Any]]
    """``host``, ``interface``, ``rate_bit`` (nominal, bits per second, ``None`` if unknown), ``fastest`` interface,
    ``fastest_rate_bit`` and ``kernels`` of each machine."""
    links: list[dict[str, Any]]
    """``machines`` (two numbers), ``latency_s`` (there and back), ``bit_per_s`` and ``clock_s`` (the second machine's
    clock minus the first's) of each pair."""
    warnings: list[str] = field(default_factory=list)
    """Sentences about slow links, slow interfaces, plain kernels and wrong clocks."""

    @property
    def slowest(self) -> dict[str, Any] | None:
        """The slowest link, ``None`` without any."""
        return min(self.links, key=lambda link: float(link["bit_per_s"]), default=None)

    def __str__(self) -> str:
        lines = [
            f"machines {link['machines'][0]} and {link['machines'][1]}: {human_bit_rate(link['bit_per_s'])}, "
            f"{human_seconds(link['latency_s'])}"
            for link in self.links
        ]
        return "\n".join([*lines, *self.warnings])


def read_machine_links(folder: Path) -> MachineLinks | None:
    """Return the machines of a run; ``None`` for a run on one machine, or before they have met."""
    values = files.read_json(folder / FILE)
    return None if values is None else MachineLinks(**values)
