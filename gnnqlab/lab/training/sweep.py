"""Sweep: runs, the settings in which they differ, their outcomes, and the importance of each setting."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "ABSENT",
    "Factor",
    "find_factors",
    "flatten",
    "settings_of",
    "OUTCOMES",
    "Outcome",
    "Sweep",
    "variance_explained",
]

ABSENT = "not used"
"""Value of a setting that a run's system does not have."""
_LAUNCH_SETTINGS = ("device", "hosts", "link")
"""Settings of a launch that affect a training; those of monitoring and of starting processes do not."""
_FIRST = ("system.name", "graph", "model.name", "workers", "launch.hosts", "launch.link")
"""Settings that represent others that vary with them, in order of preference."""


@dataclass(frozen=True)
class Factor:
    """One setting in which runs differ."""

    name: str
    """Shortest name that distinguishes it from the others."""
    values: tuple[Any, ...]
    """Value in the configuration of each run."""
    dependent_names: tuple[str, ...] = ()
    """Settings that vary exactly as this one does, or follow from it."""

    @property
    def levels(self) -> list[Any]:
        """Its distinct values: numbers by size, then words, then `ABSENT`."""
        by_text = {_text(value): value for value in self.values}  # values may be unhashable; equal texts are one level
        return [by_text[text] for text in sorted(by_text, key=lambda text: _order(by_text[text]))]

    @property
    def places(self) -> list[int]:
        """Index of the level of each run."""
        index_by_text = {_text(level): number for number, level in enumerate(self.levels)}
        return [index_by_text[_text(value)] for value in self.values]

    @property
    def words(self) -> list[str]:
        """Levels as text."""
        return [_text(level) for level in self.levels]


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a configuration by path, without the seed and settings that do not affect a training.

    The recipe is left out, because the configuration has its parts too.

    Args:
        config: a run's configuration as plain JSON.

    Example:
        >>> settings_of({"train": {"epochs": 3, "seed": 1}, "launch": {"link": "100mbit", "detach": True}})
        {'train.epochs': 3, 'launch.device': None, 'launch.hosts': None, 'launch.link': '100mbit'}
    """
    launch = config.get("launch") or {}
    settings = {**config, "launch": {name: launch.get(name) for name in _LAUNCH_SETTINGS}}
    settings.pop("recipe", None)
    return {path: value for path, value in flatten(settings) if path.rpartition(".")[2] != "seed"}


def find_factors(settings: Sequence[Mapping[str, Any]]) -> list[Factor]:
    """Return the settings in which runs differ, in the order of the first run's configuration.

    Settings that split the runs into the same groups are merged, because no run distinguishes them. Parts that follow
    from the system's name are merged with it.

    Args:
        settings: settings of each run, as returned by `settings_of`.

    Example:
        >>> runs = [{"system.name": "vanilla", "system.codec": "float32", "model.hidden": 16},
        ...         {"system.name": "sylvie", "system.codec": "stochastic", "model.hidden": 16}]
        >>> [(one.name, one.words, one.dependent_names) for one in find_factors(runs)]
        [('system', ['sylvie', 'vanilla'], ('codec',))]
    """
    paths = list(dict.fromkeys(path for run_settings in settings for path in run_settings))
    columns = {path: tuple(run_settings.get(path, ABSENT) for run_settings in settings) for path in paths}
    # Only settings with several values.
    columns = {path: values for path, values in columns.items() if len(set(map(_text, values))) > 1}
    if "graph" in columns:
        columns["graph"] = tuple(Path(str(name)).name for name in columns["graph"])  # file name without the folder
    short_names = _short_names(list(columns))
    # Settings with the same groups of runs are merged; the most telling one comes first and names them.
    same_groups: dict[tuple[int, ...], list[str]] = {}
    for path in sorted(columns, key=lambda path: _FIRST.index(path) if path in _FIRST else len(_FIRST)):
        same_groups.setdefault(_groups(columns[path]), []).append(path)
    system = columns.get("system.name")
    paths_by_head: dict[str, list[str]] = {}
    for head, *other_paths in same_groups.values():
        follows_system = system is not None and head.startswith("system.") and _determines(system, columns[head])
        paths_by_head.setdefault("system.name" if follows_system else head, []).extend([head, *other_paths])
    return [
        Factor(short_names[head], columns[head], tuple(short_names[path] for path in paths if path != head))
        for head, paths in sorted(paths_by_head.items(), key=lambda item: list(columns).index(item[0]))
    ]


def _groups(values: Sequence[Any]) -> tuple[int, ...]:
    """Return the index of each value among the distinct values, in the order of their first appearance."""
    index_by_text: dict[str, int] = {}
    return tuple(index_by_text.setdefault(_text(value), len(index_by_text)) for value in values)


def _determines(keys: Sequence[Any], values: Sequence[Any]) -> bool:
    # Keys determine values if there are as many different pairs as keys.
    return len(set(map(_text, keys))) == len({(_text(a), _text(b)) for a, b in zip(keys, values, strict=True)})


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """Return the last word of each path (for ``codec.name`` the one before it); two words if it is not unique."""
    words = [path.rpartition(".")[2] for path in paths]
    parents = [path.split(".")[-2] if path.endswith(".name") else "" for path in paths]
    names = {}
    for path, name, parent in zip(paths, words, parents, strict=True):
        short_name = parent or name
        is_unique = (short_name not in words and parents.count(parent) == 1) if parent else words.count(name) == 1
        names[path] = (short_name if is_unique or path in _FIRST else ".".join(path.split(".")[-2:])).replace("_", " ")
    return names


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "none" if value is None else str(value)


def _order(value: Any) -> tuple[int, float, str]:
    if isinstance(value, int | float):
        return 0, float(value), ""  # numbers first, by size
    return (2 if value == ABSENT else 1), 0.0, _text(value)


def flatten(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every setting of a configuration by its path."""
    for name, entry in value.items():
        if isinstance(entry, Mapping):
            yield from flatten(entry, f"{prefix}{name}.")
        else:
            yield prefix + name, entry


_MIN_RUNS = 4


class Outcome(NamedTuple):
    """Outcome of a run, as shown in figures."""

    word: str
    unit: str
    by: float
    """Factor from the stored number to the unit shown."""
    short: str
    """Short form of word and unit."""

    @property
    def title(self) -> str:
        """Word with its unit."""
        return f"{self.word} ({self.unit})"


OUTCOMES = {
    "train_s": Outcome("total time", "s", 1.0, "total (s)"),
    "bytes_sent": Outcome("sent an epoch", "kB", 1e-3, "sent (kB)"),
    "score": Outcome("test score", "%", 100.0, "test (%)"),
}
"""Outcomes by their names in a run's row."""


class Sweep:
    """Runs that have ended, by settings and outcomes.

    Args:
        settings: settings of each run, as returned by `settings_of`.
        outcomes: outcomes of each run, by the names of `OUTCOMES`; ``None`` or NaN if unknown.
        names: names of the runs.

    Raises:
        ValueError: if there are fewer than two runs, or they differ in their seed at most.
    """

    def __init__(
        self, settings: Sequence[Mapping[str, Any]], outcomes: Sequence[Mapping[str, Any]], names: Sequence[str]
    ) -> None:
        if len(settings) < 2:
            raise ValueError(
                f"a sweep needs at least two finished runs, got {len(settings)}; launch some, or tick more"
            )
        self.factors: list[Factor] = find_factors(settings)
        if not self.factors:
            raise ValueError(
                f"runs of a sweep must differ in a setting, got {len(settings)} that differ in their seed at most"
            )
        self.names = tuple(names)
        self.outcomes = {
            name: [math.nan if row.get(name) is None else float(row[name]) for row in outcomes] for name in OUTCOMES
        }

    def __repr__(self) -> str:
        settings = ", ".join(factor.name for factor in self.factors)
        return f"Sweep({len(self.names)} runs that differ in {settings}; .to_frame() has their settings and outcomes)"

    def to_frame(self) -> DataFrame:
        """Return one row per run: differing settings as text, and outcomes in the units of figures."""
        import pandas as pd

        columns: dict[str, list[Any]] = {
            factor.name: [factor.words[place] for place in factor.places] for factor in self.factors
        }
        for name, outcome in OUTCOMES.items():
            columns[outcome.title] = [outcome.by * value for value in self.outcomes[name]]
        return pd.DataFrame(columns, index=pd.Index(self.names, name="run"))

    def importance(self) -> DataFrame:
        """Return the variance of each outcome that each setting explains, the largest share of the score first.

        Returns:
            One row per setting and outcome: ``setting, along, outcome, levels, runs`` and those of
            `variance_explained`, ``share, chance, p``; NaN if every run has a different value. Outcomes that are the
            same in all runs are left out.

        Raises:
            ValueError: if fewer than four runs have ended, or no setting has a value that two runs share.
        """
        import pandas as pd

        if len(self.names) < _MIN_RUNS:
            raise ValueError(
                f"importance of settings needs at least {_MIN_RUNS} finished runs, got {len(self.names)}: with fewer, "
                "any setting explains most of the variance; launch more seeds or settings"
            )
        rows = []
        for name, outcome in OUTCOMES.items():
            values = self.outcomes[name]
            numbers = [number for number, value in enumerate(values) if math.isfinite(value)]  # runs with this outcome
            if len(numbers) < _MIN_RUNS or len({values[number] for number in numbers}) == 1:
                continue
            for factor in self.factors:
                places = [factor.places[number] for number in numbers]
                share, chance, p = variance_explained(places, [values[number] for number in numbers])
                rows.append(
                    (
                        factor.name,
                        ", ".join(factor.dependent_names),
                        outcome.word,
                        len(set(places)),
                        len(numbers),
                        share,
                        chance,
                        p,
                    )
                )
        columns = ["setting", "along", "outcome", "levels", "runs", "share", "chance", "p"]
        table = pd.DataFrame(rows, columns=columns)
        if not table["share"].notna().any():
            raise ValueError(
                "importance of settings needs a setting with a value that two runs share, and outcomes that differ, "
                f"got none in {len(self.names)} runs; launch each setting with two seeds"
            )
        score = table[table["outcome"] == OUTCOMES["score"].word].set_index("setting")["share"]
        score_shares = table["setting"].map(score).fillna(-1.0)
        return table.assign(best=score_shares).sort_values("best", ascending=False, kind="stable").drop(columns="best")

    def mattered(self) -> DataFrame:
        """Call :meth:`importance`, the present name, with a warning."""
        warnings.warn("Sweep.mattered is Sweep.importance now", DeprecationWarning, stacklevel=2)
        return self.importance()


def variance_explained(places: Sequence[int], values: Sequence[float]) -> tuple[float, float, float]:
    """Return the share of the variance of numbers between groups, its expectation under chance, and its p-value.

    With n numbers in k groups, ``η² = Σ_g n_g (m_g - m)² / Σ_i (x_i - m)²``; groups without an effect have
    ``(k - 1) / (n - 1)`` on average. p is that of ``F = η² (n - k) / ((1 - η²) (k - 1))``, the one-way analysis of
    variance: the probability that groups without an effect have as large a share (Fisher, 1925, chapter VII).

    Args:
        places: the group of each number.
        values: the numbers, in any unit.

    Returns:
        ``η²``, ``(k - 1) / (n - 1)`` and p; NaN if there is one group, every number has its own group, or all numbers
        are equal.

    Example:
        >>> variance_explained([0, 0, 1, 1], [1.0, 3.0, 5.0, 7.0])[:2]  # 16 of 20; 1 of 3
        (0.8, 0.3333333333333333)
    """
    groups: dict[int, list[float]] = {}
    for place, value in zip(places, values, strict=True):
        groups.setdefault(place, []).append(value)
    count, levels = len(values), len(groups)
    mean = math.fsum(values) / max(count, 1)  # fsum: exact sum, independent of the order
    total_sum = math.fsum((value - mean) ** 2 for value in values)
    if not 1 < levels < count or total_sum == 0:
        return math.nan, math.nan, math.nan
    # Σ over groups of squared distances from the group's mean; η² = 1 - within_sum / total_sum.
    within_sum = math.fsum((value - math.fsum(group) / len(group)) ** 2 for group in groups.values() for value in group)
    chance = (levels - 1) / (count - 1)  # expectation of η² without an effect
    if within_sum <= 1e-12 * total_sum:  # F is infinite, for example of bytes, which do not depend on the seed
        return 1.0, chance, 0.0
    from scipy.special import fdtrc

    share = 1.0 - within_sum / total_sum
    return (
        share,
        chance,
        float(fdtrc(levels - 1, count - levels, share / (levels - 1) * (count - levels) * total_sum / within_sum)),
    )
