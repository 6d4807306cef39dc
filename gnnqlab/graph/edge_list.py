"""Raw result of a reader, before edge rules and a split are applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gnnqlab.graph.arguments import as_any_targets
from gnnqlab.graph.arrays import labelled_nodes
from gnnqlab.graph.edges import SelfLoops
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.split import random_split

__all__ = ["EdgeList"]


@dataclass(kw_only=True)
class EdgeList:
    """A graph as stored in its files: edges in any order, with optional labels and splits.

    Every field has the meaning and the accepted types of the ``Graph.from_edges`` argument of the
    same name.
    """

    name: str
    src: object
    dst: object
    num_nodes: int
    edge_weights: object = None
    edge_features: object = None
    features: object = None
    labels: object = None
    targets: object = None
    train_idx: object = None
    val_idx: object = None
    test_idx: object = None
    num_classes: int | None = None
    ids: object = None
    class_names: Sequence[Any] | None = None
    notes: tuple[str, ...] = ()
    both_ways: bool = False
    """True if the list has every edge in both directions, so that ``symmetrize`` is not needed."""

    def build(
        self,
        *,
        symmetrize: bool | None = None,
        deduplicate: bool | None = None,
        self_loops: SelfLoops | None = None,
        seed: int = 0,
    ) -> Graph:
        """Build the graph with edge rules (by default the papers') and, without a split, a random one."""
        labels, count, names = as_any_targets(
            self.labels, self.targets, self.num_nodes, self.num_classes, self.class_names
        )
        notes = self.notes
        splits = (self.train_idx, self.val_idx, self.test_idx)
        known = labelled_nodes(labels).nonzero().flatten() if count else labels.new_zeros(0, dtype=torch.int64)
        if all(split is None for split in splits) and known.numel():
            splits = random_split(known, seed=seed)
            notes += (f"split: random, 60/20/20 %, from seed {seed}, since the source has none",)
        return Graph.from_edges(
            self.src,
            self.dst,
            num_nodes=self.num_nodes,
            edge_weights=self.edge_weights,
            edge_features=self.edge_features,
            features=self.features,
            labels=None if self.labels is None else labels,
            targets=None if self.targets is None else labels,
            train_idx=splits[0],
            val_idx=splits[1],
            test_idx=splits[2],
            name=self.name,
            num_classes=self.num_classes,
            # In a list of both directions a second reverse would count twice if repeated edges are kept.
            symmetrize=not self.both_ways and (True if symmetrize is None else symmetrize),
            deduplicate=True if deduplicate is None else deduplicate,
            self_loops="add" if self_loops is None else self_loops,
            ids=self.ids,
            class_names=names,
            notes=notes,
        )
