"""Edge features in models: their mean over a node's in-edges, and attention with a term per edge.

An edge is stored with its destination, and so are its features: under an edge-cut they are never sent, and the bytes of
an epoch do not depend on them.

Letters: N owned rows, H halo rows, E edges into owned rows, F features of an edge, K heads, D features of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from gnnqlab.graph.edge_data import refuse_attention, refuse_features
from gnnqlab.kernels.sparse.aggregate import aggregate
from gnnqlab.kernels.sparse.attention import sddmm_add, segment_softmax, weighted_sum
from gnnqlab.nn.message_passing import GraphPass
from gnnqlab.nn.pass_clock import run_in_phase

__all__ = ["attend_edges", "edge_features", "edge_means", "require_width"]


def edge_features(g: GraphPass) -> Tensor:
    """Return the features of the edges into this worker's nodes, ``(E, F)`` in the order of its matrices' edges.

    Raises:
        ValueError: if the graph has no edge features.

    Example:
        >>> from gnnqlab.graph import Graph
        >>> from gnnqlab.nn.message_passing import LocalGraph
        >>> graph = Graph.from_edges([0], [1], num_nodes=2, edge_features=[3.0], features=[[1.0], [2.0]])
        >>> edge_features(LocalGraph(graph).open_pass(0, training=False)).flatten().tolist()
        [0.0, 3.0, 3.0, 0.0]
    """
    features = g.graph.edge_features
    if features is None:
        raise ValueError(
            "this layer needs a graph with edge features, got one without; pass edge_features= to Graph.from_edges, "
            "or build the model without them"
        )
    # Moved to the device once, and stored for later passes.
    if features.device != g.graph.device:
        features = g.graph.edge_features = features.to(g.graph.device)
    return features


def edge_means(g: GraphPass) -> Tensor:
    """Compute ``y_v = sum over u in N(v) of α(u, v) e_uv`` with α of ``mean``: ``w_uv`` over the sum of weights.

    It has no learnt parameters, so it is computed once per training and needs no exchange.

    Returns:
        float32 ``(N, F)``; zeros for a node without edges.

    Example:
        >>> from gnnqlab.graph import Graph
        >>> from gnnqlab.nn.message_passing import LocalGraph
        >>> graph = Graph.from_edges([0], [1], num_nodes=2, edge_features=[3.0], features=[[1.0], [2.0]])
        >>> edge_means(LocalGraph(graph).open_pass(0, training=False)).flatten().tolist()
        [1.5, 1.5]
    """
    graph = g.graph
    if graph.edge_means is None:
        # The mean has no parameters and is reused in all epochs, so no autograd graph may be attached to it.
        with torch.no_grad():
            graph.edge_means = aggregate(graph.adjacency("mean").by_edge, edge_features(g))  # (N, E), (E, F) -> (N, F)
    return graph.edge_means


def attend_edges(
    g: GraphPass, z: Tensor, a_source: Tensor, a_target: Tensor, edge_logits: Tensor, *, slope: float = 0.2
) -> Tensor:
    """Compute ``y_v = sum over u of softmax_u(leaky(<a_target, z_v> + <a_source, z_u> + l_uv)) z_u``.

    Halo rows are received as for any aggregation; then logits, softmax and sums are computed per edge. Two tensors of
    ``(E, K)`` are saved for backward; attention without edge terms saves none.

    Args:
        g: the pass over the graph.
        z: projected rows of owned nodes, float32 ``(N, K, D)``.
        a_source, a_target: the two halves of the attention vector, ``(K, D)``.
        edge_logits: l, ``(E, K)``.
        slope: negative slope of the leaky ReLU, in (0, 1].

    Returns:
        float32 ``(N, K, D)``; zeros for a node without neighbours.

    Raises:
        ValueError: on a graph with edge weights, or if the exchange cannot provide all rows of this epoch.
    """
    if g.graph.weighted:
        refuse_attention("attention over features of edges")
    adjacency = g.graph.adjacency("sum")
    rows = g.extend(z.flatten(1)).unflatten(1, z.shape[1:])  # (N, K, D) -> (N + H, K, D)

    def run(rows: Tensor, z: Tensor, edge_logits: Tensor) -> Tensor:
        source, target = (rows * a_source).sum(-1), (z * a_target).sum(-1)  # (N + H, K), (N, K)
        logits = functional.leaky_relu(sddmm_add(adjacency, source, target) + edge_logits, slope)  # (E, K)
        return weighted_sum(adjacency, segment_softmax(adjacency, logits), rows)  # (N, K, D)

    return run_in_phase(g.clock, "products", run, rows, z, edge_logits)


def require_width(model: str, width: int, g: GraphPass) -> None:
    """Check that the graph has as many features per edge as the model was built for.

    Raises:
        ValueError: if the numbers differ.
    """
    features = g.graph.edge_features
    columns = 0 if features is None else int(features.shape[1])
    if columns == width:
        return
    if not width:
        refuse_features(f"model {model}", "was built without edge features")
    raise ValueError(
        f"model {model} was built for {width} features per edge, got a graph with {columns}; build the model for this "
        "graph, or run it on the graph it was trained on"
    )
