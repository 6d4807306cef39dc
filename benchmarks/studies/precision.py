"""Precision of messages combined with precision of products: systems with few bits, each with every kind of products.

No paper combines them: AdaQP, SYLVIE and CDFGNN quantize messages and multiply in float32, TANGO multiplies codes on
one device. Each system trains completely with each kind of products, over the same emulated link, on the same
partition, from the same weights, once per seed; all values of a line come from these trainings. Each training is
stored, so a table of hours can be interrupted and resumed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.engine.graphs import graph_or_digits
from benchmarks.engine.rows import paired_difference, require_among
from benchmarks.engine.trained import TrainingOptions, mean_of, study_rows
from benchmarks.studies.systems import EVERY, SHAPE, table

if TYPE_CHECKING:
    from gnnqlab.study import RunResult
    from gnnqlab.systems.system import System

__all__ = ["COMPUTES", "SYSTEMS_COMPARED", "compare_with_float32", "lines", "precision", "format_rows"]

GRAPH = "amazon_computers"
"""Default graph; ``digits`` if it is missing."""
SYSTEMS_COMPARED = ("vanilla", "adaqp", "sylvie", "cdfgnn")
COMPUTES = ("float32", "bfloat16", "int8")
EPOCHS = 150
"""Number of epochs, as in the table of systems."""


def lines(systems: Sequence[str] = SYSTEMS_COMPARED, computes: Sequence[str] = COMPUTES) -> dict[str, System]:
    """Return line -> system: every recipe with every kind of products, always with Vanilla and float32.

    Raises:
        ValueError: if a name is unknown.

    Example:
        >>> list(lines(["adaqp"], ["int8"]))
        ['vanilla', 'vanilla, int8', 'adaqp', 'adaqp, int8']
    """
    from gnnqlab.systems import SYSTEMS, make_system
    from gnnqlab.systems.parts import PARTS

    require_among("systems", systems, sorted(SYSTEMS))
    require_among("computes", computes, sorted(PARTS["compute"]))
    systems_by_line: dict[str, System] = {}
    for recipe in dict.fromkeys(["vanilla", *systems]):
        for compute in dict.fromkeys(["float32", *computes]):
            name, part = _name(recipe, compute), PARTS["compute"][compute]()
            systems_by_line[name] = dataclasses.replace(make_system(recipe), name=name, compute=part)
    return systems_by_line


def _name(recipe: str, compute: str) -> str:
    return recipe if compute == "float32" else f"{recipe}, {compute}"


def precision(
    *,
    models: Sequence[str] = ("gcn",),
    systems: Sequence[str] = SYSTEMS_COMPARED,
    computes: Sequence[str] = COMPUTES,
    hosts: int = 2,
    link: str | None = None,
    comm_share: float | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Train every system with every kind of products; compare each with Vanilla, and with itself in float32.

    Args:
        models: names of models, in the shape of ``bench systems``.
        systems: recipes, as published; Vanilla is always included.
        computes: names of kinds of products; float32 is always included.
        hosts: number of emulated hosts; 1 for the loopback.
        link, comm_share: see :func:`benchmarks.studies.systems.systems`.
        **options: see :class:`benchmarks.engine.trained.TrainingOptions`; by default ``amazon_computers``, or
            ``digits`` if it is missing, and ``EPOCHS``.

    Returns:
        One row per line, as in ``bench systems``; further columns compare it with the same system in float32.

    Raises:
        ValueError: if there is no seed, or a model, system or kind of products is unknown.
    """
    run_options = TrainingOptions(**{"trainings": "runs/bench-precision", **options})
    if link is None and comm_share is None:
        comm_share = 0.75
    link_settings: dict[str, Any] = {"hosts": hosts, "link": link, "comm_share": comm_share} if hosts > 1 else {}
    place = "over {link}" if link_settings else "over the loopback"
    return study_rows(
        _table,
        lines(systems, computes),
        case=f"{{graph}}, {{model}}, {{workers}} workers {place}, {{epochs}} epochs, {{seeds}}",
        graphs=[graph_or_digits(run_options.graph, GRAPH)],
        models=models,
        **run_options.merge_into({**SHAPE, **link_settings, "epochs": EPOCHS, "evaluate_every": EVERY}),
    )


def _table(case: str, trainings: Mapping[str, Sequence[RunResult]]) -> list[dict[str, Any]]:
    return [{**each, **compare_with_float32(each["contestant"], trainings)} for each in table(case, trainings, {})]


def compare_with_float32(line: str, found: Mapping[str, Sequence[RunResult]]) -> dict[str, Any]:
    """Compare a line with the same system with float32 products, over the same seeds.

    Args:
        line: name of the line.
        found: line -> trainings.
    """
    from gnnqlab.systems import SYSTEMS
    from gnnqlab.systems.parts import PARTS

    parts = {_name(recipe, compute): (recipe, compute) for recipe in SYSTEMS for compute in PARTS["compute"]}
    recipe, compute = parts[line]
    trainings, rival_trainings = found[line], found[recipe]
    points = paired_difference(
        [training.score for training in trainings], [training.score for training in rival_trainings]
    )
    return {
        "messages": recipe,
        "products": compute,
        "faster_than_float32": mean_of(rival_trainings, "train_s") / mean_of(trainings, "train_s"),
        "float32_points": points.points,
        "float32_half_interval": points.half,
        "rounded_twice": mean_of(trainings, "rounded_twice"),
    }


def format_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the table as formatted text, one row per line."""
    from benchmarks.studies.systems import format_rows as format_systems

    columns = ("case", "total", "to target", "test", "beside vanilla", "sent an epoch", "bits", "memory")
    cells = format_systems([{"schedule": "", "parameters": "", "weight gradients": "", **each} for each in rows])
    return [
        {
            "case": line["case"],
            "messages": entry["messages"],
            "products": entry["products"],
            **{name: line[name] for name in columns if name != "case"},
            "beside float32": f"{entry['faster_than_float32']:.2f}x, {entry['float32_points']:+.2f} ± "
            f"{entry['float32_half_interval']:.2f} points",
            "rounded twice": f"{100 * entry['rounded_twice']:.1f} %",
        }
        for line, entry in zip(cells, rows, strict=True)
    ]
