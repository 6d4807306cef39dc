"""Restore the partition of a run: from its cached shards, or by partitioning the graph again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.graph.link_split import split_links
from gnnqlab.graph.sources import load
from gnnqlab.partition.cut import NodeCut
from gnnqlab.partition.parts import Parts, has_shards, owner_of, partition, shard_folder
from gnnqlab.train.shard_cache import find_shards

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.run.run_data import RunData

__all__ = ["parts_of"]


def parts_of(run: RunData, period: int = 0) -> Parts:
    """Return the partition that a run was trained on, that of a period if it changes.

    The cache key of shards contains the hashes of graph and partitioner, and a run records it: so a change of the graph
    is detected.

    Raises:
        ValueError: if the run has not been partitioned yet, its graph is not found or has changed, or it has no such
            period.
    """
    shards = find_shards(run.folder)
    if shards is None:
        raise ValueError(
            f"a run must have partitioned its graph, got run {run.id} without a record of its shards; wait for its "
            "first epoch, or launch it again"
        )
    config = run.config
    # Adapted to the hosts, as for the workers.
    hosts, partitioner = config.launch.hosts or 1, config.system_on_hosts.partition
    graph = _graph_of(run)
    if shard_folder(graph.content_hash, partitioner, config.workers).name != shards.name:
        raise ValueError(
            f"the graph of run {run.id} must be the one that was partitioned, got another in {config.graph} (or "
            "another version's shards); launch the run again"
        )
    every = partitioner.partition_every
    num_periods = -(-config.train.epochs // every) if every else 1  # rounded up
    if not 0 <= period < num_periods:
        raise ValueError(
            f"period of run {run.id} must be in [0, {num_periods - 1}], got {period}; it has {config.train.epochs} "
            f"epochs and partition_every {every}"
        )
    if period > 0:  # only shards of the first period are stored
        cut = partitioner.cut_in_period(graph, config.workers, period)
        return Parts(graph=graph, cut=cut, per_host=config.workers // hosts)
    # An edge-cut is read from its shards, which store the owner of each node; other cuts are computed again.
    if partitioner.cuts == "nodes" and has_shards(shards, config.workers):
        cut = NodeCut(owner=owner_of(shards, config.workers, graph.num_nodes), workers=config.workers)
        return Parts(graph=graph, cut=cut, per_host=config.workers // hosts)
    return partition(graph, partitioner, hosts=hosts, per_host=config.workers // hosts)


def _graph_of(run: RunData) -> Graph:
    """Return the graph that was partitioned: for link prediction without the held-out links."""
    config = run.config
    try:
        graph = load(config.graph)
    except (OSError, ValueError) as error:
        raise ValueError(f"the graph of run {run.id} must be found to restore its partition, got {error}") from error
    if config.task.task != "links":
        return graph
    return split_links(graph, val=config.task.val_share, test=config.task.test_share, seed=config.train.seed).graph
