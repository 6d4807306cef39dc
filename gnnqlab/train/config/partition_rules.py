"""Check that a run supports the weights and the changes of its partition."""

from __future__ import annotations

from gnnqlab.partition.cut import Partitioner

__all__ = ["check_partition"]


def check_partition(partition: Partitioner, *, protocol: str, task: str, node_features: str) -> None:
    """Check the settings of a run whose partition weighs edges or changes during training.

    Args:
        partition: part of the axis.
        protocol, task, node_features: settings of the run.

    Raises:
        ValueError: with rule, value and way out.

    Example:
        >>> from gnnqlab.partition.partitioners import METIS, RandomClusters
        >>> usual = {"protocol": "transductive", "task": "nodes", "node_features": "given"}
        >>> check_partition(METIS(), **usual)
        >>> check_partition(RandomClusters(partition_every=5), **{**usual, "node_features": "learned"})
        Traceback (most recent call last):
        ValueError: partition_every needs state that does not belong to workers' nodes, got node_features 'learned'...
    """
    name = type(partition).__name__
    if protocol == "inductive" and (partition.weighs_edges or partition.partition_every):
        raise ValueError(
            f"protocol 'inductive' trains on other edges than those that partition {name} weighs or moves, got its "
            "correction or partition_every; choose correction 'none' and partition_every 0, or protocol 'transductive'"
        )
    if partition.partition_every and (task == "links" or node_features == "learned"):
        reason = "task 'links'" if task == "links" else "node_features 'learned'"
        raise ValueError(
            f"partition_every needs state that does not belong to workers' nodes, got {reason}; choose partition_every "
            "0, or another task or features"
        )
