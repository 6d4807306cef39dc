"""Small graphs and cuts with edge cases: isolated nodes, no self loops, workers without a halo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gnnqlab.graph.graph import Graph
from gnnqlab.partition.cut import NodeCut
from gnnqlab.partition.edge_cut import Random

__all__ = ["EdgeCase", "cases"]

_NODES, _EDGES, _ISOLATED, _FEATURES, _CLASSES = 48, 150, 4, 12, 4


@dataclass(frozen=True, eq=False)
class EdgeCase:
    """A graph with a partition."""

    description: str
    graph: Graph
    cut: NodeCut

    @property
    def workers(self) -> int:
        return self.cut.workers


def cases(workers: Sequence[int], *, seed: int, edge_features: int = 0) -> list[EdgeCase]:
    """Build a random edge-cut for each number of workers, and one whose last worker owns isolated nodes only.

    Args:
        workers: numbers of workers P; graphs alternate between undirected with self loops and directed without.
        seed: seed of graphs and cuts.
        edge_features: number of features per edge; in the directed graph an edge and its reverse differ.

    Example:
        >>> [(case.workers, case.description) for case in cases([1, 3], seed=0)]
        [(1, 'undirected graph'), (3, 'directed graph'), (3, 'directed graph, a worker without halo')]
    """
    graphs = {f"{kind} graph": _graph(kind == "directed", seed + number, edge_features)
              for number, kind in enumerate(("undirected", "directed"))}  # fmt: skip
    kinds = list(graphs)
    built_cases = []
    for number, count in enumerate(workers):
        description = kinds[number % len(kinds)]
        built_cases.append(
            EdgeCase(description, graphs[description], Random(seed=seed + number).cut(graphs[description], count))
        )
    most_workers = max(workers)
    if most_workers > 1:
        # The last worker owns only the isolated nodes: no boundary, no halo, empty messages.
        owner = torch.full((_NODES,), most_workers - 1)
        connected_nodes = torch.arange(_NODES - _ISOLATED)  # isolated nodes are the last ones, see `_graph`
        owner[connected_nodes] = connected_nodes % (most_workers - 1)
        description = kinds[1]
        built_cases.append(
            EdgeCase(
                f"{description}, a worker without halo", graphs[description], NodeCut(owner=owner, workers=most_workers)
            )
        )
    return built_cases


def _graph(is_directed: bool, seed: int, edge_features: int = 0) -> Graph:
    generator = torch.Generator().manual_seed(seed)
    src, dst = torch.randint(_NODES - _ISOLATED, (2, _EDGES), generator=generator)  # (E,) each; not the last nodes
    # Random thirds: workers have different numbers of training nodes.
    order = torch.randperm(_NODES, generator=generator)
    third = _NODES // 3
    of_edges = None
    if edge_features:
        # A generator of its own, so that graphs with and without edge features are otherwise the same.
        table = torch.randn(_NODES, _NODES, edge_features, generator=torch.Generator().manual_seed(seed))
        of_edges = (table if is_directed else table + table.transpose(0, 1))[src, dst]  # (N, N, F) -> (E, F)
    return Graph.from_edges(
        src,
        dst,
        num_nodes=_NODES,
        edge_features=of_edges,
        features=torch.randn(_NODES, _FEATURES, generator=generator),
        labels=torch.randint(_CLASSES, (_NODES,), generator=generator),
        train_idx=order[:third],
        val_idx=order[third : 2 * third],
        test_idx=order[2 * third :],
        name="directed" if is_directed else "undirected",
        num_classes=_CLASSES,
        symmetrize=not is_directed,
        self_loops="remove" if is_directed else "add",
    )
