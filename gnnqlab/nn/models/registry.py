"""Models by name, and the settings they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

__all__ = ["MODELS", "ModelSettings", "build_model", "register_model"]


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """A model by name and shape; AdaQP Table 8 trains 3 layers of 256 with dropout 0.5 and LayerNorm."""

    name: str = "gcn"
    """A registered model; ``gnnqlab models`` lists them."""
    layers: int = 3
    """Graph layers, at least 1."""
    hidden: int = 256
    """Width of every layer but the last."""
    dropout: float = 0.5
    """Probability in [0, 1) of dropping an element of a hidden layer's input."""
    input_dropout: float = 0.0
    """The same for the raw features."""
    norm: str = "layer"
    """``layer`` (LayerNorm between layers) or ``none``."""

    def __post_init__(self) -> None:
        if self.name not in MODELS:
            raise ValueError(f"model must be one of {sorted(MODELS)}, got {self.name!r}")
        if self.layers < 1 or self.hidden < 1:
            raise ValueError(f"layers and hidden must be at least 1, got {self.layers} and {self.hidden}")
        for name, value in (("dropout", self.dropout), ("input_dropout", self.input_dropout)):
            if not 0.0 <= value < 1.0:
                raise ValueError(f"{name} must lie in [0, 1), got {value}")
        if self.norm not in ("layer", "none"):
            raise ValueError(f"norm must be 'layer' or 'none', got {self.norm!r}")

    def widths(self, in_features: int, num_classes: int) -> list[int]:
        """Return the width before the first layer, between layers, and after the last."""
        return [in_features, *[self.hidden] * (self.layers - 1), num_classes]


Builder = Callable[[ModelSettings, int, int, int], nn.Module]

MODELS: dict[str, Builder] = {}
"""Every model by name: ``(settings, in_features, num_classes, seed) -> module``."""


def register_model(builder: Builder) -> Builder:
    """Make a model known by its function's name, with ``_`` written as ``-``.

    Raises:
        ValueError: if the name is taken.
    """
    name = builder.__name__.replace("_", "-")
    if name in MODELS:
        raise ValueError(f"a model's name must be new, {name!r} is registered already")
    MODELS[name] = builder
    return builder


def build_model(settings: ModelSettings, in_features: int, num_classes: int, *, seed: int) -> nn.Module:
    """Return a model with weights drawn from ``seed`` alone, so that every worker starts from the same ones."""
    return MODELS[settings.name](settings, in_features, num_classes, seed)
