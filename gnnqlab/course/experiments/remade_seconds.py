"""What it costs to make rows again in place of keeping them: seconds of an epoch, by what is kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gnnqlab.compute.remade import KEEPS

if TYPE_CHECKING:
    from gnnqlab.graph import Graph
    from gnnqlab.nn import ModelSettings

__all__ = ["remade_seconds"]


def remade_seconds(graph: Graph, shape: ModelSettings, *, epochs: int = 5) -> dict[str, list[float]]:
    """Return the seconds of each epoch of one process by ``keep_for_backward``, in the order of ``KEEPS``.

    Trainings take turns, an epoch each, so that what else the machine does is seen by all; a first epoch, which also
    sets things up, is left out. They learn the same to the bit.

    Args:
        graph: whose nodes are trained on.
        shape: a model's settings.
        epochs: of each, at least 1.

    Raises:
        ValueError: if there are no epochs.

    Example:
        >>> from gnnqlab.graph.generate import sbm
        >>> from gnnqlab.nn import ModelSettings
        >>> found = remade_seconds(sbm(100, 4, 6, features=8), ModelSettings(layers=2, hidden=8), epochs=2)
        >>> {keep: len(seconds) for keep, seconds in found.items()}
        {'all': 2, 'sums': 2, 'nothing': 2}
    """
    from gnnqlab.nn import LocalGraph, build_model
    from gnnqlab.train.config.run_config import TrainSettings
    from gnnqlab.train.loop.node_labels import label_objective
    from gnnqlab.train.loop.trainer import Trainer

    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    trainers = {
        keep: Trainer(
            LocalGraph(graph),
            label_objective(graph),
            build_model(shape, graph.num_features, graph.num_classes, seed=0),
            TrainSettings(keep_for_backward=keep),
        )
        for keep in KEEPS
    }
    seconds: dict[str, list[float]] = {keep: [] for keep in KEEPS}
    for epoch in range(epochs + 1):
        for keep, trainer in trainers.items():
            begun = time.perf_counter()
            trainer.epoch(epoch)
            if epoch > 0:
                seconds[keep].append(time.perf_counter() - begun)
    return seconds
