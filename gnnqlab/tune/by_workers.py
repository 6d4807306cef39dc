"""What systems move and keep for any number of workers: bytes by formula, memory by a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gnnqlab.exchange.traffic_model import PartitionSizes
from gnnqlab.graph.graph import Graph
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.parts import cut_graph
from gnnqlab.systems.system import System
from gnnqlab.tune.memory import foreseen_memory
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

    Each system has the cut that it names; systems that name the same one share it.

    Args:
        graph: the whole graph.
        systems: by the name that they are shown by; each of one width for all rows of a direction.
        model: its settings.
        workers: numbers of workers P.
        tried_up_to: largest P for which memory is found, by a trial of two epochs on P workers in this process.

    Returns:
        A row a system and P: ``system, workers, bytes`` (sent by all workers in an epoch, gradients of weights left
        out), ``memory_bytes`` (live tensors of the worker that needs most, at its peak; NaN where it was not tried).

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
        raise ValueError(f"systems and numbers of workers must be given, got {len(systems)} and {len(workers)}")
    sizes: dict[tuple[object, int], PartitionSizes] = {}
    rows = []
    for name, system in systems.items():
        for count in workers:
            place = system.partition, count
            if place not in sizes:
                cut = cut_graph(graph, system.partition, count)
                sizes[place] = PartitionSizes.of(cut.shard(graph, rank) for rank in range(count))
            sent = epoch_bytes(system, model, sizes[place], features=graph.num_features, classes=graph.num_classes)
            held = float("nan")
            if count <= tried_up_to:
                held = float(sum(foreseen_memory(graph, model, system, workers=count).values()))
            rows.append({"system": name, "workers": count, "bytes": sent, "memory_bytes": held})
    return pd.DataFrame(rows)
