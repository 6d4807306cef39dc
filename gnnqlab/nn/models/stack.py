"""Stack of graph convolutions, shared by GCN, GraphSAGE and GAT: dropout, convolution, LayerNorm, activation."""

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
    """``h <- σ(LayerNorm(conv(dropout(h))))``, the last layer without norm and σ; σ is ReLU by default.

    Differs: AdaQP's code applies dropout between convolution and norm; here, as in PipeGCN and BNS-GCN, a layer drops
    its input. The raw features are dropped only with ``input_dropout``.

    Dropout of halo rows: rows of this epoch have their owner's mask, as in BNS-GCN; on stale or cached rows the
    receiver applies the mask of the epoch in which it uses them, as in PipeGCN. Differs: PipeGCN's receiver samples a
    mask of its own, here a node has an identical mask on all workers.
    """

    def __init__(self, layer: _Layer, settings: ModelSettings, in_features: int, num_classes: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        widths = settings.widths(in_features, num_classes)
        self.convolutions = nn.ModuleList(
            layer(in_width, out_width, generator=generator) for in_width, out_width in itertools.pairwise(widths)
        )
        self.norms = None
        if settings.norm == "layer":
            self.norms = nn.ModuleList(nn.LayerNorm(width) for width in widths[1:-1])  # none after the last layer
        self.dropout, self.input_dropout = settings.dropout, settings.input_dropout
        self.activation = settings.activation or "relu"

    @property
    def takes_sparse_input(self) -> bool:
        """True if features may stay sparse, because the first layer projects before it aggregates."""
        return bool(self.convolutions[0].projects_first)

    def forward(self, g: GraphPass, x: Tensor | SparseInput) -> Tensor:
        h: Tensor | SparseInput = x
        last_index, share = len(self.convolutions) - 1, self.input_dropout
        for index, convolution in enumerate(self.convolutions):
            # No second name for the result: it is freed here if only a compressed copy is saved for backward.
            h = convolution(g, h, dropout=share, exact=index == last_index)  # float32 before the loss
            assert isinstance(h, Tensor)
            if index < last_index:
                h = g.activate(h, norm_of(self.norms, index), activation=self.activation, dropout=self.dropout)
                share = g.remaining_dropout(self.dropout)  # dropout that activate() has left to the aggregation
        assert isinstance(h, Tensor)
        return h


def norm_of(norms: nn.ModuleList | None, index: int) -> nn.LayerNorm | None:
    """Return the norm of a layer, or None in a model without norms."""
    norm: nn.LayerNorm | None = None if norms is None else norms[index]  # type: ignore[assignment]
    return norm
