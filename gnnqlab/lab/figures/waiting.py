"""Rows that each node of a partition waits for, and workers that hold a copy of it, as stored in the shards."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gnnqlab.partition.parts import Parts

__all__ = ["Dependencies", "transferred_nodes", "dependencies_of"]

_NAMED = 6
"""Most rows of a worker that are listed one by one."""
_ALL_ROWS = {
    "blocks": "which every worker receives as a whole",
    "columns": "of which every worker receives its share for all nodes",
}
"""Cut under which every worker receives all rows -> reason."""


@dataclass(frozen=True, eq=False)
class Dependencies:
    """Kinds of some nodes of a partition, the rows they wait for, and the workers with a copy of them."""

    owner: dict[int, int]
    """Node -> worker, in the order of the requested nodes."""
    central: dict[int, bool]
    rows: dict[int, dict[int, list[int]]]
    """Node -> worker -> nodes whose rows it sends; under a vertex-cut the node itself, for its partial sum."""
    copies: dict[int, list[int]]
    """Node -> workers that hold a copy of its row, ascending."""
    is_vertex_cut: bool
    """Under a vertex-cut a node receives its own partial sums and not rows of its neighbours."""

    def describe(self, node: int) -> str:
        """Describe in words what a node waits for."""
        waits = self.rows.get(node, {})
        if not waits:
            return "waits for no worker"
        if self.is_vertex_cut:
            return "waits for partial sums of worker " + ", ".join(map(str, sorted(waits)))
        sources = [f"{_listed(rows)} of worker {worker}" for worker, rows in sorted(waits.items())]
        return "waits for " + ("row " if sum(map(len, waits.values())) == 1 else "rows ") + "; ".join(sources)


def dependencies_of(parts: Parts, nodes: NDArray[np.int64] | None = None) -> Dependencies:
    """Return the rows that nodes wait for in one exchange, and the workers with copies of the nodes.

    Under an edge-cut a node waits for the rows of its in-neighbours with another owner; under a vertex-cut for the
    partial sums of its mirrors.

    Args:
        parts: the partition.
        nodes: global ids; all by default.

    Raises:
        ValueError: if the graph is cut into blocks or columns, because every worker receives all rows then.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> found = dependencies_of(partition(course.ten_nodes(), course.Halves(), workers=2))
        >>> found.rows[4], found.copies[4], found.describe(4), found.describe(0)
        ({1: [5, 7]}, [1], 'waits for rows 5, 7 of worker 1', 'waits for no worker')
    """
    kind = parts.shards[0].cuts
    if kind in _ALL_ROWS:
        raise ValueError(
            f"rows that a node waits for are known for edge-cuts and vertex-cuts, got a cut into {kind}, "
            f"{_ALL_ROWS[kind]}; partition by gq.partitioners.METIS()"
        )
    total = parts.graph.num_nodes
    selection = np.arange(total) if nodes is None else np.asarray(nodes)
    is_selected = np.zeros(total, bool)  # (N,)
    is_selected[selection] = True
    owners = parts.owner.numpy()
    is_central = np.zeros(total, bool)
    rows: dict[int, dict[int, list[int]]] = defaultdict(dict)
    copies: dict[int, list[int]] = defaultdict(list)
    for shard in parts.shards:
        owned_ids, halo = shard.owned.numpy(), shard.halo.numpy()
        is_central[owned_ids[: shard.num_central]] = True  # local order: central nodes first
        for node in halo[is_selected[halo]].tolist():  # ascending ranks, because shards are in order
            copies[node].append(shard.rank)
        if kind == "edges":
            # A partial sum is of the master's own node, so waiting and sent node are the same.
            waits = [(route.ids.numpy(), route.ids.numpy(), route.peer) for route in shard.plan("forward").receive]
        else:
            targets = owned_ids[np.repeat(np.arange(shard.num_owned), np.diff(shard.indptr.numpy()))]  # CSR -> (E,)
            local_ids = shard.indices.numpy()  # (E,)
            is_remote = local_ids >= shard.num_owned  # local ids: owned nodes first, then halo nodes
            sources = halo[local_ids[is_remote] - shard.num_owned]
            owner = owners[sources]
            waits = [(targets[is_remote][owner == peer], sources[owner == peer], peer) for peer in range(parts.workers)]
        for targets, sources, peer in waits:
            target_mask = is_selected[targets]
            # Parallel edges count once.
            for node, source in sorted(set(zip(targets[target_mask].tolist(), sources[target_mask].tolist()))):
                rows[node].setdefault(peer, []).append(source)
    order = selection.tolist()
    return Dependencies(
        owner={node: int(owners[node]) for node in order},
        central={node: bool(is_central[node]) for node in order},
        rows=dict(rows),
        copies=dict(copies),
        is_vertex_cut=kind == "edges",
    )


def transferred_nodes(parts: Parts, sender: int, receiver: int) -> list[int]:
    """Return the nodes whose rows one worker sends another per exchange, ascending, as counted by the traffic map.

    Under a vertex-cut both rounds count: partial sums to masters, totals to mirrors; a node may appear in each.

    Raises:
        ValueError: if they are not two different workers of the partition.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> transferred_nodes(partition(course.ten_nodes(), course.Halves(), workers=2), 1, 0)
        [5, 7]
    """
    workers = range(parts.workers)
    if sender not in workers or receiver not in workers or sender == receiver:
        raise ValueError(
            f"a pair must be two different workers of 0 to {parts.workers - 1}, sender first, got "
            f"({sender}, {receiver})"
        )
    nodes: list[int] = parts.shards[receiver].plan("forward").from_peer(sender).ids.tolist()
    if parts.shards[receiver].cuts == "edges":
        owned_by_sender = parts.owner[parts.shards[receiver].halo] == sender
        # Second round of a vertex-cut: totals from masters to their mirrors.
        nodes = nodes + parts.shards[receiver].halo[owned_by_sender].tolist()
    return sorted(nodes)


def _listed(rows: list[int]) -> str:
    listed_rows = ", ".join(map(str, rows[:_NAMED]))
    return listed_rows + (f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else "")
