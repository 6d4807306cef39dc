"""Effect of better codes on whole trainings: test scores compared with Vanilla's, and bytes until its accuracy.

Each line is trained once per seed, from the same weights on the same partition, without a link; trainings are stored
and reused by the next call, so that hundreds can be trained in parts. Lines with ``-r`` have the bit policy, exchange
and schedule of those without, and encode each row in the code with less error; their rows take the same bytes, because
all have four bytes of quantization parameters at 1, 2 and 4 bits.

Bytes to Vanilla's accuracy are those sent in all epochs until the validation score first reaches Vanilla's best with
the same seed, less ``MARGIN``. Seeds in which either of two lines never reaches it are excluded from their ratio, and
counted.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine.graphs import find_graphs
from benchmarks.engine.rows import MIN_POINTS, half_interval, paired_difference, require_among, row, score_row
from benchmarks.engine.trained import TrainingOptions, mean_of, scores_of, study_rows
from benchmarks.studies.accuracy import CASE
from gnnqlab.study.result import MARGIN

if TYPE_CHECKING:
    from gnnqlab.study import RunResult
    from gnnqlab.systems.system import System

__all__ = ["GRAPHS", "LINES", "codec_trainings", "compare_lines", "lines"]

# Enough epochs for Vanilla; other systems train equally long.
GRAPHS: Mapping[str, int] = {"amazon_computers": 120, "coauthor_physics": 40, "cora": 60}
"""Graph -> epochs after which Vanilla is near its plateau; ``digits`` if none of them exists here."""
SETTINGS: Mapping[str, Any] = {
    "model": "graphsage", "layers": 3, "hidden": 32, "dropout": 0.0, "lr": 0.005, "evaluate_every": 2,
    "timeline_every": 0,
}  # fmt: skip
LINES = ("vanilla", "1-bit", "1-bit-r", "adaqp", "adaqp-r", "sylvie", "sylvie-r")
RIVALS: Mapping[str, tuple[str, ...]] = {
    "1-bit": ("adaqp", "sylvie"),
    "1-bit-r": ("1-bit", "adaqp", "sylvie"),
    "adaqp-r": ("adaqp",),
    "sylvie-r": ("sylvie",),
}
"""Line -> lines to compare its bytes with; a goal exists for better codes in the same system."""
POINTS = 0.3
"""Goal: largest loss of test score with fixed 1 bit in better codes, in points."""
FEWER = 1.5
"""Goal: least factor by which better codes reduce a system's bytes."""


def lines(names: Sequence[str] | None = None) -> dict[str, System]:
    """Return the systems of the table, always with Vanilla.

    Raises:
        ValueError: if a name is not in `LINES`.

    Example:
        >>> list(lines(["1-bit-r"]))
        ['vanilla', '1-bit-r']
    """
    from gnnqlab.message.codecs.least_variance import LeastVariance
    from gnnqlab.systems import adaqp, adaqp_r, fixed_bits, sylvie, sylvie_r, vanilla

    systems = {
        "vanilla": vanilla(),
        "1-bit": fixed_bits(bits=1, parameters="bfloat16"),
        "1-bit-r": replace(fixed_bits(bits=1), codec=LeastVariance()),
        "adaqp": adaqp(parameters="bfloat16"),
        "adaqp-r": adaqp_r(),
        "sylvie": sylvie(),
        "sylvie-r": sylvie_r(),
    }
    require_among("systems", names or (), systems)
    return {name: system for name, system in systems.items() if names is None or name in ("vanilla", *names)}


def codec_trainings(
    *,
    systems: Sequence[str] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Train every line and compare it with Vanilla, and lines with better codes with those without.

    Args:
        systems: some of `LINES`; by default all.
        **options: see :class:`benchmarks.engine.trained.TrainingOptions`; several graphs are separated by commas, by
            default those of `GRAPHS` that exist here, each with its number of epochs, and 8 workers.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`; those of scores also have ``points`` and ``half_interval``, and
        those of bytes ``low`` and ``high``, the ends of the ratio's 95 % interval.

    Raises:
        ValueError: if there is no seed, or a system is unknown.
    """
    # most neighbours are remote with 8 workers
    run_options = TrainingOptions(**{"workers": (8,), "trainings": "runs/bench-codecs", **options})
    chosen_systems, rows = lines(systems), []
    for source in find_graphs(run_options.graph, list(GRAPHS), between=","):
        settings = {**SETTINGS, "epochs": GRAPHS.get(Path(source).stem, 60)}
        rows += study_rows(
            compare_lines,
            chosen_systems,
            case=CASE,
            graphs=[source],
            models=[settings.pop("model")],
            **run_options.merge_into(settings),
        )
    return rows


def compare_lines(case: str, found: Mapping[str, Sequence[RunResult]]) -> list[dict[str, Any]]:
    """Return the rows of one graph.

    Args:
        case: first column.
        found: line -> trainings of the same seeds in the same order, with ``vanilla``.
    """
    vanilla, rows = found["vanilla"], []
    for name, trainings in found.items():
        if name == "vanilla":
            continue
        scores, rival_scores = scores_of(trainings), scores_of(vanilla)
        # scores have no ratio here
        rows.append({**score_row(case, name, scores, "vanilla", rival_scores), "ratio": None})
        if name == "1-bit-r":
            lost_points = paired_difference(scores, rival_scores).loss_at_most  # upper end of the loss's interval
            limit = ("allowed", POINTS, POINTS / max(lost_points, MIN_POINTS), 1.0)
            metric = "points of test score lost at most (95 %)"
            rows.append(row(case, metric, lost_points, "points", *limit, contestant=name))
        bits = mean_of(trainings, "bits")
        rows.append(row(case, "mean width of what travels", bits, "bits", "", None, None, contestant=name))
    # Vanilla's best validation score per seed, less a margin
    targets = [training.best - MARGIN for training in vanilla]
    for name, rivals in RIVALS.items():
        for rival in rivals:
            if {name, rival} <= set(found):
                # bytes per seed, NaN if never reached
                sent_bytes = [_bytes_to(found[line], targets) for line in (name, rival)]
                rows.append(
                    _bytes_row(case, name, rival, *sent_bytes, goal=FEWER if name.startswith(f"{rival}-") else None)
                )
    return rows


def _bytes_to(trainings: Sequence[RunResult], targets: Sequence[float]) -> list[float]:
    return [training.bytes_to(target) for training, target in zip(trainings, targets, strict=True)]


def _bytes_row(
    case: str, name: str, rival: str, seed_bytes: Sequence[float], rival_bytes: Sequence[float], *, goal: float | None
) -> dict[str, Any]:
    """Return the row of one pair; the ratio is the geometric mean over seeds in which both reach the accuracy."""
    # seeds in which both reach the accuracy
    common_pairs = [
        (value, rival_value)
        for value, rival_value in zip(seed_bytes, rival_bytes, strict=True)
        if not math.isnan(value + rival_value)
    ]
    metric = "bytes to Vanilla's accuracy"
    counts = [sum(not math.isnan(each) for each in values) for values in (seed_bytes, rival_bytes)]
    reach = f"{counts[0]} of {len(seed_bytes)} reach it, {rival} {counts[1]}"
    if not common_pairs:
        return row(case, metric, None, "MB", rival, None, None, goal, contestant=name, detail=f" ({reach})")
    # Ratios are averaged in logarithms, where the interval of a mean is symmetric.
    logs = [math.log(rival_value / value) for value, rival_value in common_pairs]
    mean_log, half_width = statistics.fmean(logs), half_interval(logs)  # mean and half the interval of the logarithms
    # exp(710) overflows
    low, high = math.exp(mean_log - half_width), math.exp(mean_log + half_width) if half_width < 700 else math.inf
    detail = f" ({low:.2f} to {high:.2f} times fewer; {reach})"
    # bytes -> MB
    megabytes, rival_megabytes = (statistics.fmean(values) / 1e6 for values in zip(*common_pairs, strict=True))
    columns: dict[str, Any] = {"contestant": name, "detail": detail, "low": low, "high": high}
    return row(case, metric, megabytes, "MB", rival, rival_megabytes, math.exp(mean_log), goal, **columns)
