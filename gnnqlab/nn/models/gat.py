"""GAT (Velickovic et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import nn

from gnnqlab.nn.attention import AttentionConvolution
from gnnqlab.nn.models.registry import ACTIVATED, ModelSettings, register_model
from gnnqlab.nn.models.stack import ConvolutionStack
from gnnqlab.settings import NO_OPTION

__all__ = ["GATSettings", "gat"]


@dataclass(frozen=True, kw_only=True)
class GATSettings(ModelSettings):
    """Shape of a GAT."""

    attends: ClassVar[bool] = True
    name: Annotated[str, NO_OPTION] = "gat"
    heads: int = 1
    """Attention heads; they share ``hidden`` out evenly."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads < 1 or self.hidden % self.heads:
            raise ValueError(
                f"heads must share hidden out evenly, got {self.heads} heads for {self.hidden}; {self._way_to_share()}"
            )

    def _way_to_share(self) -> str:
        shares = [heads for heads in range(1, min(self.hidden, 16) + 1) if self.hidden % heads == 0]
        ways = f"set heads to one of {shares}"
        return f"{ways}, or hidden to {-(-self.hidden // self.heads) * self.heads}" if self.heads > 0 else ways


@register_model(settings=GATSettings, stacked=True, edges="rows", activations=ACTIVATED)
def gat(settings: GATSettings, in_features: int, num_classes: int, seed: int, *, edge_features: int = 0) -> nn.Module:
    """GAT: neighbours weighed by attention; heads side by side in hidden layers, their mean at the output.

    Features of edges enter every layer's attention; see :class:`gnnqlab.nn.attention.AttentionConvolution`.

    Differs: ReLU between layers, as in BNS-GCN, where the authors use ELU: ``activation="elu"``.
    """
    layers = iter(range(settings.layers))

    def layer(in_features: int, out_features: int, *, generator: torch.Generator) -> nn.Module:
        last = next(layers) == settings.layers - 1
        return AttentionConvolution(
            in_features,
            out_features,
            heads=settings.heads,
            mean=last,
            generator=generator,
            edge_features=edge_features,
        )

    return ConvolutionStack(layer, settings, in_features, num_classes, seed)
