"""Comparison of all systems: total time, time to accuracy, accuracy and bytes of the same trainings.

AdaQP Tables 4, 5 and 9 and SYLVIE Table VII in one: each system trains completely over the same emulated link, on the
same partition, from the same weights, once per seed, and all values of its line come from these trainings. Each has two
lines. The first is the system as published. The second, with a ``+``, has every service of this library that does not
change its idea (``systems/services.py``), so that ideas are compared and not services.

Column ``ceiling`` is the most that any way of sending messages could gain, see :func:`ceiling`. Each training is
stored, so a table of hours can be interrupted and resumed.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.engine.graphs import find_graph, find_graphs
from benchmarks.engine.rows import half_interval, paired_difference, row
from benchmarks.engine.trained import TrainingOptions, mean_of, study_rows
from gnnqlab.study import Contestant, RunResult
from gnnqlab.study.result import MARGIN

__all__ = [
    "EVERY", "GRAPHS", "SHAPE", "SYSTEMS_COMPARED", "ceiling", "contestants", "format_rows", "services_by_label",
    "systems", "table",
]  # fmt: skip

SYSTEMS_COMPARED = ("vanilla", "random-bits", "adaqp", "pipegcn", "bns-gcn", "sylvie")
"""Default recipes of the table."""
GRAPHS = ("coauthor_physics", "amazon_computers", "tolokers")
"""Real graphs: sparse with many features, dense with many, and dense with ten; ``digits`` if none exists here."""
SHAPE: Mapping[str, Any] = {"layers": 3, "hidden": 256, "dropout": 0.5, "lr": 0.01, "timeline_every": 0}
"""Settings of AdaQP Table 8 for Reddit: GCN and GraphSAGE with 3 layers of 256 columns."""
EPOCHS = 150
"""Enough for three assignments of AdaQP and for SYLVIE's bit-widths to converge."""
EVERY = 5
"""Epochs between evaluations, the same for every system."""


def systems(
    *,
    models: Sequence[str] = ("gcn", "graphsage"),
    systems: Sequence[str] | None = None,
    hosts: int = 2,
    link: str | None = None,
    comm_share: float | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Train every system on every graph, and compare the trainings with Vanilla's.

    Args:
        models: names of models, in the shape of AdaQP Table 8.
        systems: recipes; by default ``SYSTEMS_COMPARED``. A name with ``+`` selects only the line with every service, a
            name without it both lines. Vanilla is always included.
        hosts: number of emulated hosts.
        link: rate of each host's link.
        comm_share: alternatively, share of communication in the epoch of Vanilla as published; 0.75 if neither is set.
            The rate is calibrated once per graph, model and number of workers, and stored.
        **options: see :class:`benchmarks.engine.trained.TrainingOptions`; several graphs are separated by commas, by
            default those of ``GRAPHS`` that exist here, else ``digits``, and ``EPOCHS``.

    Returns:
        One row per line: its total time compared with Vanilla's as published, and further results in columns. Values
        are means over seeds; differences are paired by seed, with 95 % intervals.

    Raises:
        ValueError: if there is no seed, or a graph, model or system is unknown.
    """
    if link is None and comm_share is None:
        comm_share = 0.75
    lines = contestants(SYSTEMS_COMPARED if systems is None else systems)
    run_options = TrainingOptions(**{"trainings": "runs/bench-systems", **options})
    link_settings = {"hosts": hosts, "link": link, "comm_share": comm_share}
    services = services_by_label(lines)
    return study_rows(
        lambda case, results: table(case, results, services),
        lines,
        case="{graph}, {model}, {workers} workers over {link}, {epochs} epochs, {seeds}",
        graphs=_sources(run_options.graph),
        models=models,
        **run_options.merge_into({**SHAPE, "epochs": EPOCHS, "evaluate_every": EVERY, **link_settings}),
    )


def contestants(names: Sequence[str]) -> list[Contestant]:
    """Return the lines of the table, first Vanilla as published; both lines for a name without ``+``.

    Raises:
        ValueError: if a name is unknown.

    Example:
        >>> [line.label for line in contestants(["sylvie", "bns-gcn+"])]
        ['vanilla', 'vanilla+', 'sylvie', 'sylvie+', 'bns-gcn+']
    """
    from gnnqlab.systems import SYSTEMS, make_system

    unknown_names = sorted({name.removesuffix("+") for name in names} - set(SYSTEMS))
    if unknown_names:
        raise ValueError(f"systems must be among {sorted(SYSTEMS)}, with or without a +, got {unknown_names}")
    lines: dict[str, Contestant] = {}
    for name in ("vanilla", *names):
        recipe = name.removesuffix("+")
        for services in ("every",) if name.endswith("+") else ("published", "every"):
            line = Contestant(name=recipe, system=make_system(recipe), services=services)
            lines.setdefault(line.label, line)
    return list(lines.values())


def _sources(graph: str | None) -> list[str]:
    for name in (name for name in GRAPHS if graph is None and find_graph(name) is None):
        print(f"bench systems: {name}.npz is missing, so it is omitted", file=sys.stderr, flush=True)
    return find_graphs(graph, GRAPHS, between=",")


def services_by_label(lines: Sequence[Contestant]) -> dict[str, dict[str, str]]:
    """Return the services of each line by its label."""
    from gnnqlab.systems.services import services_of

    settings = {line.label: line.settings() for line in lines}
    return {label: services_of(each["system"], each.get("gradients", "float32")) for label, each in settings.items()}


def ceiling(vanilla: Sequence[RunResult]) -> float:
    """Compute the largest speed-up that any way of sending messages can have over these trainings of Vanilla.

    The epoch over the epoch without messages: computation and the all-reduce of weight gradients remain. It holds for
    lines without a ``+``; those with one also send gradients in bfloat16.

    Example:
        >>> one = RunResult(score=0.9, computation_s=1.0, communication_s=3.0, gradients_s=1.0)
        >>> ceiling([one])  # 4 s of an epoch, 2 of which are messages
        2.0
    """
    computation_s, gradients_s = mean_of(vanilla, "computation_s"), mean_of(vanilla, "gradients_s")
    return (computation_s + mean_of(vanilla, "communication_s")) / (computation_s + gradients_s)


def table(
    case: str, found: Mapping[str, Sequence[RunResult]], services: Mapping[str, Mapping[str, str]]
) -> list[dict[str, Any]]:
    """Return one row per line of one graph and model.

    The target of a seed is Vanilla's best validation score with that seed, less ``MARGIN``. Seconds to it are the mean
    over the seeds that reach it, in column ``reached_by``; the speed-up is over the same seeds.

    Args:
        case: first column.
        found: line -> trainings of the same seeds in the same order, with ``vanilla``.
        services: line -> its services.
    """
    vanilla = found["vanilla"]
    targets = [training.best - MARGIN for training in vanilla]
    total_s, most = mean_of(vanilla, "train_s"), ceiling(vanilla)
    rows = []
    for name, trainings in found.items():
        train_s = mean_of(trainings, "train_s")
        target_s = [training.seconds_to(target) for training, target in zip(trainings, targets, strict=True)]
        reached_s = [seconds for seconds in target_s if not math.isnan(seconds)]
        rival_s = [
            training.seconds_to(target)
            for training, target, seconds in zip(vanilla, targets, target_s)
            if not math.isnan(seconds)
        ]
        rows.append(
            {
                **row(case, "", train_s, "s", "vanilla", total_s, total_s / train_s, contestant=name),
                **services.get(name, {}),
                "ceiling": None if math.isnan(most) else most,
                "to_target_s": _mean(reached_s),
                "faster_to_target": _mean(rival_s) / _mean(reached_s),
                "reached_by": len(reached_s),
                "seeds": len(trainings),
                "epochs_per_s": sum(training.epochs for training in trainings)
                / sum(training.train_s for training in trainings),
                "settled_s": statistics.fmean(training.settled_s() for training in trainings),
                **_scores(trainings, vanilla),
                "bytes_per_epoch": mean_of(trainings, "bytes_sent"),
                "bits": mean_of(trainings, "bits"),
                "stale": mean_of(trainings, "stale"),
                "assign_share": mean_of(trainings, "assign_s") / train_s,
                "assign_cpu_s": mean_of(trainings, "assign_cpu_s"),
                "memory_bytes": max(training.memory_bytes for training in trainings),
            }
        )
    return rows


def _scores(trainings: Sequence[RunResult], vanilla: Sequence[RunResult]) -> dict[str, float]:
    """Return test score in per cent, and its difference from Vanilla's in points, with half the 95 % intervals."""
    scores, rival_scores = [training.score for training in trainings], [training.score for training in vanilla]
    points = paired_difference(scores, rival_scores)
    return {
        "score": 100 * statistics.fmean(scores),
        "score_half": 100 * half_interval(scores),
        "points": points.points,
        "half_interval": points.half,
    }


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else math.nan


def format_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the table as formatted text, one row per line."""
    from gnnqlab.units import human_bytes

    def with_speed_up(seconds: float, times: float) -> str:
        return "not reached" if math.isnan(seconds) else f"{seconds:.2f} s, {times:.2f}x"

    return [
        {
            "case": entry["case"],
            "system": entry["contestant"],
            **{column: str(entry[column]) for column in ("schedule", "parameters", "weight gradients")},
            "total": with_speed_up(entry["value"], entry["ratio"]),
            "to target": with_speed_up(entry["to_target_s"], entry["faster_to_target"])
            + ("" if entry["reached_by"] in (0, entry["seeds"]) else f" ({entry['reached_by']} of {entry['seeds']})"),
            "ceiling": f"{entry['ceiling']:.2f}x" if entry.get("ceiling") else "",  # older rows have none
            "epochs/s": f"{entry['epochs_per_s']:.2f}",
            "settled epoch": f"{1000 * entry['settled_s']:.1f} ms",
            "test": f"{entry['score']:.2f} ± {entry['score_half']:.2f} %",
            "beside vanilla": f"{entry['points']:+.2f} ± {entry['half_interval']:.2f} points",
            "sent an epoch": human_bytes(entry["bytes_per_epoch"]),
            "bits": f"{entry['bits']:.2f}",
            "stale": f"{100 * entry['stale']:.0f} %",
            "assigning": f"{100 * entry['assign_share']:.2f} % + {entry['assign_cpu_s']:.2f} s",
            "memory": human_bytes(entry["memory_bytes"]),
        }
        for entry in rows
    ]
