"""Measure the links between the machines of a run before training, and warn of slow ones.

A transport that has taken a slow interface trains correctly, a hundred times slower. So one rank of each machine
exchanges a fixed number of bytes with one rank of every other machine, through the process group of the run, and the
result is compared with the rate that the interfaces of both machines have. ``machines.json`` in the run folder has it.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from gnnqlab.kernels import native
from gnnqlab.plain_values import all_gather_values
from gnnqlab.run import folder as files
from gnnqlab.run.machine_links import FILE, MachineLinks
from gnnqlab.units import human_bit_rate

__all__ = ["measure_machine_links", "pairings", "record_machine_links", "warnings_of"]

_BYTES = 1 << 20
"""Bytes that each of two machines sends: 84 ms at 100 Mbit/s."""
_ROUND_TRIPS = 5
_SLOW_SHARE, _FAST_BIT = 0.1, 10e9
"""A link is slow below this share of its interfaces' rate, of which no more than 10 Gbit/s count: one connection of TCP
does not fill a faster one."""
_CLOCKS_S = 1.0
"""Difference of two clocks from which times of events and files are misleading."""


@dataclass(frozen=True, kw_only=True)
class Interface:
    """Network interface of a machine."""

    name: str
    rate_bit: float | None
    """Nominal rate in bits per second; ``None`` if the kernel does not know it, as for a loopback."""


def pairings(count: int) -> Iterator[list[tuple[int, int]]]:
    """Return rounds in which every two of ``count`` machines meet once, and each machine at most once in a round.

    The circle method of tournaments: one machine stays, the others move on by one.

    Example:
        >>> list(pairings(4))
        [[(0, 3), (1, 2)], [(0, 2), (1, 3)], [(0, 1), (2, 3)]]
        >>> list(pairings(3))
        [[(1, 2)], [(0, 2)], [(0, 1)]]
    """
    circle = list(range(count + count % 2))  # of an odd number one machine rests in each round
    for _ in range(len(circle) - 1):
        pairs = [(circle[i], circle[-1 - i]) for i in range(len(circle) // 2)]
        yield sorted((min(pair), max(pair)) for pair in pairs if max(pair) < count)
        circle = [circle[0], circle[-1], *circle[1:-1]]


def measure_machine_links(*, is_first_on_machine: bool) -> MachineLinks:
    """Measure latency and rate between every two machines; collective over all ranks of the process group.

    Args:
        is_first_on_machine: True on the rank that measures for its machine.

    Returns:
        The same on all ranks.
    """
    own = {"host": socket.gethostname(), "kernels": _kernels(), **_interfaces()}
    found = all_gather_values({**own, "measures": is_first_on_machine})
    # Machines in the order of their measuring ranks.
    ranks = [rank for rank, facts in enumerate(found) if facts["measures"]]
    machines = [{name: value for name, value in found[rank].items() if name != "measures"} for rank in ranks]
    own_links: list[dict[str, Any]] = []
    own_index = ranks.index(dist.get_rank()) if is_first_on_machine else -1
    for pairs in pairings(len(ranks)):
        for first, second in pairs:
            if own_index in (first, second):
                peer = ranks[second if own_index == first else first]
                link = _measure_pair(peer)
                if own_index == first:
                    own_links.append({"machines": [first, second], **link})
    links = [link for links in all_gather_values(own_links) for link in links]
    return MachineLinks(machines=machines, links=links, warnings=warnings_of(machines, links))


def record_machine_links(folder: Path, rank: int, *, is_first_on_machine: bool) -> None:
    """Measure the links between the machines of a run; rank 0 writes them and an event per warning; collective."""
    result = measure_machine_links(is_first_on_machine=is_first_on_machine)
    if rank != 0:
        return
    files.write_json(folder / FILE, asdict(result))
    for text in result.warnings:
        files.append_event(folder, "slow link", text=text)
        print(f"warning: {text}", flush=True)


def warnings_of(machines: Sequence[dict[str, Any]], links: Sequence[dict[str, Any]]) -> list[str]:
    """Return sentences about slow interfaces, slow links, plain kernels and wrong clocks.

    Args:
        machines: ``host``, ``interface``, ``rate_bit``, ``fastest``, ``fastest_rate_bit`` and ``kernels`` of each.
        links: ``machines``, ``bit_per_s``, ``latency_s`` and ``clock_s`` of each pair.

    Example:
        >>> slow = {"host": "n0", "interface": "eth0", "rate_bit": 1e9, "kernels": "native"}
        >>> warnings_of([{**slow, "fastest": "ib0", "fastest_rate_bit": 100e9}], [])
        ['machine 0 (n0) uses interface eth0 of 1 Gbit/s and has ib0 of 100 Gbit/s; choose it with --interface']
    """
    texts = []
    for node, facts in enumerate(machines):
        rate, fastest = facts["rate_bit"], facts["fastest_rate_bit"]
        # Many virtual interfaces have no known rate; a loopback reaches no other machine.
        is_slow = facts["interface"] == "lo" if rate is None else fastest is not None and fastest >= 2 * rate
        if fastest is not None and is_slow:
            own_rate = "" if rate is None else f" of {human_bit_rate(rate)}"
            texts.append(
                f"machine {node} ({facts['host']}) uses interface {facts['interface']}{own_rate} and has "
                f"{facts['fastest']} of {human_bit_rate(fastest)}; choose it with --interface"
            )
    if len({facts["kernels"] for facts in machines}) > 1:
        kernels = ", ".join(f"{facts['kernels']} on machine {node}" for node, facts in enumerate(machines))
        texts.append(f"machines have different kernels: {kernels}; the others wait for those with the slower ones")
    for link in links:
        first, second = link["machines"]
        names = f"machines {first} and {second}"
        rates = [machines[node]["rate_bit"] for node in (first, second)]
        if None not in rates and link["bit_per_s"] < _SLOW_SHARE * min(*rates, _FAST_BIT):
            texts.append(
                f"the link between {names} reached {human_bit_rate(link['bit_per_s'])} of "
                f"{human_bit_rate(min(rates))}; check cable, switch and the route between their interfaces"
            )
        if abs(link["clock_s"]) > _CLOCKS_S:
            texts.append(
                f"the clocks of {names} differ by {abs(link['clock_s']):.1f} s, so times of events mislead; "
                "synchronize them (NTP)"
            )
    return texts


def _measure_pair(peer: int) -> dict[str, float]:
    """Return round-trip time, rate and clock difference of a link; the other rank calls this at the same time."""
    latency_s, clock_s = float("inf"), 0.0
    for _ in range(_ROUND_TRIPS):
        own_clock = torch.tensor([time.time()], dtype=torch.float64)
        start_s = time.perf_counter()
        other_clock = _swap(own_clock, peer)
        seconds = time.perf_counter() - start_s
        if seconds < latency_s:  # the first exchange opens connections
            latency_s, clock_s = seconds, float(other_clock - own_clock)
    start_s = time.perf_counter()
    _swap(torch.zeros(_BYTES, dtype=torch.uint8), peer)
    seconds = time.perf_counter() - start_s
    return {"latency_s": latency_s, "bit_per_s": 8 * _BYTES / seconds, "clock_s": clock_s}


def _swap(tensor: torch.Tensor, peer: int) -> torch.Tensor:
    """Send a tensor to a rank, and return the one received from it meanwhile."""
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    own = tensor.to(device)
    received = torch.empty_like(own)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, own, peer), dist.P2POp(dist.irecv, received, peer)])
    for work in works:
        work.wait()
    return received.cpu()  # waits for a GPU


def _interfaces() -> dict[str, Any]:
    """Return the interface of the workers and the fastest one of this machine, with their rates."""
    interfaces = {interface.name: interface for interface in _read_interfaces()}
    own = os.environ.get("GLOO_SOCKET_IFNAME", "").partition(",")[0]
    known = [interface for interface in interfaces.values() if interface.rate_bit is not None]
    fastest = max(known, key=lambda interface: interface.rate_bit or 0.0, default=None)
    return {
        "interface": own or "of the transport's choice",
        "rate_bit": interfaces[own].rate_bit if own in interfaces else None,
        "fastest": "" if fastest is None else fastest.name,
        "fastest_rate_bit": None if fastest is None else fastest.rate_bit,
    }


def _read_interfaces() -> list[Interface]:
    """Return the interfaces of this machine that are up; virtual ones, such as a bridge of containers, are left out."""
    found = []
    for _, name in socket.if_nameindex():
        place = Path("/sys/class/net") / name
        try:
            rate = float((place / "speed").read_text())  # Mbit/s, -1 if unknown; an error for a loopback
        except (OSError, ValueError):
            rate = -1.0
        is_up = _read_text(place / "operstate") == "up"
        is_used = name == os.environ.get("GLOO_SOCKET_IFNAME", "").partition(",")[0]
        # A device of a bus is a real one.
        if is_used or (is_up and (place / "device").exists()):
            found.append(Interface(name=name, rate_bit=rate * 1e6 if rate > 0 else None))
    return found


def _read_text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _kernels() -> str:
    status = native.status()
    return f"{status['backend']} {status['isa'] or ''}".strip()
