"""Inference of a trained model for all nodes of a graph in one process: logits, and embeddings of inner layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gnnqlab.graph.graph import Graph
from gnnqlab.nn.layer_rows import layer_rows
from gnnqlab.nn.message_passing import LocalGraph

__all__ = ["embeddings", "logits"]


@torch.no_grad()
def logits(model: nn.Module, graph: Graph, *, seed: int = 0, epoch: int = 0) -> Tensor:
    """Return a model's output for all nodes, computed on the whole graph in float32.

    Args:
        model: as :func:`gnnqlab.nn.build_model` returns it; it is put into evaluation mode.
        graph: any graph with as many features as the model takes; aggregation is weighted by its degrees.
        seed, epoch: of the pass's aggregation contexts, for models that use them.

    Returns:
        float32 ``(N, C)``, in the order of the graph's nodes.

    Raises:
        ValueError: if the graph has no features.

    Example:
        >>> from gnnqlab.nn import ModelSettings, build_model
        >>> graph = Graph.from_edges([0, 1], [1, 2], num_nodes=3, features=torch.ones(3, 5))
        >>> model = build_model(ModelSettings(name="gcn", layers=2, hidden=4), 5, 2, seed=0)
        >>> logits(model, graph).shape, embeddings(model, graph).shape
        (torch.Size([3, 2]), torch.Size([3, 4]))
    """
    local_graph = _prepared(model, graph, seed)
    outputs: Tensor = model(local_graph.open_pass(epoch, training=False), local_graph.features)  # (N, F) -> (N, C)
    return outputs


@torch.no_grad()
def embeddings(model: nn.Module, graph: Graph, layer: int = -1, *, seed: int = 0, epoch: int = 0) -> Tensor:
    """Return the input embeddings of a layer for all nodes; see :func:`gnnqlab.nn.layer_rows.layer_rows`.

    Raises:
        ValueError: if the model has no such layer, or the graph no features.
    """
    return layer_rows(model, _prepared(model, graph, seed), layer, epoch=epoch)


def _prepared(model: nn.Module, graph: Graph, seed: int) -> LocalGraph:
    local_graph = LocalGraph(graph, seed=seed)
    # Sparse rows only for models that multiply them; others take (N, F) float32.
    if not getattr(model, "takes_sparse_input", False):
        local_graph.densify_features()
    model.eval()
    return local_graph
