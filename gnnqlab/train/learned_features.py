"""Training of node embeddings in place of features."""

from __future__ import annotations

from gnnqlab.train.loop.node_embeddings import NodeEmbeddings
from gnnqlab.train.loop.trainer import Trainer

__all__ = ["learn_features"]


def learn_features(trainer: Trainer, num_nodes: int) -> None:
    """Let a trainer update the features of its graph, as embeddings of nodes.

    Args:
        trainer: with the rows of ``with_node_features(shard, "learned")``, before its first epoch.
        num_nodes: number of nodes of the whole graph.
    """
    options = {**trainer.settings.optimizer_arguments, "learning_rate": trainer.optimizer.learning_rate}
    trainer.optimizer.max_gradient_norm = None  # gradients are clipped together with those of the embeddings
    trainer.embeddings = NodeEmbeddings(
        trainer.graph, num_nodes, trainer.parameters, distributed=trainer.distributed, **options
    )
