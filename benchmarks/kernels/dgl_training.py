"""DGL's layers trained as ours are: the same optimizer, loss and scores, over a whole graph with dense features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.nn import ModelSettings
    from gnnqlab.train.loop.objective import Scores

__all__ = ["DglTraining"]


class DglTraining:
    """A training of ``dgl.nn`` that is called as a :class:`gnnqlab.train.loop.trainer.Trainer` is.

    Args:
        graph: whole.
        settings: of the model; ``gcn``, ``graphsage``, or ``gat`` of one head.
        seed: of weights and dropout, which DGL draws itself.
        lr: of Adam.
    """

    def __init__(self, graph: Graph, settings: ModelSettings, *, seed: int, lr: float) -> None:
        from benchmarks.kernels.dgl_rival import Rival, structure_of
        from gnnqlab.train.loop.node_labels import label_objective

        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            self.network = Rival(
                structure_of(graph), settings.name, settings, graph.num_features, graph.num_classes, sparse=False
            )
        self.features = graph.features if isinstance(graph.features, torch.Tensor) else graph.features.to_dense()
        self.objective, self.seed = label_objective(graph), seed
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=lr)

    def epoch(self, epoch: int) -> float:
        """Train one epoch and return its loss."""
        self.network.train()
        with torch.random.fork_rng(devices=()):
            torch.manual_seed((self.seed << 20) + epoch)
            self.optimizer.zero_grad()
            loss = self.objective.loss(self.network(self.features))
            loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def evaluate(self, epoch: int) -> Scores:
        """Return the scores of the weights as they are."""
        self.network.eval()
        return self.objective.scores(self.network(self.features), distributed=False)
