"""From what a person says about a run to its checked configuration."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources.catalogue import expect
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.systems.system import System, make_system
from gnnqlab.train.config import LaunchSettings, RunConfig, TrainSettings
from gnnqlab.train.prepare import keep_graph

__all__ = ["configure"]

_SECTIONS = {"model": ModelSettings, "train": TrainSettings, "launch": LaunchSettings}


def configure(
    graph: Graph | str | Path,
    *,
    model: str | ModelSettings = "gcn",
    system: str | System = "vanilla",
    workers: int | None = None,
    workers_per_host: int | None = None,
    **settings: Any,
) -> RunConfig:
    """Return the configuration of a run.

    Args:
        graph: a graph, or its name or path. A graph in memory is kept in the cache for the workers.
        model: a model's name, or its settings.
        system: a system's name, or a :class:`System`.
        workers: number of partitions, one process each; 2 if nothing says otherwise.
        workers_per_host: instead of it, how many of them each of ``hosts`` (2 by default) has.
        **settings: any field of ``TrainSettings`` (``epochs``, ``seed``, ``lr``, ``layer0`` ...), of
            ``ModelSettings`` (``layers``, ``hidden``, ``dropout`` ...), of ``LaunchSettings`` (``device``,
            ``threads_per_worker`` ...), or what the system's recipe takes (``bits`` ...).

    Raises:
        ValueError: if a name, a setting or a value is wrong; before anything is started.

    Example:
        >>> configure("digits", system="fixed-bits", bits=4, epochs=10).system.bits
        Fixed(bits=4)
    """
    chosen: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    for section, kind in _SECTIONS.items():
        for field in dataclasses.fields(kind):
            if field.name in settings and field.name != "name":
                chosen[section][field.name] = settings.pop(field.name)
    if workers_per_host is not None:
        hosts = chosen["launch"]["hosts"] = chosen["launch"].get("hosts") or 2
        if workers is not None and workers != hosts * workers_per_host:
            raise ValueError(
                f"workers must be hosts times workers_per_host, got {workers} for {hosts} times {workers_per_host}; "
                "leave one out"
            )
        workers = hosts * workers_per_host
    recipe = make_system(system, **settings)
    if isinstance(model, ModelSettings):
        model_settings = dataclasses.replace(model, **chosen["model"])
    else:
        model_settings = ModelSettings(name=model, **chosen["model"])
    return RunConfig(
        graph=_source(graph),
        system=recipe,
        model=model_settings,
        train=TrainSettings(**chosen["train"]),
        workers=2 if workers is None else workers,
        launch=LaunchSettings(**chosen["launch"]),
    )


def _source(graph: Graph | str | Path) -> str:
    if isinstance(graph, Graph):
        return keep_graph(graph)
    expect(graph)
    path = Path(graph)
    return str(path.absolute()) if path.exists() else str(graph)
