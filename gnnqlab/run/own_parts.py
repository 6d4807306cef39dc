"""The partition that a run was trained on, found again: from the shards that were kept, or cut once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.graph.link_split import split_links
from gnnqlab.graph.sources import load
from gnnqlab.partition.cut import NodeCut
from gnnqlab.partition.parts import Parts, has_shards, owner_of, partition, shard_folder
from gnnqlab.train.shard_cache import kept_shards

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.run.run_data import RunData

__all__ = ["parts_of"]


def parts_of(run: RunData) -> Parts:
    """Return the partition that a run's workers were given.

    Shards are kept under the content of graph and partitioner, and a run notes where: so it is known whether the graph
    is still the one that was cut.

    Raises:
        ValueError: if the run has not come so far, or its graph is not found or has changed.
    """
    kept = kept_shards(run.folder)
    if kept is None:
        raise ValueError(
            f"a run must have shared its graph out to have a partition, got run {run.id} without a note of its shards; "
            "wait for its first epoch, or launch it anew"
        )
    config = run.config
    hosts, partitioner = config.launch.hosts or 1, config.placed.partition
    graph = _graph_of(run)
    if shard_folder(graph.content_hash, partitioner, config.workers).name != kept.name:
        raise ValueError(
            f"the graph of run {run.id} must be the one that was cut, got another in {config.graph} (or another "
            "version's shards); launch the run anew"
        )
    if partitioner.cuts == "nodes" and has_shards(kept, config.workers):
        cut = NodeCut(owner=owner_of(kept, config.workers, graph.num_nodes), workers=config.workers)
        return Parts(graph=graph, cut=cut, per_host=config.workers // hosts)
    return partition(graph, partitioner, hosts=hosts, per_host=config.workers // hosts)


def _graph_of(run: RunData) -> Graph:
    """Return the graph that was cut: without the links that were held back, where there are some."""
    config = run.config
    try:
        graph = load(config.graph)
    except (OSError, ValueError) as error:
        raise ValueError(f"the graph of run {run.id} must be found to have its partition, got {error}") from error
    if config.task.task != "links":
        return graph
    return split_links(graph, val=config.task.val_share, test=config.task.test_share, seed=config.train.seed).graph
