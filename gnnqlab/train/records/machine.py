"""Which machine of a run this is, and the names of files that each machine writes for itself. Standard library only."""

from __future__ import annotations

import os

__all__ = ["NODE", "node_name", "this_node"]

NODE = "GNNQLAB_NODE"
"""By this variable a guard tells its workers the number of their machine."""


def this_node() -> int:
    """Number of this machine in its run; 0 of a run on one."""
    return int(os.environ.get(NODE, "0"))


def node_name(stem: str, node: int, suffix: str = ".json") -> str:
    """File name of one machine's own: the first has the plain name, so that one machine has no numbers.

    Example:
        >>> node_name("status", 0), node_name("status", 1)
        ('status.json', 'status-node1.json')
    """
    return f"{stem}{suffix}" if node == 0 else f"{stem}-node{node}{suffix}"
