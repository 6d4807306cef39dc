"""Small random graphs for tests, with awkward cases: isolated nodes, self loops, repeated edges."""

from __future__ import annotations

import torch

from gnnqlab.graph import Graph


def random_graph(
    nodes: int = 60,
    edges: int = 240,
    *,
    seed: int = 0,
    features: int = 12,
    classes: int = 4,
    directed: bool = False,
    multi_label: bool = False,
    isolated: int = 3,
    self_loops: str = "add",
    weighted: bool = False,
    edge_features: int = 0,
) -> Graph:
    """Return a random graph whose last ``isolated`` nodes have no edge except, perhaps, a self loop.

    Weights of edges lie between about 0.05 and 20, and an undirected edge has one; features too.
    """
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(nodes - isolated, (edges,), generator=generator)
    dst = torch.randint(nodes - isolated, (edges,), generator=generator)
    labels = torch.randint(classes, (nodes,), generator=generator)
    if multi_label:
        labels = (torch.rand(nodes, classes, generator=generator) < 0.4).to(torch.uint8)
    order = torch.randperm(nodes, generator=generator)
    third = nodes // 3
    rows = torch.randn(nodes, features, generator=generator)
    weights = None
    if weighted:
        table = torch.randn(nodes, nodes, generator=generator).exp()
        weights = (table if directed else torch.maximum(table, table.T))[src, dst]
    of_edges = None
    if edge_features:
        table = torch.randn(nodes, nodes, edge_features, generator=generator)
        of_edges = (table if directed else table + table.transpose(0, 1))[src, dst]
    return Graph.from_edges(
        src,
        dst,
        num_nodes=nodes,
        edge_weights=weights,
        edge_features=of_edges,
        features=rows,
        labels=labels,
        train_idx=order[:third],
        val_idx=order[third : 2 * third],
        test_idx=order[2 * third :],
        name="random",
        num_classes=classes,
        symmetrize=not directed,
        self_loops=self_loops,
    )
