"""Check before training that all machines of a run have the same software."""

from __future__ import annotations

import importlib.metadata
import platform
import socket
from collections.abc import Mapping, Sequence

from gnnqlab.plain_values import all_gather_values

__all__ = ["check_same_versions", "find_difference", "own_versions"]


def own_versions() -> dict[str, str]:
    """Return the versions of this machine that all machines of a run must share."""
    packages = {name: importlib.metadata.version(name) for name in ("gnnqlab", "torch")}
    return {**packages, "Python": ".".join(platform.python_version_tuple()[:2])}


def find_difference(found: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    """Return an error text about versions that differ, empty if all are equal.

    Args:
        found: name and versions of each machine.

    Example:
        >>> find_difference([("n0", {"torch": "2.13"}), ("n1", {"torch": "2.12"})])
        'machines of one run must have the same version of torch, got 2.12 on n1 and 2.13 on n0; install one on all'
    """
    for package in found[0][1]:
        hosts_by_version: dict[str, set[str]] = {}
        for host, versions in found:
            hosts_by_version.setdefault(versions[package], set()).add(host)
        if len(hosts_by_version) > 1:
            texts = [f"{version} on {', '.join(sorted(hosts))}" for version, hosts in sorted(hosts_by_version.items())]
            return (
                f"machines of one run must have the same version of {package}, got {' and '.join(texts)}; install one "
                "on all"
            )
    return ""


def check_same_versions() -> None:
    """Raise if workers have different versions, whose messages or random numbers may differ.

    Every worker must call this.

    Raises:
        RuntimeError: on every worker, with the versions and the machines that have them.
    """
    if text := find_difference(all_gather_values((socket.gethostname(), own_versions()))):
        raise RuntimeError(text)
