"""GAT (Velickovic et al., 2018)."""

from __future__ import annotations

import torch
from torch import nn

from gnnqlab.nn.attention import AttentionConvolution
from gnnqlab.nn.models.registry import ModelSettings, register_model
from gnnqlab.nn.models.stack import ConvolutionStack

__all__ = ["gat"]


@register_model(takes=("heads",))
def gat(settings: ModelSettings, in_features: int, num_classes: int, seed: int) -> nn.Module:
    """GAT: neighbours weighed by attention; heads side by side in hidden layers, their mean at the output.

    Differs: ReLU between layers, as in BNS-GCN, where the authors use ELU.
    """
    layers = iter(range(settings.layers))

    def layer(in_features: int, out_features: int, *, generator: torch.Generator) -> nn.Module:
        last = next(layers) == settings.layers - 1
        return AttentionConvolution(in_features, out_features, heads=settings.heads, mean=last, generator=generator)

    return ConvolutionStack(layer, settings, in_features, num_classes, seed)
