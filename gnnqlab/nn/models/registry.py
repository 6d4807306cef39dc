"""Models by name, and the settings they share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import overload

from torch import nn

__all__ = ["MODELS", "ModelSettings", "build_model", "register_model"]


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """A model by name and shape; AdaQP Table 8 trains 3 layers of 256 with dropout 0.5 and LayerNorm.

    The last four settings are for the models that their lines name; the others refuse them.
    """

    name: str = "gcn"
    """A registered model; ``gnnqlab models`` lists them."""
    layers: int = 3
    """Graph layers (hops, where a hop has no weights), at least 1."""
    hidden: int = 256
    """Width of every layer but the last; all heads together."""
    dropout: float = 0.5
    """Probability in [0, 1) of dropping an element of a hidden layer's input."""
    input_dropout: float = 0.0
    """The same for the raw features."""
    norm: str | None = None
    """``layer`` (LayerNorm between layers) or ``none``; default: what the model's authors do."""
    heads: int = 1
    """Attention heads of ``gat``; they share ``hidden`` out evenly."""
    initial_share: float = 0.1
    """α of ``gcnii``, in [0, 1]: share of the first rows H⁰ in every layer's input."""
    identity_decay: float = 0.5
    """λ of ``gcnii``, positive: layer l mixes its weights in by θ = ln(λ/l + 1)."""
    jump: str = "cat"
    """How ``jknet`` joins its layers: ``cat``, ``max`` or ``lstm``."""

    def __post_init__(self) -> None:
        if self.name not in MODELS:
            raise ValueError(f"model must be one of {sorted(MODELS)}, got {self.name!r}")
        if self.layers < 1 or self.hidden < 1:
            raise ValueError(f"layers and hidden must be at least 1, got {self.layers} and {self.hidden}")
        for name, value in (("dropout", self.dropout), ("input_dropout", self.input_dropout)):
            if not 0.0 <= value < 1.0:
                raise ValueError(f"{name} must lie in [0, 1), got {value}")
        kind = _KINDS[self.name]
        if self.norm is None:
            object.__setattr__(self, "norm", kind.norms[0])
        if self.norm not in kind.norms:
            raise ValueError(f"norm of {self.name} must be one of {kind.norms}, got {self.norm!r}")
        if self.heads < 1 or self.hidden % self.heads:
            raise ValueError(
                f"heads must share hidden out evenly, got {self.heads} heads for {self.hidden}; {self._way_to_share()}"
            )
        if not 0.0 <= self.initial_share <= 1.0 or not self.identity_decay > 0.0:
            raise ValueError(
                "initial_share must lie in [0, 1] and identity_decay be positive, "
                f"got {self.initial_share} and {self.identity_decay}"
            )
        if self.jump not in ("cat", "max", "lstm"):
            raise ValueError(f"jump must be one of ('cat', 'max', 'lstm'), got {self.jump!r}")
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in _SPECIAL and field.name not in kind.takes and value != field.default:
                known = sorted(name for name, other in _KINDS.items() if field.name in other.takes)
                raise ValueError(f"{field.name} is a setting of {known}, got {value!r} for {self.name!r}; leave it out")

    def widths(self, in_features: int, num_classes: int) -> list[int]:
        """Return the width before the first layer, between layers, and after the last."""
        return [in_features, *[self.hidden] * (self.layers - 1), num_classes]

    def _way_to_share(self) -> str:
        shares = [heads for heads in range(1, min(self.hidden, 16) + 1) if self.hidden % heads == 0]
        ways = f"set heads to one of {shares}"
        return f"{ways}, or hidden to {-(-self.hidden // self.heads) * self.heads}" if self.heads > 0 else ways


_SPECIAL = ("heads", "initial_share", "identity_decay", "jump")

Builder = Callable[[ModelSettings, int, int, int], nn.Module]

MODELS: dict[str, Builder] = {}
"""Every model by name: ``(settings, in_features, num_classes, seed) -> module``."""


@dataclass(frozen=True)
class _Kind:
    norms: tuple[str, ...]
    takes: tuple[str, ...]


_KINDS: dict[str, _Kind] = {}


@overload
def register_model(builder: Builder) -> Builder: ...
@overload
def register_model(*, norms: tuple[str, ...] = ..., takes: tuple[str, ...] = ...) -> Callable[[Builder], Builder]: ...
def register_model(
    builder: Builder | None = None, *, norms: tuple[str, ...] = ("layer", "none"), takes: tuple[str, ...] = ()
) -> Builder | Callable[[Builder], Builder]:
    """Make a model known by its function's name, with ``_`` written as ``-``.

    Args:
        builder: ``(settings, in_features, num_classes, seed) -> module``.
        norms: values of ``ModelSettings.norm`` that it allows; the first is its default.
        takes: those of ``heads``, ``initial_share``, ``identity_decay`` and ``jump`` that it heeds.

    Raises:
        ValueError: if the name is taken.
    """
    if builder is None:
        return lambda builder: _register(builder, _Kind(norms, takes))
    return _register(builder, _Kind(norms, takes))


def _register(builder: Builder, kind: _Kind) -> Builder:
    name = builder.__name__.replace("_", "-")
    if name in MODELS:
        raise ValueError(f"a model's name must be new, {name!r} is registered already")
    MODELS[name], _KINDS[name] = builder, kind
    return builder


def build_model(settings: ModelSettings, in_features: int, num_classes: int, *, seed: int) -> nn.Module:
    """Return a model with weights drawn from ``seed`` alone, so that every worker starts from the same ones."""
    return MODELS[settings.name](settings, in_features, num_classes, seed)
