"""Registry of models by name, and the settings common to all."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, overload

from torch import nn

from gnnqlab.by_name import did_you_mean, load, module_of, name_of
from gnnqlab.graph.edge_data import refuse_features
from gnnqlab.nn.edge_rows import require_width
from gnnqlab.nn.models.model_output import require_output
from gnnqlab.settings import NO_OPTION, OneOf, Range, check

__all__ = [
    "ACTIVATED", "MODELS", "ModelSettings", "build_model", "edges_in", "find_model", "for_now", "is_stacked",
    "model_home", "named", "register_model", "settings_class", "settings_from_json",
    "word_for",
]  # fmt: skip

Share = Annotated[float, Range(0, 1, open_high=True)]

ACTIVATED = ("relu", "elu", "gelu", "gelu-tanh")
"""Activations between layers; the first is the default of the package's own models."""


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Name and shape of a model; AdaQP Table 8 trains 3 layers of 256 with dropout 0.5 and LayerNorm.

    A model with further settings defines a subclass in its file and passes it to :func:`register_model`;
    ``ModelSettings(name="gat", heads=4)`` returns an instance of the subclass of ``gat``.
    """

    attends: ClassVar[bool] = False
    """True if the model uses a softmax over all neighbours, which not every exchange supports."""
    name: Annotated[str, NO_OPTION] = "gcn"
    """Name of a registered model (see ``gnnqlab models``), or ``module:function`` of a builder, see :func:`named`."""
    layers: Annotated[int, Range(1)] = 3
    """Number of graph layers, or of hops in models without weights per hop, at least 1."""
    hidden: Annotated[int, Range(1)] = 256
    """Dimension of every layer but the last; of all heads together."""
    dropout: Share = 0.5
    """Probability in [0, 1) of dropping an element of a hidden layer's input."""
    input_dropout: Share = 0.0
    """Probability in [0, 1) of dropping an element of the raw features."""
    norm: Annotated[str | None, OneOf(("layer", "none"))] = None
    """``layer`` (LayerNorm between layers) or ``none``; default: as in the model's paper."""
    activation: Annotated[str | None, OneOf(ACTIVATED)] = None
    """Activation between layers: ``relu``, ``elu`` (α = 1), ``gelu`` (exact) or ``gelu-tanh`` (approximation by tanh);
    default: ``relu``, or none for a model without this setting."""

    def __new__(cls, **settings: Any) -> Self:
        if cls is not ModelSettings or not settings:
            return super().__new__(cls)
        kind = settings_class(settings.get("name", "gcn"))
        _refuse_unknown(kind, settings)
        instance: Any = object.__new__(kind)
        return instance  # type: ignore[no-any-return]

    def __post_init__(self) -> None:
        # The class is frozen: defaults that depend on the model are set past it.
        object.__setattr__(self, "name", named(self.name))
        kind = _kind(self.name)
        if type(self) is not kind.settings:
            raise ValueError(f"settings of {self.name} must be {kind.settings.__name__}, got {type(self).__name__}")
        if self.norm is None:
            object.__setattr__(self, "norm", kind.norms[0])
        if self.norm not in kind.norms:
            raise ValueError(f"norm of {self.name} must be one of {kind.norms}, got {self.norm!r}")
        if self.activation is None and kind.activations:
            object.__setattr__(self, "activation", kind.activations[0])
        if self.activation is not None and self.activation not in kind.activations:
            raise ValueError(_no_such_activation(self.name, self.activation, kind.activations))
        check(self)

    def widths(self, in_features: int, num_classes: int) -> list[int]:
        """Return the number of columns before the first layer, between layers, and after the last."""
        return [in_features, *[self.hidden] * (self.layers - 1), num_classes]


Builder = Callable[..., nn.Module]
Edges = Literal["none", "sums", "rows"]
"""Use of edge features by a model: none; only their sums; or per edge, which needs the rows of both ends, unsampled and
of this epoch."""

MODELS: dict[str, Builder] = {}
"""Builders of models by name: ``(settings, in_features, num_classes, seed) -> module``; see :func:`register_model`."""


@dataclass(frozen=True)
class _Kind:
    norms: tuple[str, ...]
    settings: type[ModelSettings]
    stacked: bool = False
    edges: Edges = "none"
    activations: tuple[str, ...] = ()
    importable: bool = False
    """True if importing the builder gives this model: its module registers it, or all values are defaults."""
    implied: bool = False
    """True if it was only named as ``module:function``; its module may still register it."""


_KINDS: dict[str, _Kind] = {}


def settings_class(name: str) -> type[ModelSettings]:
    """Return the dataclass of a model's settings.

    Raises:
        ValueError: if there is no such model.
    """
    return _kind(name).settings


def settings_from_json(value: dict[str, Any]) -> ModelSettings:
    """Read model settings from JSON.

    Files of an earlier format hold the settings of every model: those of other models are ignored if at their defaults.

    Raises:
        ValueError: if a setting is unknown or out of its range.
    """
    kind = settings_class(value.get("name", "gcn"))
    defaults = {
        field.name: field.default for model_kind in _KINDS.values() for field in dataclasses.fields(model_kind.settings)
    }
    known_names = _names(kind)
    foreign_names = {name for name in value if name not in known_names and defaults.get(name, _NOTHING) == value[name]}
    return ModelSettings(**{name: setting for name, setting in value.items() if name not in foreign_names})


_NOTHING = object()


def _kind(name: str) -> _Kind:
    name = named(name)
    if name not in _KINDS:
        raise ValueError(
            f"model must be one of {sorted(MODELS)} or module:function, got {name!r}{did_you_mean(name, MODELS)}"
        )
    return _KINDS[name]


def _refuse_unknown(kind: type[ModelSettings], settings: dict[str, Any]) -> None:
    name, known_names = settings.get("name", "gcn"), _names(kind)
    for setting, value in settings.items():
        if setting in known_names:
            continue
        takers = sorted(model for model, model_kind in _KINDS.items() if setting in _names(model_kind.settings))
        if takers:
            raise ValueError(f"{setting} is a setting of {takers}, got {value!r} for {name!r}; leave it out")
        raise ValueError(f"model {name!r} has the settings {sorted(known_names - {'name'})}, got [{setting!r}]")


def _no_such_activation(model: str, activation: str, known_names: tuple[str, ...]) -> str:
    if known_names:
        return f"activation of {model} must be one of {known_names}, got {activation!r}"
    return (
        f"activation must be omitted for {model}, which has no such setting, got {activation!r}; a model that has it "
        f"is registered with activations={ACTIVATED}"
    )


def _names(kind: type[ModelSettings]) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


@overload
def register_model(builder: Builder) -> Builder: ...
@overload
def register_model(
    *,
    norms: tuple[str, ...] = ...,
    settings: type[ModelSettings] = ...,
    stacked: bool = ...,
    edges: Edges = ...,
    activations: tuple[str, ...] = ...,
) -> Callable[[Builder], Builder]: ...
def register_model(
    builder: Builder | None = None,
    *,
    norms: tuple[str, ...] = ("layer", "none"),
    settings: type[ModelSettings] = ModelSettings,
    stacked: bool = False,
    edges: Edges = "none",
    activations: tuple[str, ...] = (),
) -> Builder | Callable[[Builder], Builder]:
    """Register a model under its function's name, with ``_`` replaced by ``-``.

    Args:
        builder: ``(settings, in_features, num_classes, seed) -> module``; with ``edges`` it takes ``edge_features=``
            too, the number of features per edge, if the graph has some.
        norms: supported values of ``ModelSettings.norm``; the first is the default.
        settings: class of its settings, a frozen dataclass that inherits :class:`ModelSettings`; its fields become
            options of the command line, keys of ``config.json`` and arguments of ``gnnqlab.launch``.
        stacked: True if every layer has a weight matrix and the rows of every hidden layer are needed in the backward
            pass; the minimum memory of a run is estimated from it.
        edges: use of edge features (:mod:`gnnqlab.nn.edge_rows`): ``none``, graphs with edge features are refused;
            ``sums``, only sums of edge features, such as ``edge_means``; ``rows``, together with both ends' rows.
        activations: supported values of ``ModelSettings.activation``, a subset of ``ACTIVATED``; the first is the
            default. Empty: the model has no such setting, and any value is refused.

    Raises:
        ValueError: if the name is taken, or ``edges`` is not one of these.
    """
    if edges not in get_args(Edges):
        raise ValueError(f"edges must be one of {get_args(Edges)}, got {edges!r}")
    kind = _Kind(norms, settings, stacked, edges, activations)
    if builder is None:
        return lambda builder: _register(builder, kind)
    return _register(builder, kind)


def _register(builder: Builder, kind: _Kind, *, implied: bool = False) -> Builder:
    name = builder.__name__.replace("_", "-")
    # A builder that was only named as module:function may still be registered by its module, with its settings.
    if name in MODELS and not (MODELS[name] is builder and _KINDS[name].implied):
        raise ValueError(f"a model's name must be new, {name!r} is registered already")
    is_importable = kind == _Kind(("layer", "none"), ModelSettings) or _is_being_imported(builder)
    MODELS[name], _KINDS[name] = builder, dataclasses.replace(kind, importable=is_importable, implied=implied)
    return builder


def _is_being_imported(builder: Builder) -> bool:
    """Return True if the builder's module is being imported: a decorator runs before the module has the function."""
    module = sys.modules.get(builder.__module__)
    # importlib sets _initializing while the module's code runs.
    return getattr(module, builder.__name__, None) is not builder or bool(
        getattr(getattr(module, "__spec__", None), "_initializing", False)
    )


def is_stacked(name: str) -> bool:
    """Return True if a model was registered with ``stacked=True``."""
    return _kind(name).stacked


def edges_in(name: str) -> Edges:
    """Return the use of edge features with which a model was registered."""
    return _kind(name).edges


def model_home(name: str) -> dict[str, Any] | None:
    """Return the import location and registration of a user's model as JSON; ``None`` for the package's own.

    Raises:
        ValueError: if other processes cannot import it.
    """
    builder, kind = MODELS[name], _kind(name)
    # The package's own models can be imported in every process.
    if builder.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return None
    home = {"builder": name_of(builder), "norms": list(kind.norms), "settings": name_of(kind.settings)}
    edges = {} if kind.edges == "none" else {"edges": kind.edges}
    stack_entry = {"stacked": True} if kind.stacked else {}
    return home | {"activations": list(kind.activations)} | edges | stack_entry


def word_for(name: str) -> str | None:
    """Return a model's name on the command line; ``None`` if another process could not import the identical model.

    Example:
        >>> word_for("gcn")
        'gcn'
    """
    builder, kind = MODELS[name], _kind(name)
    if builder.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return name
    try:
        return name_of(builder) if kind.importable else None
    except ValueError:  # defined in a notebook cell
        return None


def find_model(name: str, home: dict[str, Any]) -> None:
    """Register a model in this process from the result of :func:`model_home` in another.

    Raises:
        ImportError: if its module is not found.
    """
    if name in MODELS:
        return
    builder = load(home["builder"])
    if name not in MODELS:  # importing its module did not register it
        register_model(
            norms=tuple(home["norms"]),
            settings=load(home["settings"]),
            stacked=home.get("stacked", False),
            edges=home.get("edges", "none"),
            activations=tuple(home.get("activations", ())),
        )(builder)


def named(model: str) -> str:
    """Return the name of a registered model, or register the builder ``module:function`` and return its name.

    A builder with its own settings is registered by its module; any other has the common settings.

    Raises:
        ValueError: if there is no such builder, its module cannot be imported, or another model has its name.
        TypeError: if it is not a name.
    """
    if not isinstance(model, str):  # workers are other processes, which build the model themselves
        raise TypeError(
            f"model must be a name, got {' '.join(repr(model).split())[:80]}; pass module:function of its builder, or "
            "register the builder with gq.models.register_model"
        )
    try:
        return _found(model)[0]
    except Exception as error:
        module, reason = model.partition(":")[0], f"{type(error).__name__}: {error}"
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == module_of(module)
        way_out = (
            f"; {module.removesuffix('.py')}.py must be in this folder or on Python's module path" if is_missing else ""
        )
        raise ValueError(
            f"model must be a registered one or module:function, got {model!r}: {reason}{way_out}"
        ) from error


@contextmanager
def for_now(model: str) -> Iterator[str]:
    """Yield the name of a registered model, or of the builder ``module:name``, registered within the block only.

    Raises:
        ImportError, AttributeError: if there is no such builder.
        TypeError: if it is not callable.
        ValueError: if another model has its name.
    """
    name, is_new = _found(model)
    try:
        yield name
    finally:
        if is_new:
            del MODELS[name], _KINDS[name]


def _found(model: str) -> tuple[str, bool]:
    """Return a model's name, and True if this call registered it because its module had not."""
    if ":" not in model:
        return model, False
    module, _, function = model.partition(":")
    builder = load(model) if module and function else None
    if not callable(builder):
        raise TypeError("module:function must name a function that builds a model")
    # Importing the module may have registered the builder.
    known_name = next((name for name, model_builder in MODELS.items() if model_builder is builder), None)
    if known_name is not None:
        return known_name, False
    arguments = inspect.signature(builder)
    try:
        arguments.bind(None, 1, 1, 0)
    except TypeError as error:
        needed = "(settings, in_features, num_classes, seed)"
        raise TypeError(f"it must accept {needed}, got {arguments}; call it in a function of these four") from error
    _register(builder, _Kind(("layer", "none"), ModelSettings), implied=True)
    return next(name for name, model_builder in MODELS.items() if model_builder is builder), True


def build_model(
    settings: ModelSettings, in_features: int, num_classes: int, *, seed: int, edge_features: int = 0
) -> nn.Module:
    """Build a model whose weights are a function of ``seed`` alone, so that all workers start from identical ones.

    Args:
        settings: name and shape of the model.
        in_features, num_classes: number of features and classes of the graph.
        seed: seed of the weights.
        edge_features: number of features per edge. A pass over a graph with another number is refused.

    Raises:
        ValueError: if edges have features that the model does not support.

    Example:
        >>> build_model(ModelSettings(name="gcn"), 5, 2, seed=0, edge_features=3)
        Traceback (most recent call last):
        ValueError: model gcn uses node features only, got a graph whose edges have features; choose model gat or ...
    """
    edge_settings = {"edge_features": edge_features} if edge_features else {}
    if edge_settings and edges_in(settings.name) == "none":
        refuse_features(f"model {settings.name}", "uses node features only")
    # Weights are a function of the seed alone, so all workers start from identical ones without a broadcast.
    network = MODELS[settings.name](settings, in_features, num_classes, seed, **edge_settings)
    network.register_forward_pre_hook(partial(_expect_edges, settings.name, edge_features))
    network.register_forward_hook(partial(require_output, settings.name, num_classes))
    return network


def _expect_edges(name: str, edge_features: int, module: nn.Module, inputs: tuple[Any, ...]) -> None:
    # The pass is the first argument.
    for g in inputs[:1]:
        require_width(name, edge_features, g)
