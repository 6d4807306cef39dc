"""Exact training of a whole graph in one process: the reference for distributed workers and other precisions."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from gnnqlab.compute.float32 import PLAIN
from gnnqlab.compute.products import Products
from gnnqlab.graph.graph import Graph
from gnnqlab.nn.message_passing import GraphPass, LocalGraph
from gnnqlab.nn.models.registry import ModelSettings, build_model
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.own_objective import node_objective
from gnnqlab.train.loop.trainer import Trainer

__all__ = ["SmoothStack", "build_network", "exact_trainer"]


def exact_trainer(
    graph: Graph,
    model: ModelSettings,
    *,
    seed: int = 0,
    smooth: bool = False,
    lr: float = TrainSettings.lr,
    products: Products = PLAIN,
    dense: bool = False,
    objective: str = "",
) -> Trainer:
    """Create the trainer of a model on the whole graph in one process, with exact losses and gradients.

    Args:
        graph, model: to train.
        seed: of weights and dropout.
        smooth: replace ReLU by GELU.
        lr: of Adam.
        products: for another precision than float32.
        dense: convert sparse features to dense ones.
        objective: class of the user as ``module:Class``; by default cross-entropy.
    """
    local_graph = LocalGraph(graph, seed=seed, products=products)
    if dense:
        local_graph.densify_features()
    return Trainer(
        local_graph,
        node_objective(graph, own=objective),
        build_network(model, graph, seed, smooth),
        TrainSettings(seed=seed, lr=lr),
    )


class SmoothStack(nn.Module):
    """Convolutions and norms of a stack with GELU in place of ReLU, for a continuous gradient."""

    def __init__(self, stack: Any) -> None:
        super().__init__()
        self.convolutions, self.norms = stack.convolutions, stack.norms
        self.takes_sparse_input = bool(stack.takes_sparse_input)

    def forward(self, g: GraphPass, x: Tensor) -> Tensor:
        last_index = len(self.convolutions) - 1
        for index, convolution in enumerate(self.convolutions):
            x = convolution(g, x, exact=index == last_index)  # (N, D) -> (N, O)
            if index < last_index:
                # Assumption 1 (A.1) of AdaQP holds for GELU, not for ReLU.
                x = functional.gelu(x if self.norms is None else self.norms[index](x))
        return x


def build_network(model: ModelSettings, graph: Graph, seed: int, smooth: bool) -> nn.Module:
    """Build a model for the features and classes of a graph, with GELU in place of ReLU if ``smooth``."""
    sizes = graph.num_features, graph.num_classes
    network = build_model(model, *sizes, seed=seed, edge_features=graph.num_edge_features)
    return SmoothStack(network) if smooth else network
