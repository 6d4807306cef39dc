"""Check before training that all machines of a run have the same software."""

from __future__ import annotations

import importlib.metadata
import platform
import socket

from gnnqlab.plain_values import all_gather_values

__all__ = ["check_same_versions"]


def check_same_versions() -> None:
    """Raise if workers have different versions, whose messages or random numbers may differ.

    Every worker must call this.

    Raises:
        RuntimeError: on every worker, with the versions and the machines that have them.
    """
    packages = {name: importlib.metadata.version(name) for name in ("gnnqlab", "torch")}
    found = all_gather_values(
        (socket.gethostname(), {**packages, "Python": ".".join(platform.python_version_tuple()[:2])})
    )
    for package in found[0][1]:
        hosts_by_version: dict[str, set[str]] = {}
        for host, versions in found:
            hosts_by_version.setdefault(versions[package], set()).add(host)
        if len(hosts_by_version) > 1:
            texts = [f"{version} on {', '.join(sorted(hosts))}" for version, hosts in sorted(hosts_by_version.items())]
            raise RuntimeError(
                f"machines of one run must have the same version of {package}, got {' and '.join(texts)}; install one "
                "of them on all"
            )
