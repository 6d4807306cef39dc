"""GraphSAGE with mean aggregation (Hamilton et al., 2017), full batch."""

from __future__ import annotations

from torch import nn

from gnnqlab.nn.layers import SageConvolution
from gnnqlab.nn.models.registry import ACTIVATED, ModelSettings, register_model
from gnnqlab.nn.models.stack import ConvolutionStack

__all__ = ["graphsage"]


@register_model(stacked=True, activations=ACTIVATED)
def graphsage(settings: ModelSettings, in_features: int, num_classes: int, seed: int) -> nn.Module:
    """GraphSAGE-mean: one weight matrix for a node itself, one for the mean of its neighbours."""
    return ConvolutionStack(SageConvolution, settings, in_features, num_classes, seed)
