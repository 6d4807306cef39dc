"""Settings of the learning task: node classification or link prediction."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated

from gnnqlab.bits.policy import WIDTHS
from gnnqlab.former_names import accepts_former_names
from gnnqlab.graph.graph import Graph
from gnnqlab.settings import Former, OneOf, Range, check
from gnnqlab.train.link_prediction.decoder import DECODERS
from gnnqlab.train.loop.own_objective import importable_name, node_objective, objective_class
from gnnqlab.train.node_features import NODE_FEATURES

__all__ = ["TASKS", "TaskSettings"]

TASKS = ("nodes", "links")
_OF_NODES = ("node_features", "class_weights", "objective")
"""Settings that task ``nodes`` has, too."""


@accepts_former_names
@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """Learning task, its input and its settings; those that begin with "links" apply to task ``links`` only."""

    task: Annotated[str, OneOf(TASKS)] = "nodes"
    """Learning task: classification of ``nodes``, or prediction of ``links`` (edges)."""
    node_features: Annotated[str, OneOf(NODE_FEATURES)] = "given"
    """Features of nodes: those of the graph (``given``); or, for graphs without features and to see how much features
    help, 16 columns of the in-degree (``degree``), or an embedding of each node of the dimension of hidden layers,
    trained with the model (``learned``)."""
    class_weights: str = ""
    """nodes: weights of the classes in the loss: ``balanced``, inversely to the number of training nodes of a class, or
    one number per class, separated by commas. Default: 1 for all."""
    objective: str = ""
    """nodes: own loss and scores, a class as ``module:Class``, derived from ``gnnqlab.objectives.OneLabel`` or
    ``ManyLabels``. Default: cross-entropy."""
    val_share: Annotated[float, Range(0, 1, open_high=True)] = 0.05
    """links: share of the edges held out for validation; message passing does not use them."""
    test_share: Annotated[float, Range(0, 1, open_high=True)] = 0.1
    """links: share of the edges held out for the test."""
    num_negatives: Annotated[int, Range(1), Former("negatives")] = 1
    """links: negative samples per training edge and epoch."""
    negative_pool: Annotated[int, Range(3), Former("pool")] = 1024
    """links: size of the pool of negatives, sampled in every epoch; its embeddings are sent to all workers."""
    num_candidates: Annotated[int, Range(3), Former("ranked")] = 100
    """links: candidates in the ranking of evaluation (MRR), the same in every epoch."""
    decoder: Annotated[str, OneOf(DECODERS)] = "dot"
    """links: score of two embeddings: dot product (``dot``), or a two-layer perceptron on their elementwise product
    (``mlp``)."""
    link_bits: Annotated[int, OneOf(WIDTHS)] = 32
    """links: bit-width of remote embeddings at the ends of training edges, and of their gradients; stochastic rounding
    below 32. Embeddings of the pool, and all of evaluation, are float32."""
    embedding: Annotated[int | None, Range(1)] = None
    """links: dimension of the final embeddings, which the decoder compares; default: that of the hidden layers."""

    def __post_init__(self) -> None:
        check(self)
        if self.objective:
            object.__setattr__(self, "objective", importable_name(self.objective))
            objective_class(self.objective)
        if self.objective and self.class_weights:
            raise ValueError(
                f"class_weights need the loss of the package, got {self.class_weights!r} with objective "
                f"{self.objective!r}; leave one out, or weight the classes in the objective"
            )
        if self.task == "links":
            if self.objective:
                raise ValueError(f"objective needs task 'nodes', got {self.objective!r} with 'links'; leave it out")
            if self.class_weights:
                raise ValueError(
                    f"class_weights need task 'nodes', got {self.class_weights!r} with 'links'; leave it out"
                )
            if self.val_share + self.test_share >= 1.0:
                raise ValueError(
                    f"val_share and test_share must leave edges for training, got {self.val_share} and "
                    f"{self.test_share}; choose smaller shares"
                )
            return
        # Settings of links would be ignored without the task: refuse them.
        changed_names = [
            f"{field.name} {getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default and field.name not in _OF_NODES
        ]
        if changed_names:
            raise ValueError(
                f"{changed_names[0]} needs task 'links', got task 'nodes'; add task 'links', or leave it out"
            )

    def require_graph(self, graph: Graph) -> None:
        """Raise if a graph lacks features, labels or a split that the task needs.

        Raises:
            ValueError: with the missing data.
        """
        if self.task == "nodes":
            graph.check_trainable(features=self.node_features == "given")
            if self.objective:
                node_objective(graph, own=self.objective)  # raises
        else:
            self.require_features(graph.name, graph.num_features)

    def require_features(self, graph: str, features: int) -> None:
        """Raise if a graph has no features and the training needs some.

        Args:
            graph: name of the graph.
            features: its number of features per node.
        """
        if features == 0 and self.node_features == "given":
            raise ValueError(
                f"training needs node features, graph {graph!r} has none; pass features= when you build the graph, or "
                "set node_features (--node-features) to 'degree' or 'learned'"
            )

    def columns(self, hidden: int, num_classes: int) -> int:
        """Return the dimension of the model's output."""
        # For links the decoder compares embeddings, so the output has no dimension of classes.
        return num_classes if self.task == "nodes" else self.embedding or hidden
