"""What each node of a partition waits for, and which workers hold a copy of it, as the shards have it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gnnqlab.partition.parts import Parts

__all__ = ["Waiting", "travelling", "waiting_of"]

_NAMED = 6
"""So many rows of a worker are named one by one."""


@dataclass(frozen=True, eq=False)
class Waiting:
    """Of some nodes of a partition: what kind they are, what they wait for, and where they are copied."""

    owner: dict[int, int]
    """By node, in the order in which they were asked for."""
    central: dict[int, bool]
    rows: dict[int, dict[int, list[int]]]
    """By node that waits: by worker, whose rows come from there; of a cut of edges, the node's own partial sum."""
    copies: dict[int, list[int]]
    """By node: the workers that hold a copy of its row, ascending."""
    sums: bool
    """Whether sums of the node itself come, as under a cut of edges, and not rows of its neighbours."""

    def say(self, node: int) -> str:
        """Say what a node waits for."""
        waits = self.rows.get(node, {})
        if not waits:
            return "waits for nobody"
        if self.sums:
            return "waits for partial sums of worker " + ", ".join(map(str, sorted(waits)))
        told = [f"{_listed(rows)} of worker {worker}" for worker, rows in sorted(waits.items())]
        return "waits for " + ("row " if sum(map(len, waits.values())) == 1 else "rows ") + "; ".join(told)


def waiting_of(parts: Parts, nodes: NDArray[np.int64] | None = None) -> Waiting:
    """Look up what nodes wait for in one exchange, and who copies them.

    Of a cut of nodes a node waits for the rows of its in-neighbours with another owner; of a cut of edges for the
    partial sums that its mirrors elsewhere have.

    Args:
        parts: the partition.
        nodes: global ids; all by default.

    Raises:
        ValueError: if blocks were cut, of which every worker gets whole ones.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> found = waiting_of(partition(course.ten_nodes(), course.Halves(), workers=2))
        >>> found.rows[4], found.copies[4], found.say(4), found.say(0)
        ({1: [5, 7]}, [1], 'waits for rows 5, 7 of worker 1', 'waits for nobody')
    """
    kind = parts.shards[0].cuts
    if kind == "blocks":
        raise ValueError(
            "what a node waits for is drawn of cuts of nodes or edges, got one of blocks, of which every worker gets "
            "whole ones; cut by gq.METIS()"
        )
    total = parts.graph.num_nodes
    some = np.arange(total) if nodes is None else np.asarray(nodes)
    asked = np.zeros(total, bool)
    asked[some] = True
    owners = parts.owner.numpy()
    central = np.zeros(total, bool)
    rows: dict[int, dict[int, list[int]]] = defaultdict(dict)
    copies: dict[int, list[int]] = defaultdict(list)
    for shard in parts.shards:
        owned, halo = shard.owned.numpy(), shard.halo.numpy()
        central[owned[: shard.num_central]] = True
        for node in halo[asked[halo]].tolist():
            copies[node].append(shard.rank)
        if kind == "edges":
            found = [(route.ids.numpy(), route.ids.numpy(), route.peer) for route in shard.plan("forward").receive]
        else:
            targets = owned[np.repeat(np.arange(shard.num_owned), np.diff(shard.indptr.numpy()))]
            local = shard.indices.numpy()
            remote = local >= shard.num_owned
            sources = halo[local[remote] - shard.num_owned]
            of = owners[sources]
            found = [(targets[remote][of == peer], sources[of == peer], peer) for peer in range(parts.workers)]
        for waits, sources, peer in found:
            wanted = asked[waits]
            for node, source in sorted(set(zip(waits[wanted].tolist(), sources[wanted].tolist()))):
                rows[node].setdefault(peer, []).append(source)
    order = some.tolist()
    return Waiting(
        owner={node: int(owners[node]) for node in order},
        central={node: bool(central[node]) for node in order},
        rows=dict(rows),
        copies=dict(copies),
        sums=kind == "edges",
    )


def travelling(parts: Parts, sender: int, receiver: int) -> list[int]:
    """Return the nodes whose rows one worker sends another in an exchange, ascending: those that a heat map counts.

    Of a cut of edges both rounds count, as there: partial sums to masters, totals to mirrors; a node is named for each.

    Raises:
        ValueError: if there are no two such workers.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> travelling(partition(course.ten_nodes(), course.Halves(), workers=2), 1, 0)
        [5, 7]
    """
    workers = range(parts.workers)
    if sender not in workers or receiver not in workers or sender == receiver:
        raise ValueError(
            f"a pair is two different workers of 0 to {parts.workers - 1}, sender first, got ({sender}, {receiver})"
        )
    found: list[int] = parts.shards[receiver].plan("forward").from_peer(sender).ids.tolist()
    if parts.shards[receiver].cuts == "edges":
        owned_by_sender = parts.owner[parts.shards[receiver].halo] == sender
        found = found + parts.shards[receiver].halo[owned_by_sender].tolist()
    return sorted(found)


def _listed(rows: list[int]) -> str:
    named = ", ".join(map(str, rows[:_NAMED]))
    return named + (f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else "")
