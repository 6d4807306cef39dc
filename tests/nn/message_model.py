"""A stack of message-passing layers, as in a user's module."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from gnnqlab.nn.messages import MessageConvolution
from gnnqlab.nn.models.stack import ConvolutionStack


def messages(settings: Any, in_features: int, num_classes: int, seed: int, *, edge_features: int = 0) -> nn.Module:
    """Build messages of both ends and the edge."""
    layer = partial(MessageConvolution, hidden=settings.hidden, edge_features=edge_features)
    return ConvolutionStack(layer, settings, in_features, num_classes, seed)
