"""How many matrices of nodes × hidden an epoch holds at its peak, by what is kept for the backward pass."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnnqlab.compute.products import Compute
    from gnnqlab.graph import Graph
    from gnnqlab.nn import ModelSettings
    from gnnqlab.train.loop.trainer import Trainer

__all__ = ["live_matrices", "live_of"]


def live_matrices(
    graph: Graph, shape: ModelSettings, keep: str = "all", *, workers: int = 1, compute: Compute | None = None
) -> float:
    """Return the live bytes at the peak of an epoch of Vanilla in units of a float32 matrix of nodes × hidden.

    Not counted: weights, adjacency, features and labels, which are there before. The unit is of a worker's own nodes;
    halo rows and messages count as parts of it. Of several workers it is the worst.

    Args:
        graph: its features should be as wide as ``hidden``: sums of the first layer are as wide as these.
        shape: a model's settings.
        keep: ``TrainSettings.keep_for_backward``.
        workers: threads of this process.
        compute: precision of the products; by default float32.

    Raises:
        ValueError: if a setting is wrong.

    Example:
        >>> from gnnqlab.graph.generate import sbm
        >>> from gnnqlab.nn import ModelSettings
        >>> graph, shape = sbm(400, 4, 6, features=16), ModelSettings(layers=3, hidden=16)
        >>> live_matrices(graph, shape, "nothing") < live_matrices(graph, shape, "all")
        True
    """
    from gnnqlab.compute import Float32Products
    from gnnqlab.nn import LocalGraph, build_model
    from gnnqlab.partition.parts import cut_graph
    from gnnqlab.simulation.threaded_workers import ThreadedWorkers
    from gnnqlab.systems import vanilla
    from gnnqlab.train.config.run_config import TrainSettings
    from gnnqlab.train.loop.node_labels import label_objective
    from gnnqlab.train.loop.trainer import Trainer

    compute = compute or Float32Products()
    settings = TrainSettings(keep_for_backward=keep)
    if workers == 1:
        network = build_model(shape, graph.num_features, graph.num_classes, seed=0)
        trainer = Trainer(LocalGraph(graph, products=compute.build()), label_objective(graph), network, settings)
        trainer.epoch(0)
        return live_of(trainer, shape.hidden)
    system = replace(vanilla(), compute=compute)
    threads = ThreadedWorkers(
        graph, cut_graph(graph, system.partition, workers), system, shape, settings, as_launched=True
    )
    threads.step(0)
    return max(threads.run(lambda trainer: live_of(trainer, shape.hidden)))


def live_of(trainer: Trainer, hidden: int) -> float:
    """Return the same of the next pass of one trainer; weights do not move."""
    from gnnqlab.train.records.ledger import counting

    stack, ledger = counting(trainer)
    before = sum(ledger.live[purpose] for purpose in ("weights", "adjacency", "rows"))
    with stack:
        trainer.gradients(1)
    return (sum(ledger.at_peak.values()) - before) / (4 * trainer.graph.ids.numel() * hidden)
