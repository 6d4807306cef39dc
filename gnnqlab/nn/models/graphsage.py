"""GraphSAGE with mean aggregation (Hamilton et al., 2017), full batch."""

from __future__ import annotations

from functools import partial

from torch import nn

from gnnqlab.nn.layers import SageConvolution
from gnnqlab.nn.models.registry import ACTIVATED, ModelSettings, register_model
from gnnqlab.nn.models.stack import ConvolutionStack

__all__ = ["graphsage"]


@register_model(stacked=True, edges="sums", activations=ACTIVATED)
def graphsage(
    settings: ModelSettings, in_features: int, num_classes: int, seed: int, *, edge_features: int = 0
) -> nn.Module:
    """GraphSAGE-mean: one weight matrix for the node itself, one for the mean of its neighbours.

    Edge features have a third one in every layer; see :class:`gnnqlab.nn.layers.SageConvolution`.
    """
    layer = partial(SageConvolution, edge_features=edge_features)
    return ConvolutionStack(layer, settings, in_features, num_classes, seed)
