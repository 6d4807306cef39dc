"""Number of this machine in its run, and names of per-machine files. Standard library only."""

from __future__ import annotations

import os

__all__ = ["MACHINE", "NODE", "machine_file", "node_name", "this_node"]

NODE = "GNNQLAB_NODE"
"""Environment variable in which a guard passes the number of the machine to its workers."""
MACHINE = "GNNQLAB_MACHINE"
"""Environment variable of ranks that have a guard each: name of their machine, empty if all are on one machine."""


def this_node() -> int:
    """Return the number of this machine in its run; 0 for a run on one machine."""
    return int(os.environ.get(NODE, "0"))


def node_name(stem: str, node: int, suffix: str = ".json") -> str:
    """Return the file name of one machine; the first has the plain name, so a run on one machine has no numbers.

    Example:
        >>> node_name("status", 0), node_name("status", 1)
        ('status.json', 'status-node1.json')
    """
    return f"{stem}{suffix}" if node == 0 else f"{stem}-node{node}{suffix}"


def machine_file(stem: str) -> str:
    """Return the name of a file that the workers of this machine share, and those of other machines do not."""
    name = os.environ.get(MACHINE)
    if name is None:
        return node_name(stem, this_node())
    return f"{stem}-{name}.json" if name else f"{stem}.json"
