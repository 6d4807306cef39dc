"""A run as it stood at one moment: read once from disk, then looked at from every side."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["RunLike", "Snapshot", "graph_name", "labels", "repeat_command", "score_name", "take"]


class RunLike(Protocol):
    """What the lab needs to know of a run: a handle's records, traffic, configuration and summary."""

    @property
    def records(self) -> DataFrame: ...

    @property
    def traffic(self) -> DataFrame: ...

    @property
    def config(self) -> Any: ...

    @property
    def summary(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Snapshot:
    """Records, traffic, configuration (plain JSON) and summary of one run, all of the same moment."""

    records: DataFrame
    traffic: DataFrame
    config: Mapping[str, Any]
    summary: Mapping[str, Any]


def take(run: RunLike) -> Snapshot:
    """Read a run; later epochs of one that still trains do not show."""
    if isinstance(run, Snapshot):
        return run
    config = run.config
    plain = config if isinstance(config, Mapping) else config.to_json()
    return Snapshot(run.records, run.traffic, plain, run.summary)


def labels(runs: Sequence[Snapshot]) -> list[str]:
    """One name per run, its system's; runs of the same system are told apart by the settings that differ."""
    systems = [str(run.summary["system"]) for run in runs]
    names = list(systems)
    for system in set(systems):
        same = [number for number, name in enumerate(systems) if name == system]
        settings = [dict(_settings(runs[number].config)) for number in same]
        differ = [key for key in settings[0] if len({str(one.get(key)) for one in settings}) > 1]
        for number, one in zip(same, settings):
            if differ:
                words = ", ".join(f"{key.rpartition('.')[2]} {one.get(key)}" for key in differ[:3])
                names[number] = f"{system} ({words})"
    return [name if names.count(name) == 1 else f"{name} #{number}" for number, name in enumerate(names, start=1)]


def _settings(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting by its path; where processes run is no property of the training."""
    for key, value in config.items():
        if prefix + key == "launch":
            continue
        if isinstance(value, Mapping):
            yield from _settings(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def graph_name(summary: Mapping[str, Any]) -> str:
    """The graph's name; of a file, its name without folder."""
    name = str(summary.get("graph", "a graph"))
    return Path(name).name if "/" in name else name


def score_name(summary: Mapping[str, Any]) -> str:
    """``accuracy`` for one label a node, ``micro-F1`` for several."""
    return "micro-F1" if "test_f1_micro" in summary else "accuracy"


def repeat_command(config: Mapping[str, Any]) -> str:
    """The command that repeats a run, from its configuration as JSON; every setting is spelled out.

    A system that was put together in Python has no name to give, so its command is a comment that says so.

    Example:
        >>> repeat_command({"graph": "digits", "workers": 2, "system": {"name": "vanilla"}, "train": {"epochs": 9}})
        'gnnqlab train --graph digits --system vanilla --workers 2 --epochs 9'
    """
    system = config.get("system", {})
    name = system.get("name", "custom")
    if name == "custom":
        return "# a system put together in Python: launch it with its configuration below"
    words = ["gnnqlab", "train", "--graph", config["graph"], "--system", name, "--workers", config["workers"]]
    model = config.get("model", {})
    words += ["--model", model["name"]] if "name" in model else []
    bits = system.get("bits", {})
    part_of_recipe = {key: bits[key] for key in ("bits", "period") if key in bits and bits[key] != 32}
    partition = system.get("partition", {}).get("name", "metis")
    options = {**model, **config.get("train", {}), **part_of_recipe, "partition": partition}
    for option, value in options.items():
        if option == "name" or value is None or (option, value) == ("partition", "metis"):
            continue
        words += [f"--{option.replace('_', '-')}", value]
    return shlex.join(map(str, words))
