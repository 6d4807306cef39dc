"""Evaluation of a model on one worker: a pass over a graph without dropout, and its scores."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from gnnqlab.nn.message_passing import ModelGraph
from gnnqlab.train.loop.objective import Objective, Scores

__all__ = ["Evaluation"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Graph of an evaluation, and the objective that scores its rows."""

    graph: ModelGraph
    objective: Objective

    @torch.no_grad()
    def scores(self, model: nn.Module, epoch: int, *, distributed: bool) -> Scores:
        """Return the scores of a model; embeddings are exchanged in float32."""
        model.eval()  # no dropout
        graph = self.graph.open_pass(epoch, training=False)
        logits = model(graph, self.graph.features)  # (N, F) -> (N, C)
        model.train()
        return self.objective.scores(logits, graph.next_aggregation(logits), distributed=distributed)
