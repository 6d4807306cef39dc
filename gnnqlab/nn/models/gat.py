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
    """Settings of GAT."""

    attends: ClassVar[bool] = True
    name: Annotated[str, NO_OPTION] = "gat"
    heads: int = 1
    """Number of attention heads; it must divide ``hidden``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads < 1 or self.hidden % self.heads:
            raise ValueError(
                f"heads must divide hidden evenly, got {self.heads} heads for {self.hidden}; {self._way_out()}"
            )

    def _way_out(self) -> str:
        shares = [heads for heads in range(1, min(self.hidden, 16) + 1) if self.hidden % heads == 0]
        ways = f"set heads to one of {shares}"
        return f"{ways}, or hidden to {-(-self.hidden // self.heads) * self.heads}" if self.heads > 0 else ways


@register_model(settings=GATSettings, stacked=True, edges="rows", activations=ACTIVATED)
def gat(settings: GATSettings, in_features: int, num_classes: int, seed: int, *, edge_features: int = 0) -> nn.Module:
    """GAT: attention over neighbours; heads are concatenated in hidden layers and averaged at the output.

    Edge features enter every layer's attention; see :class:`gnnqlab.nn.attention.AttentionConvolution`.

    Differs: ReLU between layers, as in BNS-GCN; the authors use ELU: ``activation="elu"``.
    """
    # The stack calls the builder once per layer, in order.
    layers = iter(range(settings.layers))

    def layer(in_features: int, out_features: int, *, generator: torch.Generator) -> nn.Module:
        is_last = next(layers) == settings.layers - 1
        return AttentionConvolution(
            in_features,
            out_features,
            heads=settings.heads,
            mean=is_last,
            generator=generator,
            edge_features=edge_features,
        )

    return ConvolutionStack(layer, settings, in_features, num_classes, seed)
