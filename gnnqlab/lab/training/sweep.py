"""A sweep: runs, the settings in which they differ and what each came to; and which setting mattered."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["ABSENT", "Differing", "differing", "flat", "settings_of", "OUTCOMES", "Outcome", "Sweep", "explained"]

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
    return {path: value for path, value in flat(plain) if path.rpartition(".")[2] != "seed"}


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


def flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every setting of a configuration by its path."""
    for name, each in value.items():
        if isinstance(each, Mapping):
            yield from flat(each, f"{prefix}{name}.")
        else:
            yield prefix + name, each


_FEWEST = 4


class Outcome(NamedTuple):
    """What a run came to, as figures show it."""

    word: str
    unit: str
    by: float
    """From the number kept to the unit shown."""
    short: str
    """Word and unit where there is little room."""

    @property
    def title(self) -> str:
        """The word with its unit."""
        return f"{self.word} ({self.unit})"


OUTCOMES = {
    "train_s": Outcome("total time", "s", 1.0, "total (s)"),
    "bytes_sent": Outcome("sent an epoch", "kB", 1e-3, "sent (kB)"),
    "score": Outcome("test score", "%", 100.0, "test (%)"),
}
"""By their names in a run's row."""


class Sweep:
    """Runs that have ended, by settings and outcomes.

    Args:
        settings: of each run, as `settings_of` returns them.
        outcomes: of each run, by the names of `OUTCOMES`; what is not known is ``None`` or NaN.
        names: of the runs.

    Raises:
        ValueError: if there are fewer than two runs, or they differ in nothing but their seed.
    """

    def __init__(
        self, settings: Sequence[Mapping[str, Any]], outcomes: Sequence[Mapping[str, Any]], names: Sequence[str]
    ) -> None:
        if len(settings) < 2:
            raise ValueError(
                f"a sweep needs at least two finished runs, got {len(settings)}; launch some, or tick more"
            )
        self.factors: list[Differing] = differing(settings)
        if not self.factors:
            raise ValueError(
                f"runs of a sweep must differ in a setting, got {len(settings)} that differ in their seed at most"
            )
        self.names = tuple(names)
        self.outcomes = {
            name: [math.nan if one.get(name) is None else float(one[name]) for one in outcomes] for name in OUTCOMES
        }

    def to_frame(self) -> DataFrame:
        """Return a row a run: the settings that differ in words, and the outcomes in the units of figures."""
        import pandas as pd

        columns: dict[str, list[Any]] = {one.name: [one.words[place] for place in one.places] for one in self.factors}
        for name, outcome in OUTCOMES.items():
            columns[outcome.title] = [outcome.by * value for value in self.outcomes[name]]
        return pd.DataFrame(columns, index=pd.Index(self.names, name="run"))

    def mattered(self) -> DataFrame:
        """Return what each setting explains of each outcome, the setting that explains most of the score first.

        Returns:
            A row a setting and outcome: ``setting, along, outcome, levels, runs`` and those of `explained`,
            ``share, chance, p``; NaN where every run has a value of its own. Outcomes that are the same in all runs
            are left out.

        Raises:
            ValueError: if fewer than four runs have ended, or no setting has a value that two runs share.
        """
        import pandas as pd

        if len(self.names) < _FEWEST:
            raise ValueError(
                f"which setting mattered needs at least {_FEWEST} finished runs, got {len(self.names)}: of fewer, any "
                "setting explains most of what differs; launch more seeds or settings"
            )
        rows = []
        for name, outcome in OUTCOMES.items():
            values = self.outcomes[name]
            known = [number for number, value in enumerate(values) if math.isfinite(value)]
            if len(known) < _FEWEST or len({values[number] for number in known}) == 1:
                continue
            for one in self.factors:
                places = [one.places[number] for number in known]
                share, chance, p = explained(places, [values[number] for number in known])
                rows.append(
                    (one.name, ", ".join(one.along), outcome.word, len(set(places)), len(known), share, chance, p)
                )
        columns = ["setting", "along", "outcome", "levels", "runs", "share", "chance", "p"]
        table = pd.DataFrame(rows, columns=columns)
        if not table["share"].notna().any():
            raise ValueError(
                "which setting mattered needs settings with a value that two runs share, and outcomes that differ, got "
                f"none in {len(self.names)} runs; launch each setting with two seeds"
            )
        score = table[table["outcome"] == OUTCOMES["score"].word].set_index("setting")["share"]
        best = table["setting"].map(score).fillna(-1.0)
        return table.assign(best=best).sort_values("best", ascending=False, kind="stable").drop(columns="best")


def explained(places: Sequence[int], values: Sequence[float]) -> tuple[float, float, float]:
    """Return which share of the variance of some numbers lies between groups, what chance alone gives, and its p.

    With n numbers in k groups, ``η² = Σ_g n_g (m_g - m)² / Σ_i (x_i - m)²``; groups that mean nothing have
    ``(k - 1) / (n - 1)`` on average. p is that of ``F = η² (n - k) / ((1 - η²) (k - 1))``, the one-way analysis of
    variance: how often groups that mean nothing would have a share as large (Fisher, 1925, chapter VII).

    Args:
        places: the group of each number.
        values: the numbers, in any unit.

    Returns:
        ``η²``, ``(k - 1) / (n - 1)`` and p; NaN where all are in one group, each is in a group of its own, or all
        numbers are the same.

    Example:
        >>> explained([0, 0, 1, 1], [1.0, 3.0, 5.0, 7.0])[:2]  # 16 of 20; 1 of 3
        (0.8, 0.3333333333333333)
    """
    groups: dict[int, list[float]] = {}
    for place, value in zip(places, values, strict=True):
        groups.setdefault(place, []).append(value)
    count, levels = len(values), len(groups)
    mean = math.fsum(values) / max(count, 1)
    whole = math.fsum((value - mean) ** 2 for value in values)
    if not 1 < levels < count or whole == 0:
        return math.nan, math.nan, math.nan
    within = math.fsum((value - math.fsum(group) / len(group)) ** 2 for group in groups.values() for value in group)
    chance = (levels - 1) / (count - 1)
    if within <= 1e-12 * whole:  # as of bytes, which the seed does not change
        return 1.0, chance, 0.0
    from scipy.special import fdtrc

    share = 1.0 - within / whole
    return (
        share,
        chance,
        float(fdtrc(levels - 1, count - levels, share / (levels - 1) * (count - levels) * whole / within)),
    )
