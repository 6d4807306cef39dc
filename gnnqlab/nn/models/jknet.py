"""JKNet (Xu et al., 2018): jumping knowledge, the output layer uses the embeddings of all layers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from gnnqlab.nn.layers import GraphConvolution, Projection
from gnnqlab.nn.message_passing import GraphPass
from gnnqlab.nn.models.registry import ACTIVATED, ModelSettings, register_model
from gnnqlab.nn.models.stack import norm_of
from gnnqlab.nn.sparse_input import SparseInput
from gnnqlab.settings import NO_OPTION, OneOf

__all__ = ["JKNet", "JKNetSettings", "jknet"]


@dataclass(frozen=True, kw_only=True)
class JKNetSettings(ModelSettings):
    """Settings of JKNet."""

    name: Annotated[str, NO_OPTION] = "jknet"
    jump: Annotated[str, OneOf(("cat", "max", "lstm"))] = "cat"
    """Method of joining the layers: ``cat``, ``max`` or ``lstm``."""


@register_model(settings=JKNetSettings, stacked=True, activations=ACTIVATED)
def jknet(settings: JKNetSettings, in_features: int, num_classes: int, seed: int) -> nn.Module:
    """JKNet: GCN layers whose results are joined for the output: concatenated, by maximum, or by LSTM attention."""
    return JKNet(settings, in_features, num_classes, seed)


class JKNet(nn.Module):
    """``h^t = ReLU(norm(P dropout(h^(t-1)) W^t + b^t))`` for t = 1..T, ``out = join(h^1, ..., h^T) W + b``.

    The settings may replace ReLU.

    Joining is per node: ``cat`` concatenates layers, ``max`` takes the elementwise maximum, ``lstm`` weighs each node's
    layers by a softmax over a bidirectional LSTM's scores (T d / 2 units per direction). The LSTM is PyTorch's, in
    float32 for every ``compute`` axis. Agrees with ``dgl.nn.JumpingKnowledge``. Differs: the DGL example aggregates
    once more before the output.
    """

    def __init__(self, settings: JKNetSettings, in_features: int, num_classes: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        width, layers = settings.hidden, settings.layers
        self.convolutions = nn.ModuleList(
            GraphConvolution(in_features if index == 0 else width, width, generator=generator)
            for index in range(layers)
        )
        self.norms = None
        if settings.norm == "layer":
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.jump = settings.jump
        if self.jump == "lstm":
            units = max(1, layers * width // 2)  # T d / 2 units per direction
            self.lstm = nn.LSTM(width, units, bidirectional=True, batch_first=True)
            bound = 1 / math.sqrt(units)
            # PyTorch's own initialization uses the global generator: draw again, with the same bounds, from the seed.
            for parameter in self.lstm.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
            self.score = Projection(2 * units, 1, generator=generator)
        self.last = Projection(layers * width if self.jump == "cat" else width, num_classes, generator=generator)
        self.dropout, self.input_dropout = settings.dropout, settings.input_dropout
        self.activation = settings.activation or "relu"

    @property
    def takes_sparse_input(self) -> bool:
        """True if features may stay sparse, because the first layer projects before it aggregates."""
        first_layer = self.convolutions[0]
        assert isinstance(first_layer, GraphConvolution)
        return first_layer.projects_first

    def forward(self, g: GraphPass, x: Tensor | SparseInput) -> Tensor:
        h: Tensor | SparseInput = x
        embeddings: list[Tensor] = []
        share = self.input_dropout
        for index, convolution in enumerate(self.convolutions):
            # The last layer's result enters the join, which applies the dropout of the output.
            next_dropout = self.dropout if index + 1 < len(self.convolutions) else 0.0
            norm = norm_of(self.norms, index)
            options: dict[str, Any] = {"activation": self.activation, "dropout": next_dropout}
            rows, h = g.activate_both(convolution(g, h, dropout=share), norm, **options)
            embeddings.append(rows)
            share = g.remaining_dropout(self.dropout)
        if self.jump == "lstm":
            h = g.dropout(self._weighed(g, embeddings), self.dropout)
        else:
            h = g.join(embeddings, self.jump, dropout=self.dropout)  # T x (N, D) -> (N, T D), or (N, D) for max
        del embeddings, rows  # the joined rows are a copy, so these need not stay in memory
        logits: Tensor = self.last(g, h, exact=True)
        return logits

    def _weighed(self, g: GraphPass, embeddings: list[Tensor]) -> Tensor:
        stack = g.rowwise(lambda *layers: torch.stack(layers, 1), *embeddings)  # T x (N, D) -> (N, T, D)
        scores = self.score(g, self.lstm(stack)[0].flatten(0, 1)).unflatten(0, stack.shape[:2])  # (N, T, 1)
        # Softmax over the layers of each node: (N, T, 1), (N, T, D) -> (N, D).
        return g.rowwise(lambda scores, stack: (torch.softmax(scores, 1) * stack).sum(1), scores, stack)
