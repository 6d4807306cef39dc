"""Trainings of a model with products in different precisions, from the same weights in this process (TANGO Fig. 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gnnqlab.compute.products import Compute
from gnnqlab.graph.graph import Graph
from gnnqlab.nn.message_passing import LocalGraph
from gnnqlab.nn.models.registry import ModelSettings, build_model
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["train_rounded"]


def train_rounded(
    graph: Graph,
    computes: Mapping[str, Compute],
    *,
    seeds: Sequence[int] = (0,),
    epochs: int = 60,
    model: ModelSettings | None = None,
    every: int = 5,
) -> DataFrame:
    """Train once a seed with each precision; scores are those of the weights in that precision.

    Args:
        graph: the whole graph.
        computes: parts of the axis ``compute``, by name.
        seeds: of weights and noise.
        epochs: of each training.
        model: by default a GCN of two layers, 32 wide; without dropout in any case.
        every: epochs between two looks at the score.

    Returns:
        One row a look: ``compute, seed, epoch, loss`` (before the step), ``score`` (on the test nodes, in [0, 1]).

    Raises:
        ValueError: if an epoch never comes.

    Example:
        >>> from gnnqlab.compute import Float32Products, Int8Products
        >>> from gnnqlab.graph import load
        >>> found = train_rounded(load("sbm:60,3,6"), {"float32": Float32Products(), "int8": Int8Products()}, epochs=10)
        >>> found["epoch"].tolist()
        [4, 9, 4, 9]
    """
    import pandas as pd

    if epochs < 1 or every < 1:
        raise ValueError(f"epochs and every must be at least 1, got {epochs} and {every}")
    shape = replace(model or ModelSettings(layers=2, hidden=32), dropout=0.0, input_dropout=0.0)
    rows = []
    for seed in seeds:
        for name, compute in computes.items():
            network = build_model(shape, graph.num_features, graph.num_classes, seed=seed)
            local = LocalGraph(graph, seed=seed, products=compute.build())
            if not getattr(network, "takes_sparse_input", False):
                local.densify_features()
            trainer = Trainer(local, label_objective(graph), network, TrainSettings(seed=seed, lr=0.01))
            for epoch in range(epochs):
                loss = trainer.epoch(epoch)
                if epoch % every == every - 1 or epoch == epochs - 1:
                    score = trainer.evaluate(epoch).test
                    rows.append({"compute": name, "seed": seed, "epoch": epoch, "loss": loss, "score": score})
    return pd.DataFrame(rows)
