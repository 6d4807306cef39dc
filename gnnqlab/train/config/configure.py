"""Build and validate the configuration of a run from a graph and keyword settings."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from gnnqlab.former_names import with_present_names
from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.graph.edge_data import refuse_attention
from gnnqlab.graph.sources.catalogue import expect, load
from gnnqlab.nn.models.registry import MODELS, ModelSettings, settings_class
from gnnqlab.observe import observer_name
from gnnqlab.partition.cut import Partitioner
from gnnqlab.settings import Setting, nearest, parameters_of, settings_in
from gnnqlab.systems.parts import PARTS, partitioner_named
from gnnqlab.systems.registry import SYSTEMS, make_system
from gnnqlab.systems.settings import settings_of
from gnnqlab.systems.system import System
from gnnqlab.train.config.edges import require_edges
from gnnqlab.train.config.run_config import LaunchSettings, RunConfig, TrainSettings
from gnnqlab.train.link_prediction.settings import TaskSettings
from gnnqlab.train.shard_cache import keep_graph

__all__ = ["configure"]


def configure(
    graph: GraphLike,
    *,
    model: str | ModelSettings = "gcn",
    system: str | System = "vanilla",
    workers: int | None = None,
    workers_per_host: int | None = None,
    partition: str | Partitioner | None = None,
    **settings: Any,
) -> RunConfig:
    """Return the configuration of a run.

    Args:
        graph: a graph, its name or path, or another library's graph, as :func:`gnnqlab.load` takes them. A graph in
            memory is saved in the cache for the workers.
        model: a model's name, its settings, or its builder as ``module:function``.
        system: a system's name, or a :class:`System`.
        workers: number of partitions, one process each; 2 by default.
        workers_per_host: alternative to ``workers``: number of workers on each of ``hosts`` (2 by default).
        partition: a partitioner, or its name, in place of the system's own; a random one uses the run's seed.
        **settings: any field of ``TrainSettings`` (``epochs``, ``seed``, ``lr``, ``recompute`` ...), of the model's
            settings (``layers``, ``hidden``, ``dropout``, ``heads`` of ``gat`` ...), of ``LaunchSettings`` (``device``,
            ``threads_per_worker`` ...), of ``TaskSettings`` (``task="links"``, ``num_negatives`` ...), or any argument
            of the system's recipe (``bits`` ...).

    Raises:
        ValueError: if a name, a setting or a value is wrong, or a graph in memory lacks features, labels or a split,
            has edge weights for an attention model, or edge features that the model or system would ignore; before
            anything is started.
        TypeError: if ``graph`` is not a graph.

    Example:
        >>> configure("digits", system="fixed-bits", bits=4, epochs=10).system.bits
        Fixed(bits=4)
    """
    # Workers import observers by their names; config.json cannot hold classes.
    if "observers" in settings:
        settings = {**settings, "observers": tuple(observer_name(each) for each in settings["observers"])}
    kind = type(model) if isinstance(model, ModelSettings) else settings_class(model)
    run_settings = _list_settings(kind, system)
    settings = with_present_names(settings, run_settings)
    # Numbers of NumPy, and whole numbers written as floats, are accepted.
    by_name = {setting.name: setting for setting in run_settings}
    settings = {name: by_name[name].plain(value) if name in by_name else value for name, value in settings.items()}
    workers, workers_per_host = _count("workers", workers), _count("workers_per_host", workers_per_host)
    sections = _by_section(settings, kind, system)
    if workers_per_host is not None:
        hosts = sections["launch"]["hosts"] = sections["launch"].get("hosts") or 2
        if workers is not None and workers != hosts * workers_per_host:
            raise ValueError(
                f"workers must be hosts times workers_per_host, got {workers} for {hosts} times {workers_per_host}; "
                "leave one out"
            )
        workers = hosts * workers_per_host
    train, task = TrainSettings(**sections["train"]), TaskSettings(**sections["task"])
    recipe = make_system(system, **sections["system"])
    if isinstance(model, ModelSettings):
        model_settings = dataclasses.replace(model, **sections["model"])
    else:
        model_settings = ModelSettings(name=model, **sections["model"])
    whole_system = recipe if partition is None else _repartitioned(recipe, partition, train.seed)
    return RunConfig(
        graph=_source(graph, model_settings, whole_system, task),
        system=whole_system,
        model=model_settings,
        train=train,
        workers=2 if workers is None else workers,
        launch=LaunchSettings(**sections["launch"]),
        task=task,
    )


def _count(name: str, value: Any) -> int | None:
    """Return a number of workers as an ``int``; raise if it is not a whole number."""
    setting = Setting(name=name, kind=int, optional=True)
    number: int | None = setting.plain(value)
    setting.check(number)
    return number


def _list_settings(model: type[ModelSettings], system: str | System) -> list[Setting]:
    """Return all settings of a run with this model and system."""
    sections = (TrainSettings, LaunchSettings, TaskSettings, model)
    system_settings = settings_of(SYSTEMS[system]) if isinstance(system, str) and system in SYSTEMS else []
    return [*(setting for section in sections for setting in settings_in(section)), *system_settings]


def _by_section(
    settings: dict[str, Any], model: type[ModelSettings], system: str | System
) -> dict[str, dict[str, Any]]:
    """Return the settings by section of the configuration; raise for unknown ones."""
    setting_names = {
        "train": _names(TrainSettings),
        "launch": _names(LaunchSettings),
        "task": _names(TaskSettings),
        "model": _names(model) - {"name"},
        "system": set(),
    }
    # Only recipes take settings; a System is complete.
    if isinstance(system, str) and system in SYSTEMS:
        setting_names["system"] = {setting.name for setting in parameters_of(SYSTEMS[system])}
    # A name that is a setting of both would silently go to one of them.
    overlap = sorted(set(settings) & setting_names["model"] & setting_names["system"])
    if overlap:
        raise ValueError(
            f"a setting must belong to either the model or the system, got {overlap} of both; pass ModelSettings or a "
            "System"
        )
    sections: dict[str, dict[str, Any]] = {section: {} for section in setting_names}
    for name, value in settings.items():
        section = next((section for section, names in setting_names.items() if name in names), None)
        if section is None:
            # Not a setting of this run: the model or the system raises for it, with its own list of settings.
            section = "model" if any(name in _names(settings_class(model_name)) for model_name in MODELS) else "system"
            _refuse_unknown(name, system, model)
        sections[section][name] = value
    return sections


def _refuse_unknown(name: str, system: str | System, model: type[ModelSettings]) -> None:
    """Raise for a name that no model or system has as a setting, with a similar one, or with those of this run."""
    sections = [TrainSettings, LaunchSettings, TaskSettings, *(settings_class(model) for model in MODELS)]
    known_settings: list[Setting] = [setting for section in sections for setting in settings_in(section)]
    known_settings += [setting for recipe in SYSTEMS.values() for setting in parameters_of(recipe)]
    # Arguments of configure() itself, which are no settings, but can be misspelt like them.
    known_settings += [Setting(name=word, kind=int) for word in ("workers", "workers_per_host", "partition")]
    known_names = {setting.name for setting in known_settings}
    if name in known_names or (isinstance(system, str) and system not in SYSTEMS):
        return  # a setting of another model or system, or a wrong system: the next check names them
    system_name = system if isinstance(system, str) else system.name
    rule = f"no setting of a run with system {system_name!r} is called {name!r}"
    if name in PARTS:
        recipe = system_name.replace("-", "_")
        raise ValueError(
            f"{rule}, it is an axis; pass system=gq.systems.{recipe}().replace({name}=...), or on the command line "
            f"--replace {name}=MODULE:NAME"
        )
    if suggestion := nearest(name, known_settings):
        raise ValueError(f"{rule}; did you mean {suggestion}")
    own_names = [setting.name for setting in _list_settings(model, system) if setting.name != "name"]
    raise ValueError(f"{rule}; it has workers, workers_per_host, partition, {', '.join(own_names)}")


def _names(section: type) -> set[str]:
    return {field.name for field in dataclasses.fields(section)}


def _repartitioned(system: System, partition: str | Partitioner, seed: int) -> System:
    """Return a system with another partitioner; its recipe is preserved."""
    part = partitioner_named(partition, seed) if isinstance(partition, str) else partition
    return system.replace(partition=part)


def _source(graph: GraphLike, model: ModelSettings, system: System, task: TaskSettings) -> str:
    if not isinstance(graph, str | Path):
        loaded_graph = load(graph)
        task.require_graph(loaded_graph)
        if model.attends and loaded_graph.edge_weights is not None:
            refuse_attention(f"model {model.name}")
        require_edges(model, system, loaded_graph.num_edge_features)
        # Workers are other processes: they load the graph from disk.
        return keep_graph(loaded_graph)
    expect(graph)
    path = Path(graph)
    # Absolute, because workers may have another working directory.
    return str(path.absolute()) if path.exists() else str(graph)
