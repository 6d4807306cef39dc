"""What a training learns: classes of nodes, or links."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated

from gnnqlab.bits.policy import WIDTHS
from gnnqlab.graph.graph import Graph
from gnnqlab.settings import OneOf, Range, check
from gnnqlab.train.link_prediction.decoder import DECODERS

__all__ = ["TASKS", "TaskSettings"]

TASKS = ("nodes", "links")


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """What is learnt; all but ``task`` are of task ``links``."""

    task: Annotated[str, OneOf(TASKS)] = "nodes"
    """What is learnt: classes of ``nodes``, or ``links``: which nodes have an edge between them."""
    val_share: Annotated[float, Range(0, 1, open_high=True)] = 0.05
    """links: share of the edges that are held back for validation; rows do not look along them."""
    test_share: Annotated[float, Range(0, 1, open_high=True)] = 0.1
    """links: share of the edges that are held back for the test."""
    negatives: Annotated[int, Range(1)] = 1
    """links: nodes that each training edge is held against in an epoch."""
    pool: Annotated[int, Range(3)] = 1024
    """links: nodes that negatives are drawn from, anew in every epoch; their rows travel to all workers."""
    ranked: Annotated[int, Range(3)] = 100
    """links: nodes among which the other end of an edge is ranked in evaluation, the same in every epoch."""
    decoder: Annotated[str, OneOf(DECODERS)] = "dot"
    """links: from two nodes' rows to a score: their scalar product (``dot``), or two layers on their product
    (``mlp``)."""
    link_bits: Annotated[int, OneOf(WIDTHS)] = 32
    """links: bits an element of the rows at other workers that training edges end at, and of their gradients, rounded
    stochastically below 32. Rows of the pool alone are float32, and so are all in evaluation."""
    embedding: Annotated[int | None, Range(1)] = None
    """links: columns of the rows that are compared, the model's last; default: as many as its hidden rows."""

    def __post_init__(self) -> None:
        check(self)
        if self.task == "links":
            if self.val_share + self.test_share >= 1.0:
                raise ValueError(
                    f"val_share and test_share must leave edges to learn from, got {self.val_share} and "
                    f"{self.test_share}; hold fewer back"
                )
            return
        given = [
            f"{field.name} {getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        ]
        if given:
            raise ValueError(f"{given[0]} is of task 'links', got task 'nodes'; add task 'links', or leave it out")

    def require_graph(self, graph: Graph) -> None:
        """Refuse a graph that lacks what the task needs.

        Raises:
            ValueError: with what it lacks.
        """
        if self.task == "nodes":
            graph.check_trainable()
        elif graph.num_features == 0:
            raise ValueError(
                f"training needs features, graph {graph.name!r} has none; give features to what made the graph"
            )

    def columns(self, hidden: int, num_classes: int) -> int:
        """Return how wide the model's last rows are."""
        return num_classes if self.task == "nodes" else self.embedding or hidden
