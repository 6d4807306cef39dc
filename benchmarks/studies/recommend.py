"""Recommended systems compared with the systems ranked next, by measured time to Vanilla's accuracy.

Each case is a graph, a link and a number of workers on two emulated hosts. One probe ranks all systems; then Vanilla,
the recommended system and the best of the other systems train completely, once per seed. The target of a seed is
Vanilla's best validation score with that seed, less half a point. A system that misses it with some seeds has the mean
seconds of the others divided by their share, as if a missed training were repeated.

Goals: the recommended system is within 10 % of the best in four of five cases, never more than 5 % slower than Vanilla,
and predicted epochs are within 15 % of measured ones in the median.

Rankings and trainings are stored, so the table can be interrupted, resumed, and measured in parts (``--graph``,
``--link``, ``--workers``); what is missing of the whole grid is printed.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engine.graphs import find_graphs
from benchmarks.engine.rows import row
from benchmarks.engine.trained import train_each
from gnnqlab.atomic import write_text
from gnnqlab.study import Contestant, RunResult
from gnnqlab.study.result import MARGIN

__all__ = ["case_rows", "recommend", "seconds_to_accuracy", "summary_rows"]

GRAPHS = ("amazon_computers", "coauthor_physics", "tolokers", "sbm:20000,8,20")
LINKS = ("100mbit", "1gbit")
WORKERS = (2, 4)
SHAPE: Mapping[str, Any] = {"layers": 3, "hidden": 64, "dropout": 0.5, "lr": 0.01, "timeline_every": 0}
EPOCHS, EVERY = 100, 2
"""Epochs of a training, and between evaluations, whose time is not counted."""
RIVALS = 5
"""Number of the best-ranked systems that train with Vanilla, the recommended one included."""
NEAR, SLOWER, ERROR, CASES = 0.10, 0.05, 0.15, 0.8
"""Goals: distance from the best, from Vanilla, error of predicted epochs; share of cases near the best."""


def recommend(
    *,
    graph: str | None = None,
    link: str | None = None,
    hosts: int = 2,
    workers: tuple[int, ...] = WORKERS,
    systems: Sequence[str] | None = None,
    epochs: int = EPOCHS,
    seeds: int = 3,
    first_seed: int = 0,
    trainings: str = "runs/bench-recommend",
) -> list[dict[str, Any]]:
    """Rank, train and compare.

    Args:
        graph: names or paths, separated by semicolons; by default those of ``GRAPHS`` that exist here.
        link: rates separated by commas; ``LINKS`` by default.
        hosts: number of emulated hosts.
        workers: numbers of workers.
        systems: systems to rank; all by default.
        epochs: of each training.
        seeds: trainings of each system.
        first_seed: first of the consecutive seeds.
        trainings: folder of stored rankings and trainings; those in it are not repeated.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`; the last three are those of the goals.

    Raises:
        ValueError: if a graph or a system is unknown, or there is no seed.
    """
    links = LINKS if link is None else tuple(link.split(","))
    rows: list[dict[str, Any]] = []
    measured = set()
    for source in find_graphs(graph, GRAPHS, between=";"):
        for rate in links:
            for count in workers:
                place = {"workers": count, "hosts": hosts, "link": rate}
                ranking = _ranking(source, place, systems, Path(trainings))
                (results,) = train_each(
                    [_contestant(entry) for entry in ranking["options"]],
                    graphs=[source],
                    models=["gcn"],
                    baseline="vanilla",
                    seeds=seeds,
                    first_seed=first_seed,
                    folder=trainings,
                    epochs=epochs,
                    evaluate_every=EVERY,
                    **SHAPE,
                    **place,
                ).values()
                name = Path(source).stem if source.endswith(".npz") else source
                measured.add((name, rate, count))
                case = f"{name}, gcn, {count} workers on {hosts} hosts over {rate}, {epochs} epochs, {seeds} seed(s)"
                rows += case_rows(case, ranking, results)
    missing = [
        f"{name}, {rate}, {count} workers"
        for name in GRAPHS
        for rate in LINKS
        for count in WORKERS
        if (name, rate, count) not in measured
    ]
    if missing:
        total = len(GRAPHS) * len(LINKS) * len(WORKERS)
        print(f"bench recommend: {len(missing)} of {total} cases are missing: {'; '.join(missing)}", flush=True)
    return [*rows, *summary_rows(rows)]


def case_rows(
    case: str, ranking: Mapping[str, Any], results: Mapping[str, Sequence[RunResult]]
) -> list[dict[str, Any]]:
    """Return the rows of one case: time to accuracy, predicted epochs, and the recommended system relative to the best.

    Args:
        case: first column.
        ranking: ``best`` (label) and ``options``, each with ``label`` and ``predicted_s``.
        results: label -> trainings of the same seeds in the same order, with ``vanilla``.
    """
    targets = [training.best - MARGIN for training in results["vanilla"]]
    seconds = {label: seconds_to_accuracy(trainings, targets) for label, trainings in results.items()}
    rows = []
    for entry in ranking["options"]:
        label = entry["label"]
        epoch_s = statistics.fmean(training.settled_s() for training in results[label])
        rows.append(
            row(case, "predicted epoch", entry["predicted_s"], "s", "measured", epoch_s, None, contestant=label)
        )
        rows.append(
            _compared(
                case, "time to Vanilla's accuracy", seconds[label], "vanilla", seconds["vanilla"], contestant=label
            )
        )
    best = min(seconds, key=lambda label: seconds[label])
    chosen = ranking["best"]
    rows.append(
        _compared(case, "recommended", seconds[chosen], "best", seconds[best], detail=f": {chosen}, best {best}")
    )
    rows.append(_compared(case, "recommended", seconds[chosen], "vanilla", seconds["vanilla"], detail=f": {chosen}"))
    return rows


def seconds_to_accuracy(trainings: Sequence[RunResult], targets: Sequence[float]) -> float:
    """Return the mean seconds to the targets, divided by the share of trainings that reach theirs; infinite if none.

    Example:
        >>> reaching = RunResult(score=0.9, curve=((1, 2.0, 0.9),))
        >>> missing = RunResult(score=0.8, curve=((1, 2.0, 0.8),))
        >>> seconds_to_accuracy([reaching, missing], [0.85, 0.85]), seconds_to_accuracy([missing], [0.85])
        (4.0, inf)
    """
    seconds = [training.seconds_to(target) for training, target in zip(trainings, targets, strict=True)]
    reached = [value for value in seconds if not math.isnan(value)]
    return statistics.fmean(reached) * len(seconds) / len(reached) if reached else math.inf


def summary_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the goals: cases near the best, worst case relative to Vanilla, error of predicted epochs."""
    near = [each["ratio"] for each in rows if each["metric"] == "recommended" and each["rival"] == "best"]
    beside = [each["ratio"] for each in rows if each["metric"] == "recommended" and each["rival"] == "vanilla"]
    errors = [abs(each["value"] / each["rival_value"] - 1) for each in rows if each["metric"] == "predicted epoch"]
    if not near:
        return []
    case, error, detail = "all cases", statistics.median(errors), f" ({len(near)} measured)"
    share = sum(ratio >= 1 / (1 + NEAR) for ratio in near) / len(near)
    least = min(beside)
    goals = (
        ("recommended within 10 % of the best", share, "1", CASES, share / CASES),
        ("recommended relative to Vanilla, least speed-up", least, "×", 1 / (1 + SLOWER), least * (1 + SLOWER)),
        ("median error of predicted epochs", error, "1", ERROR, ERROR / max(error, 1e-9)),
    )
    return [
        row(case, metric, value, unit, "goal", goal, ratio, 1.0, detail=detail)
        for metric, value, unit, goal, ratio in goals
    ]


def _compared(
    case: str, metric: str, seconds: float, rival: str, rival_seconds: float, *, detail: str = "", contestant: str = ""
) -> dict[str, Any]:
    """Return a row of two times; a time that was not reached has no value, and ratio 0."""
    reached = math.isfinite(seconds)
    ratio = rival_seconds / seconds if reached and math.isfinite(rival_seconds) else float(reached)
    value = seconds if reached else None
    words = detail if reached else f"{detail}: not reached"
    return row(case, metric, value, "s", rival, rival_seconds, ratio, detail=words, contestant=contestant)


def _ranking(source: str, place: Mapping[str, Any], systems: Sequence[str] | None, folder: Path) -> dict[str, Any]:
    """Return the stored ranking of a case, or probe and store it, so that a resumed table trains the same systems."""
    path = folder / "rankings.json"
    stored: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    key = json.dumps([Path(source).name, dict(place), systems, dict(SHAPE)], sort_keys=True)
    if key not in stored:
        from gnnqlab.tune.recommendation import recommend as rank_all
        from gnnqlab.tune.recommendation.ranking import first_of_each_system

        found = rank_all(source, model="gcn", systems=systems, **place, **SHAPE)
        firsts = first_of_each_system(found.options)
        options = {found.vanilla.label: found.vanilla, found.best.label: found.best}
        options |= {
            each.label: each for each in firsts if each.candidate.name not in ("vanilla", found.best.candidate.name)
        }
        entries = [
            {
                "name": each.candidate.name,
                "partition": each.candidate.partition,
                "services": each.candidate.services,
                "predicted_s": each.forecast.epoch_s,
            }
            for each in list(options.values())[: RIVALS + 1]
        ]
        entries = [{**entry, "label": _contestant(entry).label} for entry in entries]
        best = next(e for e, o in zip(entries, options.values()) if o is found.best)
        stored[key] = {"best": best["label"], "options": entries, "pays": found.pays, "reason": found.reason}
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(stored, indent=1))
    ranking: dict[str, Any] = stored[key]
    return ranking


def _contestant(entry: Mapping[str, Any]) -> Contestant:
    from dataclasses import replace

    from gnnqlab.systems import make_system
    from gnnqlab.systems.parts import PARTS

    system, partition = make_system(entry["name"]), entry["partition"]
    if partition:
        system = replace(system, partition=PARTS["partition"][partition]())
    name = entry["name"] + (f" on {partition}" if partition else "")
    return Contestant(name=name, system=system, services="every" if entry["services"] else "published")
