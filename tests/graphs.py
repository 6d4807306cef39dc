"""Small graphs for tests, with the awkward cases in them."""

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
) -> Graph:
    """Return a random graph whose last ``isolated`` nodes have no edge but, perhaps, a self loop."""
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(nodes - isolated, (edges,), generator=generator)
    dst = torch.randint(nodes - isolated, (edges,), generator=generator)
    labels = torch.randint(classes, (nodes,), generator=generator)
    if multi_label:
        labels = (torch.rand(nodes, classes, generator=generator) < 0.4).to(torch.uint8)
    order = torch.randperm(nodes, generator=generator)
    third = nodes // 3
    return Graph.from_edges(
        src,
        dst,
        num_nodes=nodes,
        features=torch.randn(nodes, features, generator=generator),
        labels=labels,
        train_idx=order[:third],
        val_idx=order[third : 2 * third],
        test_idx=order[2 * third :],
        name="random",
        num_classes=classes,
        symmetrize=not directed,
        self_loops=self_loops,
    )
