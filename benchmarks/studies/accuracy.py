"""Accuracy of SYLVIE: Tables VII (every model), X (bit-widths) and XI (staleness).

Every contestant is a recipe or a recipe with one axis replaced; all start from the same weights on the same partition,
two workers without a link, one seed after another. Differences are paired by seed, with a 95 % interval. Results do not
depend on a link, except that SYLVIE's rule (Eq. 5) divides by the seconds of an epoch: its decisions differ between
machines and between runs.

Differs: the paper's graphs have 0.2 to 2.4 million nodes and train for up to 2000 epochs. Here every model trains on
coauthor_physics, where 40 epochs are enough and differences are known to 0.1 or 0.2 points. No two systems differ
there, so bit-widths and staleness are compared on amazon_computers, which is dense and takes 120 epochs. Staleness in
every epoch costs points there even with two workers. For the cost of one bit with eight workers, where most neighbours
are remote, over twelve seeds, see :mod:`benchmarks.studies.codec_trainings`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.engine.graphs import find_graph
from benchmarks.engine.rows import MIN_POINTS, paired_difference, require_among, row, score_row
from benchmarks.engine.trained import TrainingOptions, mean_of, scores_of, study_rows

if TYPE_CHECKING:
    from gnnqlab.study import RunResult
    from gnnqlab.systems.system import System

__all__ = ["CASE", "MODELS", "accuracy", "contestants", "table"]

CASE = "{graph}, {model} {layers} x {hidden}, {epochs} epochs, {workers} workers, {seeds}"
"""Format of the first column, shared by studies of the same kind of training."""

MODELS: Mapping[str, Mapping[str, Any]] = {
    "gcn": {"layers": 3, "dropout": 0.3},
    "graphsage": {"layers": 3, "dropout": 0.3},
    "gat": {"layers": 2, "dropout": 0.3},
    "gcnii": {"layers": 8, "dropout": 0.3},
    "dagnn": {"layers": 8, "dropout": 0.3},
    "sgc": {"layers": 6, "dropout": 0.0},
    "jknet": {"layers": 6, "dropout": 0.3},
}
"""Depths of SYLVIE Table VI, with 6 for "6 or 8"."""
BESIDE = {"hidden": 16, "lr": 0.02, "epochs": 40, "evaluate_every": 4, "timeline_every": 0}
"""Settings of the comparison of models; Vanilla is near its plateau at the end."""
ABLATED: Mapping[str, Any] = {
    "model": "graphsage", "layers": 3, "hidden": 32, "dropout": 0.0, "lr": 0.005, "epochs": 120, "evaluate_every": 5,
    "timeline_every": 0,
}  # fmt: skip
"""Settings of the ablations of Tables X and XI, with GraphSAGE."""
GRAPHS = ("coauthor_physics", "amazon_computers")
"""Graph of the models, and of the ablations; ``digits`` replaces a missing one."""
POINTS = 0.5
"""Goal: largest difference between a model and Vanilla, in points."""


def contestants() -> dict[str, System]:
    """Return the systems by name; those without a pipeline in their name are synchronous, except ``sylvie``.

    Fixed bit-widths have SYLVIE's codec, with scale and zero-point in bfloat16. ``sylvie-printed`` is the other reading
    of Eq. 5, without a goal.
    """
    from gnnqlab.exchange.schedules.pipeline import Pipelined
    from gnnqlab.exchange.schedules.schedule import Overlapped
    from gnnqlab.systems import fixed_bits, sylvie, vanilla

    sylvie_system, adaptive_schedule, pipeline = sylvie(), sylvie().schedule, Pipelined()
    fixed_systems = {bits: fixed_bits(bits=bits, parameters="bfloat16") for bits in (8, 4, 2, 1)}
    return {
        "vanilla": vanilla(),
        **{f"{bits}-bit": system for bits, system in fixed_systems.items()},
        "adaptive-bits": replace(sylvie_system, schedule=Overlapped()),  # SYLVIE's bits without its pipeline
        "sylvie": sylvie_system,
        "sylvie-printed": sylvie(formula="printed"),
        "adaptive-bits-pipelined": replace(sylvie_system, schedule=pipeline),
        "1-bit-adaptive-pipeline": replace(fixed_systems[1], schedule=adaptive_schedule),
        "1-bit-pipelined": replace(fixed_systems[1], schedule=pipeline),
        "32-bit-adaptive-pipeline": replace(vanilla(), schedule=adaptive_schedule),
        "32-bit-pipelined": replace(vanilla(), schedule=pipeline),
    }


ORDER = (
    ("adaptive-bits", "1-bit"),
    ("sylvie", "adaptive-bits-pipelined"),
    ("1-bit-adaptive-pipeline", "1-bit-pipelined"),
    ("32-bit-adaptive-pipeline", "32-bit-pipelined"),
)
"""(the better one, the other), as in Table X and, by bit-width, in Table XI."""
UNASKED = (("adaptive-bits", "2-bit"), ("sylvie", "2-bit"))
"""Pairs without a goal, which no paper compares: the adaptive system sends three times the bits."""


def accuracy(
    *,
    models: Sequence[str] = tuple(MODELS),
    systems: Sequence[str] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Train every model with Vanilla and SYLVIE, and one of them with every contestant.

    Args:
        models: models to train with Vanilla and SYLVIE, if ``systems`` has it; ablations need ``graphsage``.
        systems: some of :func:`contestants`; by default all.
        **options: see :class:`benchmarks.engine.trained.TrainingOptions`; by default the graphs are ``GRAPHS``, or
            ``digits`` if these are missing.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`, values in per cent; a row that compares also has ``points``, ours
        above the rival's, and ``half_interval``.

    Raises:
        ValueError: if a model or a system is unknown, there is no seed, or nothing to compare.
    """
    known_systems = contestants()
    systems = tuple(known_systems) if systems is None else systems  # all systems
    require_among("models", models, MODELS)
    require_among("systems", systems, known_systems)
    run_options = TrainingOptions(**{"trainings": "runs/bench-accuracy", **options})
    # Vanilla is always trained: the others are compared with it
    chosen_names = [name for name in known_systems if name in ("vanilla", *systems)]
    model_graph, ablation_graph = _graphs() if run_options.graph is None else (run_options.graph, run_options.graph)
    cases: list[tuple[str, dict[str, Any], list[str]]] = []
    if "sylvie" in chosen_names:
        # Table VII: every model, Vanilla and SYLVIE only.
        cases += [(model_graph, {"model": model, **BESIDE, **MODELS[model]}, ["vanilla", "sylvie"]) for model in models]
    if ABLATED["model"] in models and set(chosen_names) - {"vanilla", "sylvie"}:
        # Tables X and XI: one model, all contestants.
        cases.append((ablation_graph, {**ABLATED}, chosen_names))
    if not cases:
        raise ValueError(
            f"there must be something to compare with Vanilla, got models {list(models)} and systems {list(systems)}; "
            f"name sylvie, or model {ABLATED['model']}, which is trained with every system"
        )
    rows = []
    for source, settings, names in cases:
        rows += study_rows(
            table,
            {name: known_systems[name] for name in names},
            case=CASE,
            graphs=[source],
            models=[settings.pop("model")],
            **run_options.merge_into(settings),
        )
    return rows


def table(case: str, found: Mapping[str, Sequence[RunResult]]) -> list[dict[str, Any]]:
    """Return the rows of one model: every contestant compared with Vanilla, then the paper's order of systems.

    Args:
        case: first column.
        found: contestant -> trainings of the same seeds in the same order, with ``vanilla``.
    """
    rows = []
    for name in found:
        if name != "vanilla":
            # Only sylvie has a goal here; its parts have goals in the order of systems below.
            rows.append(_comparison_row(case, name, "vanilla", found, limit=POINTS if name == "sylvie" else None))
            if name.startswith(("sylvie", "adaptive-bits")):
                bits = mean_of(found[name], "bits")
                # bits per element, over all messages
                rows.append(row(case, "mean width of what travels", bits, "bits", "", None, None, contestant=name))
            if name.startswith("sylvie") or name.endswith("-adaptive-pipeline"):
                # share of stale epochs
                stale_share, metric = 100 * mean_of(found[name], "stale"), "epochs on rows of the epoch before"
                rows.append(row(case, metric, stale_share, "%", "", None, None, contestant=name))
    return rows + [
        _comparison_row(case, system, rival, found, order=(system, rival) in ORDER)
        for system, rival in (*ORDER, *UNASKED)  # pairs that were not trained are omitted
        if {system, rival} <= set(found)
    ]


def _comparison_row(
    case: str,
    name: str,
    rival: str,
    trainings: Mapping[str, Sequence[RunResult]],
    *,
    limit: float | None = None,
    order: bool = False,
) -> dict[str, Any]:
    scores, rival_scores = scores_of(trainings[name]), scores_of(trainings[rival])
    difference = paired_difference(scores, rival_scores)
    if difference.is_certain:  # the 95 % interval excludes zero
        remark = "" if rival != "vanilla" else ", a loss" if difference.points < 0 else ", a gain"
    else:
        remark = "" if rival == "vanilla" else ", within chance"
    # allowed points over measured ones; an exact tie would divide by zero
    ratio = limit / max(abs(difference.points), MIN_POINTS) if limit else None
    goal = 1.0 if limit or order else None
    return score_row(case, name, scores, rival, rival_scores, ratio=ratio, goal=goal, more=remark)


def _graphs() -> tuple[str, str]:
    paths = []
    for name in GRAPHS:
        path = find_graph(name)
        if path is None:
            print(f"bench accuracy: {name}.npz is missing, so digits is used instead", file=sys.stderr, flush=True)
        paths.append(path or "digits")
    return paths[0], paths[1]
