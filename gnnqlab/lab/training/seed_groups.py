"""Groups of runs that differ in their seed only, and the baseline that each run is compared with.

Ratios and differences are between runs of one seed: all systems start from the weights and the cut of that seed, so the
spread between seeds cancels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gnnqlab.lab.training.snapshot import Snapshot, labels
from gnnqlab.lab.training.sweep import settings_of

__all__ = ["SeedGroup", "find_baseline", "group_seeds", "references", "seed_of"]


@dataclass(frozen=True, kw_only=True)
class SeedGroup:
    """Runs with equal settings and different seeds."""

    label: str
    """Name of the system, with the settings that differ between groups of one system."""
    system: str
    numbers: tuple[int, ...]
    """Positions of its runs in the comparison."""
    seeds: tuple[int | None, ...]
    """Seed of each run; ``None`` if it was not recorded."""


def seed_of(run: Snapshot) -> int | None:
    """Return the seed of a run's training, or ``None`` if its configuration has none."""
    train = run.config.get("train")
    return train.get("seed") if isinstance(train, Mapping) else None


def group_seeds(runs: Sequence[Snapshot]) -> list[SeedGroup]:
    """Group runs that differ in their seed only, in the order of their first runs.

    A second run with the same settings and seed is in a group of its own: it is a repetition, and no other seed.

    Args:
        runs: runs of a comparison.
    """
    numbers_by_key: dict[tuple[str, int], list[int]] = {}
    counts: Counter[tuple[str, int | None]] = Counter()  # runs with equal settings and seed so far
    for number, run in enumerate(runs):
        # The system too: a mini-batch run has the configuration of the comparison's first system.
        settings = repr(
            [run.summary["system"], *sorted((name, repr(value)) for name, value in settings_of(run.config).items())]
        )
        seed = seed_of(run)
        numbers_by_key.setdefault((settings, counts[settings, seed]), []).append(number)
        counts[settings, seed] += 1
    groups = list(numbers_by_key.values())
    firsts = [replace(runs[numbers[0]], config=_without_seeds(runs[numbers[0]].config)) for numbers in groups]
    return [
        SeedGroup(
            label=label,
            system=str(runs[numbers[0]].summary["system"]),
            numbers=tuple(numbers),
            seeds=tuple(seed_of(runs[number]) for number in numbers),
        )
        for label, numbers in zip(labels(firsts), groups, strict=True)
    ]


def find_baseline(groups: Sequence[SeedGroup], baseline: str | int | None) -> SeedGroup:
    """Return the group that others are compared with.

    Args:
        groups: groups of a comparison.
        baseline: label of a group, name of its system, or position of one of its runs; by default Vanilla, or the first
            group without it.

    Raises:
        ValueError: if there is no such group.
    """
    if baseline is None:
        return next((group for group in groups if group.system == "vanilla"), groups[0])
    for named in (
        lambda group: baseline == group.label,
        lambda group: baseline == group.system,
        lambda group: baseline in group.numbers,
    ):
        if found := [group for group in groups if named(group)]:
            return found[0]
    raise ValueError(f"baseline must be one of {[group.label for group in groups]}, got {baseline!r}")


def references(groups: Iterable[SeedGroup], baseline: SeedGroup) -> dict[int, int]:
    """Return, by position of a run, the position of the baseline's run with the same seed.

    A baseline of one run is the reference of all runs; otherwise a run without a partner is left out.
    """
    by_seed = dict(zip(baseline.seeds, baseline.numbers, strict=True))
    only = baseline.numbers[0] if len(baseline.numbers) == 1 else None
    partners = {
        number: by_seed.get(seed, only)
        for group in groups
        for number, seed in zip(group.numbers, group.seeds, strict=True)
    }
    # In its own group a run is compared with itself.
    return {number: partner for number, partner in partners.items() if partner is not None}


def _without_seeds(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without its seeds, which are no settings that distinguish groups."""
    return {
        name: _without_seeds(value) if isinstance(value, Mapping) else value
        for name, value in config.items()
        if name != "seed"
    }
