"""GCN (Kipf & Welling, 2017)."""

from __future__ import annotations

from torch import nn

from gnnqlab.nn.layers import GraphConvolution
from gnnqlab.nn.models.registry import ACTIVATED, ModelSettings, register_model
from gnnqlab.nn.models.stack import ConvolutionStack

__all__ = ["gcn"]


@register_model(stacked=True, activations=ACTIVATED)
def gcn(settings: ModelSettings, in_features: int, num_classes: int, seed: int) -> nn.Module:
    """GCN: symmetric normalisation, one weight matrix per layer."""
    return ConvolutionStack(GraphConvolution, settings, in_features, num_classes, seed)
