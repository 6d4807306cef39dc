"""What it costs that a row's rounding error agrees at all its receivers: gradient variance both ways.

AdaQP's Eq. 24 adds the errors of a row's receivers up as independent ones. Where all of them draw the same error, it
passes through several sums of neighbours with one sign, and does not average out over them.

Why noise by receiver is the default: on ``amazon_computers`` in 1 bit on 8 workers (two layers of 32, 10 epochs, seeds
0 to 3, 12 passes each) noise of a node's own has 1.36 ± 0.20 times its gradient variance with GCN and 1.86 ± 0.49 times
with GraphSAGE, where a row has 2.4 receivers; on ``cora``, where it has 1.3, 1.01 ± 0.16 and 0.95 ± 0.56. It is never
shown to be worse, costs nothing (each receiver's copy is rounded anyway), and is what Eq. 24 assumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gnnqlab.bits.policy import Fixed
from gnnqlab.graph.graph import Graph
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.gradient_noise import gradient_noise, trained_weights
from gnnqlab.systems.system import System, make_system
from gnnqlab.theory.intervals import interval

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["receiver_noise"]


def receiver_noise(
    graph: Graph,
    model: ModelSettings,
    *,
    workers: Sequence[int] = (2, 8),
    bits: int = 1,
    epochs: int = 10,
    repeats: int = 24,
    seeds: Sequence[int] = (0, 1, 2),
    system: System | None = None,
    hosts: int = 1,
) -> DataFrame:
    """Measure the gradient's variance with noise of a node's own and with noise by receiver, at trained weights.

    Args:
        graph: the whole graph.
        model: its dropout is switched off.
        workers: numbers of partitions, threads of this process.
        bits: of every row.
        epochs: of exact training before.
        repeats: passes with independent noise, for each seed and each kind of noise.
        seeds: of weights and noise.
        system: its partitioner and exchange are used; METIS and halo rows by default.
        hosts: that share the workers evenly; the partitioner and the exchange are told.

    Returns:
        By ``workers``: ``receiver`` and ``node``, the mean variance over the squared gradient; ``ratio``, the mean over
        seeds of node / receiver, and ``±``, half its 95 % interval; ``receivers``, the mean number of those that a row
        has. With two workers the ratio is 1: a row has one receiver.

    Example:
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.partition import Random
        >>> from gnnqlab.systems import vanilla
        >>> recipe, shape = replace(vanilla(), partition=Random()), ModelSettings(layers=2, hidden=8)
        >>> found = receiver_noise(load("sbm:60,3,6"), shape, workers=(2,), epochs=1, repeats=3, system=recipe)
        >>> found.loc[2, ["ratio", "receivers"]].tolist()
        [1.0, 1.0]
    """
    import pandas as pd

    shape = replace(model, dropout=0.0, input_dropout=0.0)
    lines = {}
    for count in workers:
        pairs = []
        for seed in seeds:
            weights = trained_weights(graph, shape, epochs, seed=seed)
            both = (
                gradient_noise(
                    graph,
                    Fixed(bits=bits),
                    shape,
                    workers=count,
                    repeats=repeats,
                    weights=weights,
                    system=system,
                    noise=noise,
                    seed=seed,
                    hosts=hosts,
                ).relative
                for noise in ("receiver", "node")
            )
            pairs.append(tuple(both))
        ratio, half = interval([node / receiver for receiver, node in pairs])
        receiver, node = (sum(column) / len(pairs) for column in zip(*pairs))
        copies = _receivers(graph, (system or make_system("vanilla")).on_hosts(hosts), count)
        lines[count] = {"receiver": receiver, "node": node, "ratio": ratio, "±": half, "receivers": copies}
    return pd.DataFrame(lines).T.rename_axis("workers")


def _receivers(graph: Graph, system: System, workers: int) -> float:
    """Return to how many workers a row that travels goes, on average."""
    cut = cut_graph(graph, system.partition, workers)
    shards = [cut.shard(graph, rank) for rank in range(workers)]
    copies = sum(shard.num_halo for shard in shards)
    return copies / max(1, sum(shard.boundary.unique().numel() for shard in shards))
