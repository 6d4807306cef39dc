"""Checks of several machines together: the same command on each, which meet at the first one, as a run would."""

from __future__ import annotations

import datetime
import os
import socket
from pathlib import Path
from typing import Any

from gnnqlab.errors import LaunchRefused
from gnnqlab.launch.meeting import Meeting
from gnnqlab.launch.network import interface_towards, require_interface, resolve
from gnnqlab.launch.same_versions import find_difference, own_versions
from gnnqlab.run import folder as files
from gnnqlab.run.machine_links import MachineLinks
from gnnqlab.units import human_bit_rate, human_seconds

__all__ = ["examine_machines"]

_GROUP_S = 60.0
"""Limit for connections between all machines, which have met before."""


def examine_machines(
    names: list[str], node: int, *, port: int, interface: str | None = None, root: Path | None = None
) -> list[dict[str, Any]]:
    """Return the rows of ``gnnqlab doctor`` for several machines, the same on each.

    Args:
        names: name or address of each machine, the first one first.
        node: number of this machine.
        port: a free port of the first machine.
        interface: network interface of this machine; by default the one that leads to the first machine.
        root: folder of runs; ``GNNQLAB_RUNS``, else ``runs``, by default.

    Raises:
        ValueError: if the number, the interface or the port is wrong.
        LaunchRefused: if the machines cannot meet.
    """
    if len(names) < 2 or not 0 <= node < len(names):
        raise ValueError(
            f"node-rank must be a number below the machines, of which there are at least two, got {node} of "
            f"{len(names)}; name all of them in --nodes"
        )
    interface = interface_towards(names[0]) if interface is None else interface
    require_interface(interface)
    os.environ["GLOO_SOCKET_IFNAME"] = interface
    rows = [_check(f"name {name}", *_resolved(name)) for name in names]
    with Meeting(node, len(names), names[0], port) as meeting:
        found = meeting.all_gather({"host": socket.gethostname(), "versions": own_versions()})
        rows.append(_check(f"port {port} of {names[0]}", "reached by all machines", ""))
    versions = [(facts["host"], facts["versions"]) for facts in found]
    rows.append(_check("versions", ", ".join(map(" ".join, versions[0][1].items())), find_difference(versions)))
    return [*rows, *_through_process_group(names[0], port, node, len(names), root)]


def _through_process_group(address: str, port: int, node: int, nnodes: int, root: Path | None) -> list[dict[str, Any]]:
    """Return the rows that need the transport of a run: its folder and its links."""
    import torch.distributed as dist

    from gnnqlab.launch.machine_links import measure_machine_links
    from gnnqlab.launch.same_folder import check_same_folder

    folder = files.default_root() if root is None else root.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    timeout = datetime.timedelta(seconds=_GROUP_S)
    try:
        dist.init_process_group(
            "gloo", init_method=f"tcp://{address}:{port}", rank=node, world_size=nnodes, timeout=timeout
        )
        dist.barrier()
    except RuntimeError as error:
        raise LaunchRefused(
            f"machines must reach each other over interface {os.environ['GLOO_SOCKET_IFNAME']}, got: {error}; choose "
            "another one with --interface, or open the firewall between them"
        ) from error
    try:
        reason = ""
        try:
            check_same_folder(folder, node, nnodes)
        except RuntimeError as error:
            reason = str(error)
        links = measure_machine_links(is_first_on_machine=True)
        dist.barrier()  # the first machine has the store of all
    finally:
        dist.destroy_process_group()
    return [_check("shared folder", str(folder), reason), *_link_rows(links)]


def _link_rows(links: MachineLinks) -> list[dict[str, Any]]:
    rows = [
        _check(f"machine {node}", f"{facts['host']}, {facts['interface']}, {facts['kernels']} kernels", "")
        for node, facts in enumerate(links.machines)
    ]
    for link in links.links:
        first, second = link["machines"]
        rate, latency = human_bit_rate(link["bit_per_s"]), human_seconds(link["latency_s"])
        text = f"{rate}, {latency}, clocks {link['clock_s']:+.3f} s"
        rows.append(_check(f"link {first} to {second}", text, ""))
    return [*rows, *(_check("warning", "slow", text) for text in links.warnings)]


def _resolved(name: str) -> tuple[str, str]:
    """Return the address of a name, and the reason why there is none."""
    try:
        return resolve(name), ""
    except ValueError as error:
        return "none", str(error)


def _check(name: str, result: str, reason: str) -> dict[str, Any]:
    return {"check": name, "found": result, "ok": "no" if reason else "yes", "way_out": reason}
