"""Settings and outcomes of a run in one row; and groups of runs that differ in their seed only, with intervals."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.training.sweep import settings_of
from gnnqlab.run.disk_usage import disk_bytes
from gnnqlab.systems.parts import part_from_json
from gnnqlab.systems.replaced import words_of
from gnnqlab.theory.intervals import interval
from gnnqlab.train.config.config_file import NAME as CONFIG
from gnnqlab.train.config.config_file import read_config
from gnnqlab.train.loop.scores import get_test_score

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.run.run import Run

__all__ = ["Row", "group_by_settings", "run_row", "format_groups"]

FIELD_OF_COLUMN = {"said": "recipe_text"}
"""Column of tables -> field of a row, where the names differ."""
_POINTS = 40
"""Most points of a curve in a row."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """Row of the table: one run."""

    id: str
    status: str
    began: str = ""
    """Local date and time of the launch."""
    name: str = ""
    """Name that the user gave the run."""
    tags: tuple[str, ...] = ()
    system: str = ""
    recipe_text: str = ""
    """Settings of its recipe in words."""
    graph: str = ""
    model: str = ""
    workers: int | None = None
    seed: int | None = None
    link: str = ""
    epochs: int | None = None
    """Number of epochs trained so far."""
    score: float | None = None
    """Test score in the epoch with the best validation score, in [0, 1]."""
    train_s: float | None = None
    """Seconds of the whole training without evaluation."""
    bytes_sent: float | None = None
    """Bytes per epoch, all workers."""
    size: int = 0
    """Bytes on disk."""
    curve: tuple[float, ...] = ()
    """Validation scores, thinned."""
    group: str = ""
    """Key of its group, equal for runs that differ in their seed only."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """All settings but the seed, by path."""
    trouble: str = ""
    """Cause of a failure, a warning, or the reason why its folder cannot be read."""


def run_row(run: Run) -> Row:
    """Return settings and outcomes of a run; for an unreadable folder a row with the reason.

    Args:
        run: a run in any state.
    """
    size = disk_bytes(run.folder)
    try:
        settings = read_config(run.folder)
        summary = dict(run.summary) if run.status == "finished" else {}
        score = get_test_score(summary)
        return Row(
            id=run.id,
            status=run.status,
            name=run.name,
            tags=run.tags,
            # The configuration is written at the launch.
            began=time.strftime("%Y-%m-%d %H:%M", time.localtime((run.folder / CONFIG).stat().st_mtime)),
            system=str(settings["system"]["name"]),
            recipe_text=_words(settings.get("recipe"), settings["system"]),
            graph=Path(settings["graph"]).name,
            model=f"{settings['model']['name']} {settings['model']['layers']} x {settings['model']['hidden']}",
            workers=settings["workers"],
            seed=settings["train"]["seed"],
            link=_link(settings["launch"]),
            epochs=summary.get("epochs", max(run.epoch + 1, 0)),  # without a summary, the number so far
            score=_number(score),
            train_s=_number(summary.get("train_s")),
            bytes_sent=_number(summary.get("bytes_sent")),
            size=size,
            curve=_curve(run),
            # Equal for runs with equal settings.
            group=repr(sorted((name, repr(value)) for name, value in settings_of(settings).items())),
            settings=settings_of(settings),
            trouble=run.cause or run.warning,
        )
    except Exception as error:  # an error of one folder must not hide the other runs
        return Row(id=run.id, status="unreadable", size=size, trouble=f"{type(error).__name__}: {error}")


def group_by_settings(rows: Sequence[Row]) -> DataFrame:
    """Return finished runs in groups that differ in their seed only.

    Returns:
        One row per group, in the order of their first runs: ``system, said, graph, model, workers, link, epochs,
        seeds``; means ``score``, ``train_s``, ``bytes_sent``; half-widths of 95 % intervals ``score_half`` and
        ``train_half`` (NaN for one seed); ``runs``, the names.

    Example:
        >>> one, two = (Row(id=str(seed), status="finished", group="g", seed=seed, score=0.8 + seed / 100, train_s=1.0)
        ...             for seed in (0, 1))
        >>> group_by_settings([one, two])[["seeds", "score"]].round(3).to_numpy().tolist()
        [[2.0, 0.805]]
    """
    import pandas as pd

    groups: dict[str, list[Row]] = {}  # key of the group -> its runs, one per seed
    for row in rows:
        if row.status == "finished" and row.score is not None:
            groups.setdefault(row.group, []).append(row)
    names = ("system", "said", "graph", "model", "workers", "link", "epochs")
    table_rows = []
    for members in groups.values():
        means = {value: _mean(members, value) for value in ("score", "train_s", "bytes_sent")}
        table_rows.append(
            {
                **{name: getattr(members[0], FIELD_OF_COLUMN.get(name, name)) for name in names},
                "seeds": len({member.seed for member in members}),
                "score": means["score"][0],
                "score_half": means["score"][1],
                "train_s": means["train_s"][0],
                "train_half": means["train_s"][1],
                "bytes_sent": means["bytes_sent"][0],
                "runs": tuple(member.id for member in members),
            }
        )
    columns = [*names, "seeds", "score", "score_half", "train_s", "train_half", "bytes_sent", "runs"]
    return pd.DataFrame(table_rows, columns=columns)


def format_groups(groups: DataFrame) -> DataFrame:
    """Return groups as a readable table: one row per setting, means ± half-widths of intervals, units in the titles.

    Args:
        groups: table of `group_by_settings`.
    """
    import pandas as pd

    names = [f"{system} ({words})" if words else system for system, words in zip(groups["system"], groups["said"])]
    # Settings that all groups share need no column.
    columns = {name: groups[name].tolist() for name in ("model", "workers", "link") if groups[name].nunique() > 1}
    columns["seeds"] = groups["seeds"].tolist()
    for title, value, half, factor in (
        ("test (%)", "score", "score_half", 100),
        ("total (s)", "train_s", "train_half", 1),
    ):
        columns[title] = [_with_half(factor * mean, factor * error) for mean, error in zip(groups[value], groups[half])]
    columns["sent (kB/epoch)"] = [f"{num_bytes / 1e3:.1f}" for num_bytes in groups["bytes_sent"]]
    return pd.DataFrame(columns, index=pd.Index(names, name="setting"))


def _with_half(mean: float, half: float) -> str:
    return f"{mean:.2f}" + ("" if math.isnan(half) else f" ± {half:.2g}")


def _mean(members: Sequence[Row], value: str) -> tuple[float, float]:
    """Return the mean of known values and the half-width of its 95 % interval, NaN for a single value."""
    known_values = [float(number) for member in members if (number := getattr(member, value)) is not None]
    if not known_values:
        return math.nan, math.nan
    mean, half = interval(known_values)
    return mean, half if len(known_values) > 1 else math.nan  # one value has no interval


def _words(recipe: Any, system: Mapping[str, Any]) -> str:
    """Return the settings of a recipe and the parts that replaced its own, as text."""
    if not isinstance(recipe, Mapping):
        return ""
    settings = [f"{name} {value}" for name, value in recipe.items() if name not in ("name", "replaced")]
    return ", ".join([*settings, *(_part_text(axis, system[axis]) for axis in recipe.get("replaced", ()))])


def _part_text(axis: str, value: Any) -> str:
    try:
        text = words_of(axis, part_from_json(axis, value))
    except ValueError:  # a part of a module that is not imported here
        text = None
    return text or f"{axis} replaced"


def _link(launch: Mapping[str, Any]) -> str:
    return str(launch.get("link") or "") if (launch.get("hosts") or 1) > 1 else ""


def _number(value: Any) -> float | None:
    """Return a finite number, else None."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _curve(run: Run) -> tuple[float, ...]:
    """Return the validation scores of a run, thinned; empty if there are none yet."""
    try:
        records = run.records
    except (OSError, ValueError):
        return ()
    if "val_score" not in records:
        return ()
    # Of one worker; all record the same scores.
    scores = records[records["rank"] == records["rank"].min()]["val_score"].dropna().tolist()
    step = max(-(-len(scores) // _POINTS), 1)  # rounded up
    thinned_scores = [*scores[::step], *([scores[-1]] if scores and (len(scores) - 1) % step else [])]
    return tuple(round(float(score), 4) for score in thinned_scores)
