"""Bytes and memory of systems for any number of workers: bytes by formula, memory by a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gnnqlab.exchange.traffic_model import PartitionSizes
from gnnqlab.graph.graph import Graph
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.parts import cut_graph
from gnnqlab.systems.system import System
from gnnqlab.tune.memory import predict_memory
from gnnqlab.tune.predicted_volume import epoch_bytes

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["by_workers"]


def by_workers(
    graph: Graph,
    systems: Mapping[str, System],
    model: ModelSettings,
    *,
    workers: Sequence[int] = (1, 2, 4, 8, 16, 32, 64),
    tried_up_to: int = 8,
) -> DataFrame:
    """Return the bytes of an epoch and the memory of a worker, by system and number of workers.

    Each system uses its own partitioner; systems with equal partitioners share a cut.

    Args:
        graph: the whole graph.
        systems: display name -> system, each with one bit-width for all rows of a direction.
        model: its settings.
        workers: numbers of workers P.
        tried_up_to: largest P for which memory is measured, by a trial of two epochs on P workers in this process.

    Returns:
        One row per system and P: ``system, workers, bytes`` (sent by all workers in an epoch, without weight
        gradients), ``memory_bytes`` (peak of live tensors of the worker that needs most; NaN if not measured).

    Raises:
        ValueError: if there is no system or number of workers, or a system has no formula.

    Example:
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.systems import cagnet, sar
        >>> shape = ModelSettings(layers=2, hidden=8)
        >>> found = by_workers(load("sbm:60,3,6"), {"CAGNET": cagnet()}, shape, workers=(1, 2), tried_up_to=1)
        >>> found["bytes"].tolist(), found["memory_bytes"].isna().tolist()  # 60 * 4 * (8 + 8 + 3 + 3)
        ([0.0, 5280.0], [False, True])
    """
    import pandas as pd

    if not systems or not workers:
        raise ValueError(
            f"systems and workers must have at least one entry each, got {len(systems)} and {len(workers)}"
        )
    sizes: dict[tuple[object, int], PartitionSizes] = {}
    rows = []
    for name, system in systems.items():
        for count in workers:
            place = system.partition, count
            if place not in sizes:  # a cut takes longer than all formulas, so equal partitioners share it
                cut = cut_graph(graph, system.partition, count)
                sizes[place] = PartitionSizes.from_shards(cut.build_shards(graph))
            amount = epoch_bytes(system, model, sizes[place], features=graph.num_features, classes=graph.num_classes)
            memory = float("nan")
            if count <= tried_up_to:  # a trial runs all its workers in this process
                memory = float(sum(predict_memory(graph, model, system, workers=count).values()))
            rows.append({"system": name, "workers": count, "bytes": amount, "memory_bytes": memory})
    return pd.DataFrame(rows)
