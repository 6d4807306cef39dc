"""In which settings runs differ: each by a short name, those told together that no run tells apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ABSENT", "Differing", "differing", "settings_of"]

ABSENT = "not used"
"""Stands for a setting that a run's system does not have."""
_WHERE = ("device", "hosts", "link")
"""What a launch says about the place of a training; who watches it and how it is started is no part of it."""
_FIRST = ("system.name", "graph", "model.name", "workers", "launch.hosts", "launch.link")
"""Of settings that vary together, these name the others, the earlier ones first."""


@dataclass(frozen=True)
class Differing:
    """One setting in which runs differ."""

    name: str
    """As short as it can be told from the others."""
    values: tuple[Any, ...]
    """One a run, as its configuration has it."""
    along: tuple[str, ...] = ()
    """Settings that vary exactly as this one does, or follow from it."""

    @property
    def levels(self) -> list[Any]:
        """Its values, each once: numbers by size, then words; last what stands for none."""
        some = {_said(value): value for value in self.values}
        return [some[said] for said in sorted(some, key=lambda said: _order(some[said]))]

    @property
    def places(self) -> list[int]:
        """For each run the number of its level."""
        known = {_said(level): number for number, level in enumerate(self.levels)}
        return [known[_said(value)] for value in self.values]

    @property
    def words(self) -> list[str]:
        """The levels in words."""
        return [_said(level) for level in self.levels]


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return every setting of a configuration by its path, but the seed, and what does not change a training.

    A recipe repeats its parts, so it is left out.

    Args:
        config: a run's configuration as plain JSON.

    Example:
        >>> settings_of({"train": {"epochs": 3, "seed": 1}, "launch": {"link": "100mbit", "detach": True}})
        {'train.epochs': 3, 'launch.device': None, 'launch.hosts': None, 'launch.link': '100mbit'}
    """
    launch = config.get("launch") or {}
    plain = {**config, "launch": {name: launch.get(name) for name in _WHERE}}
    plain.pop("recipe", None)
    return dict(_flat(plain))


def differing(settings: Sequence[Mapping[str, Any]]) -> list[Differing]:
    """Return the settings in which runs differ, in the order of the first run's configuration.

    Settings that split the runs into the same groups are one: no run tells them apart. Parts that follow from the
    system's name are told with it.

    Args:
        settings: of each run, as `settings_of` returns them.

    Example:
        >>> runs = [{"system.name": "vanilla", "system.codec": "float32", "model.hidden": 16},
        ...         {"system.name": "sylvie", "system.codec": "stochastic", "model.hidden": 16}]
        >>> [(one.name, one.words, one.along) for one in differing(runs)]
        [('system', ['sylvie', 'vanilla'], ('codec',))]
    """
    paths = list(dict.fromkeys(path for one in settings for path in one))
    columns = {path: tuple(one.get(path, ABSENT) for one in settings) for path in paths}
    columns = {path: values for path, values in columns.items() if len(set(map(_said, values))) > 1}
    if "graph" in columns:
        columns["graph"] = tuple(Path(str(name)).name for name in columns["graph"])
    short = _short_names(list(columns))
    alike: dict[tuple[int, ...], list[str]] = {}
    for path in sorted(columns, key=lambda path: _FIRST.index(path) if path in _FIRST else len(_FIRST)):
        alike.setdefault(_groups(columns[path]), []).append(path)
    system = columns.get("system.name")
    named: dict[str, list[str]] = {}
    for head, *others in alike.values():
        follows = system is not None and head.startswith("system.") and _determines(system, columns[head])
        named.setdefault("system.name" if follows else head, []).extend([head, *others])
    return [
        Differing(short[head], columns[head], tuple(short[path] for path in paths if path != head))
        for head, paths in sorted(named.items(), key=lambda item: list(columns).index(item[0]))
    ]


def _groups(values: Sequence[Any]) -> tuple[int, ...]:
    """The number of each value, in the order in which they first come."""
    known: dict[str, int] = {}
    return tuple(known.setdefault(_said(value), len(known)) for value in values)


def _determines(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(set(map(_said, one))) == len({(_said(a), _said(b)) for a, b in zip(one, other, strict=True)})


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """The last word of each path (of ``codec.name`` that before it); two where that is taken."""
    plain = [path.rpartition(".")[2] for path in paths]
    parents = [path.split(".")[-2] if path.endswith(".name") else "" for path in paths]
    found = {}
    for path, name, parent in zip(paths, plain, parents, strict=True):
        short = parent or name
        alone = (short not in plain and parents.count(parent) == 1) if parent else plain.count(name) == 1
        found[path] = (short if alone or path in _FIRST else ".".join(path.split(".")[-2:])).replace("_", " ")
    return found


def _said(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value))
    return "none" if value is None else str(value)


def _order(value: Any) -> tuple[int, float, str]:
    if isinstance(value, int | float):
        return 0, float(value), ""
    return (2 if value == ABSENT else 1), 0.0, _said(value)


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, each in value.items():
        if isinstance(each, Mapping):
            yield from _flat(each, f"{prefix}{name}.")
        elif name != "seed":  # a random partitioner has the run's
            yield prefix + name, each
