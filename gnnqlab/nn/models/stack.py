"""The frame GCN and GraphSAGE share: dropout, convolution, LayerNorm, activation, layer after layer."""

from __future__ import annotations

import itertools
from typing import Protocol

import torch
from torch import Tensor, nn

from gnnqlab.nn.message_passing import GraphPass
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.nn.sparse_input import SparseInput

__all__ = ["ConvolutionStack", "norm_of"]


class _Layer(Protocol):
    def __call__(self, in_features: int, out_features: int, *, generator: torch.Generator) -> nn.Module: ...


class ConvolutionStack(nn.Module):
    """``h <- σ(LayerNorm(conv(dropout(h))))``, the last layer without norm and σ; σ is ReLU unless the settings say.

    Differs: AdaQP's code drops between convolution and norm; here, as in PipeGCN and BNS-GCN, a layer drops
    its input. The raw features are dropped only if ``input_dropout`` says so.

    Whose mask a halo row has: its owner's, as in BNS-GCN, where rows are of this epoch; where a schedule or a cache
    keeps them, its receiver puts on the mask of the epoch in which it uses them, as in PipeGCN. Differs: PipeGCN's
    receiver draws a mask of its own, here a node has the same one everywhere.
    """

    def __init__(self, layer: _Layer, settings: ModelSettings, in_features: int, num_classes: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        widths = settings.widths(in_features, num_classes)
        self.convolutions = nn.ModuleList(
            layer(before, after, generator=generator) for before, after in itertools.pairwise(widths)
        )
        self.norms = None
        if settings.norm == "layer":
            self.norms = nn.ModuleList(nn.LayerNorm(width) for width in widths[1:-1])
        self.dropout, self.input_dropout = settings.dropout, settings.input_dropout
        self.activation = settings.activation or "relu"

    @property
    def takes_sparse_input(self) -> bool:
        """Whether sparse features need not be made dense: the first layer projects before it aggregates."""
        return bool(self.convolutions[0].projects_first)

    def forward(self, g: GraphPass, x: Tensor | SparseInput) -> Tensor:
        h: Tensor | SparseInput = x
        last, share = len(self.convolutions) - 1, self.input_dropout
        for index, convolution in enumerate(self.convolutions):
            # No name for what a layer comes to: it may be kept for the backward pass in fewer bytes.
            h = convolution(g, h, dropout=share, exact=index == last)
            assert isinstance(h, Tensor)
            if index < last:
                h = g.activate(h, norm_of(self.norms, index), activation=self.activation, dropout=self.dropout)
                share = g.left(self.dropout)
        assert isinstance(h, Tensor)
        return h


def norm_of(norms: nn.ModuleList | None, index: int) -> nn.LayerNorm | None:
    """Return the norm that follows a layer, if there are norms."""
    norm: nn.LayerNorm | None = None if norms is None else norms[index]  # type: ignore[assignment]
    return norm
