"""What better codes are worth over whole trainings: test scores beside Vanilla's, and bytes until its accuracy.

Each line is trained once a seed, from the same weights on the same partition, without a link; a training is kept, and
found again by the next call, so that hundreds may be trained in pieces. Lines with ``-r`` have the policies, exchanges
and schedules of those without, and each row in the code that errs less on it; their rows take as many bytes, since all
have parameters of four bytes at 1, 2 and 4 bits.

Bytes to Vanilla's accuracy are those sent in all epochs until the validation score first reaches Vanilla's best with
the same seed, less ``MARGIN``. Seeds in which either of two lines never does are left out of their ratio, and counted.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine.graphs import find_graphs
from benchmarks.engine.rows import LEAST_POINTS, half_interval, paired, row, score_row
from benchmarks.engine.trained import Options, mean_of, scores_of, study_rows
from benchmarks.studies.accuracy import CASE
from gnnqlab.study.result import MARGIN

if TYPE_CHECKING:
    from gnnqlab.study import RunResult
    from gnnqlab.systems.system import System

__all__ = ["GRAPHS", "LINES", "codec_trainings", "compared", "lines"]

GRAPHS: Mapping[str, int] = {"amazon_computers": 120, "coauthor_physics": 40, "cora": 60}
"""Graph -> epochs after which Vanilla is near its plateau; ``digits`` where none of them is here."""
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
"""Line -> those beside which its bytes are set; better codes beside the same system without them have a goal."""
POINTS = 0.3
"""Most points of test score that fixed 1 bit in better codes may lose."""
FEWER = 1.5
"""How many times fewer bytes a system should need with them."""


def lines(names: Sequence[str] | None = None) -> dict[str, System]:
    """Return the systems of the table, Vanilla always among them.

    Raises:
        ValueError: if a name is none of `LINES`.

    Example:
        >>> list(lines(["1-bit-r"]))
        ['vanilla', '1-bit-r']
    """
    from gnnqlab.message.codecs.least_variance import LeastVariance
    from gnnqlab.systems import adaqp, adaqp_r, fixed_bits, sylvie, sylvie_r, vanilla

    every = {
        "vanilla": vanilla(),
        "1-bit": fixed_bits(bits=1, parameters="bfloat16"),
        "1-bit-r": replace(fixed_bits(bits=1), codec=LeastVariance()),
        "adaqp": adaqp(parameters="bfloat16"),
        "adaqp-r": adaqp_r(),
        "sylvie": sylvie(),
        "sylvie-r": sylvie_r(),
    }
    strange = sorted(set(names or ()) - set(every))
    if strange:
        raise ValueError(f"systems must be among {list(every)}, got {strange}")
    return {name: system for name, system in every.items() if names is None or name in ("vanilla", *names)}


def codec_trainings(
    *,
    systems: Sequence[str] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Train every line and set it beside Vanilla, and lines with better codes beside those without.

    Args:
        systems: which of `LINES`; by default all.
        **options: see :class:`benchmarks.engine.trained.Options`; several graphs are separated by commas, by default
            those of `GRAPHS` that are here, each with its number of epochs, and 8 workers.

    Returns:
        Rows as :func:`benchmarks.registry.measure` describes them; those of scores also have ``points`` and
        ``half_interval``, and those of bytes ``low`` and ``high``, the ends of the ratio's 95 % interval.

    Raises:
        ValueError: if there is no seed, or a system is unknown.
    """
    given = Options(**{"workers": (8,), "trainings": "runs/bench-codecs", **options})
    chosen, rows = lines(systems), []
    for source in find_graphs(given.graph, list(GRAPHS), between=","):
        settings = {**SETTINGS, "epochs": GRAPHS.get(Path(source).stem, 60)}
        rows += study_rows(
            compared,
            chosen,
            case=CASE,
            graphs=[source],
            models=[settings.pop("model")],
            **given.over(settings),
        )
    return rows


def compared(case: str, found: Mapping[str, Sequence[RunResult]]) -> list[dict[str, Any]]:
    """Return the rows of one graph.

    Args:
        case: first column.
        found: trainings by line, the same seeds in the same order; ``vanilla`` among them.
    """
    vanilla, rows = found["vanilla"], []
    for name, trainings in found.items():
        if name == "vanilla":
            continue
        ours, theirs = scores_of(trainings), scores_of(vanilla)
        rows.append({**score_row(case, name, ours, "vanilla", theirs), "ratio": None})
        if name == "1-bit-r":
            lost = paired(ours, theirs).loss_at_most
            allowed = ("allowed", POINTS, POINTS / max(lost, LEAST_POINTS), 1.0)
            metric = "points of test score lost at most (95 %)"
            rows.append(row(case, metric, lost, "points", *allowed, contestant=name))
        bits = mean_of(trainings, "bits")
        rows.append(row(case, "mean width of what travels", bits, "bits", "", None, None, contestant=name))
    targets = [one.best - MARGIN for one in vanilla]
    for name, rivals in RIVALS.items():
        for rival in rivals:
            if {name, rival} <= set(found):
                sent = [_bytes_to(found[line], targets) for line in (name, rival)]
                rows.append(_fewer(case, name, rival, *sent, goal=FEWER if name.startswith(f"{rival}-") else None))
    return rows


def _bytes_to(trainings: Sequence[RunResult], targets: Sequence[float]) -> list[float]:
    return [one.bytes_to(target) for one, target in zip(trainings, targets, strict=True)]


def _fewer(
    case: str, name: str, rival: str, ours: Sequence[float], theirs: Sequence[float], *, goal: float | None
) -> dict[str, Any]:
    """Return the row of one pair; the ratio is the geometric mean over seeds in which both get there."""
    both = [(mine, other) for mine, other in zip(ours, theirs, strict=True) if not math.isnan(mine + other)]
    metric = "bytes to Vanilla's accuracy"
    there = [sum(not math.isnan(each) for each in values) for values in (ours, theirs)]
    reach = f"{there[0]} of {len(ours)} reach it, {rival} {there[1]}"
    if not both:
        return row(case, metric, None, "MB", rival, None, None, goal, contestant=name, detail=f" ({reach})")
    logs = [math.log(other / mine) for mine, other in both]
    middle, half = statistics.fmean(logs), half_interval(logs)
    low, high = math.exp(middle - half), math.exp(middle + half) if half < 700 else math.inf
    detail = f" ({low:.2f} to {high:.2f} times fewer; {reach})"
    mine, other = (statistics.fmean(values) / 1e6 for values in zip(*both, strict=True))
    more: dict[str, Any] = {"contestant": name, "detail": detail, "low": low, "high": high}
    return row(case, metric, mine, "MB", rival, other, math.exp(middle), goal, **more)
