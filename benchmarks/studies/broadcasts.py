"""Blocks that are broadcast beside rows that are pulled: what SANCUS avoids, and what is left of it beside Vanilla.

CAGNET, SANCUS with and without quantized blocks, CDFGNN and Vanilla train to their end over the same emulated link,
from the same weights, once a seed; a training is kept, and found again by the next call. Broadcasts avoided are those
of forward blocks: gradients are always sent. CDFGNN beside SANCUS and CAGNET is CDFGNN Fig. 5. Vanilla and CDFGNN have
partitioners, METIS and EBV, the others contiguous blocks, as published. Nothing is dropped, as in SANCUS's own
trainings: with dropout its receivers would put masks on rows that they hold, which then travel before they are
projected, and wider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.engine.graphs import graph_or_digits
from benchmarks.engine.rows import paired, row
from benchmarks.engine.trained import Options, mean_of, study_rows
from benchmarks.studies.systems import table

if TYPE_CHECKING:
    from gnnqlab.study import RunResult
    from gnnqlab.systems.system import System

__all__ = ["AVOIDED", "LINES", "avoided", "broadcasts", "lines", "shown"]

AVOIDED = 50.0
"""Least per cent of forward broadcasts that SANCUS is to avoid at an equal score."""
GRAPHS = ("cora", "amazon_computers")
"""By default; ``digits`` takes the place of one that is not here."""
SETTINGS: Mapping[str, Any] = {"layers": 2, "hidden": 64, "dropout": 0.0, "evaluate_every": 4, "timeline_every": 0}
EPOCHS = 120
SETTLED = "settled epoch"
LINES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "vanilla": ("vanilla", {}),
    "cagnet": ("cagnet", {}),
    "sancus, variation": ("sancus", {}),
    "sancus, age 4": ("sancus", {"rule": "age", "every": 4, "warm_up": 5}),
    "sancus, fixed 4": ("sancus", {"rule": "fixed", "every": 4, "warm_up": 5}),
    "sancus, as released": ("sancus", {"as_released": True}),
    "sancus-q": ("sancus-q", {}),
    "cdfgnn": ("cdfgnn", {}),
}
"""Line -> recipe and its settings."""


def lines(names: Sequence[str] | None = None) -> dict[str, System]:
    """Return the systems of the table, Vanilla and CAGNET always among them.

    Raises:
        ValueError: if a name is part of no line's.

    Example:
        >>> list(lines(["fixed"]))
        ['vanilla', 'cagnet', 'sancus, fixed 4']
    """
    from gnnqlab.systems import make_system

    strange = [name for name in names or () if not any(name in line for line in LINES)]
    if strange:
        raise ValueError(f"a line must be one of {list(LINES)}, got {strange}")
    kept = [
        line for line in LINES if names is None or line in ("vanilla", "cagnet") or any(name in line for name in names)
    ]
    return {line: make_system(LINES[line][0], **LINES[line][1]) for line in kept}


def broadcasts(
    *,
    systems: Sequence[str] | None = None,
    hosts: int = 2,
    link: str = "100mbit",
    **options: Any,
) -> list[dict[str, Any]]:
    """Train every line over an emulated link; say what was avoided, how long it took, and what that cost.

    Args:
        systems: parts of the names of lines; by default all.
        hosts: emulated hosts; 1 for the loopback.
        link: rate of each host's link.
        **options: see :class:`benchmarks.engine.trained.Options`; by default ``GRAPHS``, ``EPOCHS`` and 4 workers.

    Returns:
        For each line its total time beside Vanilla's, with time to accuracy, score, interval and bytes in further
        columns (see :func:`benchmarks.studies.systems.table`), and its settled epoch beside CAGNET's; for each line
        with a cache the share of forward rows that stayed home.

    Raises:
        ValueError: if there is no seed, or no line of such a name.
    """
    given = Options(**{"workers": (4,), "epochs": EPOCHS, "trainings": "runs/bench-broadcasts", **options})
    over: dict[str, Any] = {"hosts": hosts, "link": link} if hosts > 1 else {}
    place = "{workers} workers, " + ("{hosts} hosts over {link}" if over else "loopback")
    return study_rows(
        lambda case, found: table(case, found, {}) + avoided(case, found),
        lines(systems),
        case=f"{{graph}}, {{model}} {{layers}} x {{hidden}}, {place}, {{epochs}} epochs, {{seeds}}",
        graphs=list(dict.fromkeys(graph_or_digits(given.graph, name) for name in GRAPHS)),
        **given.over({**SETTINGS, **over}),
    )


def avoided(case: str, found: Mapping[str, Sequence[RunResult]]) -> list[dict[str, Any]]:
    """Return what lines with a cache kept home, and each line's settled epoch beside CAGNET's.

    SANCUS's goal counts as reached only where the score is not certainly below CAGNET's.

    Args:
        case: first column.
        found: trainings by line, the same seeds in the same order; ``cagnet`` among them.
    """
    rows, plain = [], found["cagnet"]
    for name, trainings in found.items():
        epoch_s, plain_s = (sum(one.settled_s() for one in each) / len(each) for each in (trainings, plain))
        beside = ("cagnet", 1e3 * plain_s, plain_s / epoch_s)
        rows.append(row(case, SETTLED, 1e3 * epoch_s, "ms", *beside, contestant=name))
        kept = 100 * mean_of(trainings, "skipped")
        if not kept:
            continue
        difference = paired([one.score for one in trainings], [one.score for one in plain])
        worse = difference.certain and difference.points < 0
        what = "broadcasts avoided" if name.startswith("sancus") else "rows kept home"
        goal = 1.0 if name == "sancus, variation" else None
        ratio = 0.0 if worse else kept / AVOIDED
        more = {"points": difference.points, "half_interval": difference.half}
        detail = f", test score {difference}"
        rows.append(
            row(case, what, kept, "%", "at least", AVOIDED, ratio, goal, contestant=name, detail=detail, **more)
        )
    return rows


def shown(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the table as a person reads it, one row a line."""
    from gnnqlab.lab.figures.frames import human_bytes

    found: dict[tuple[str, str], dict[str, str]] = {}
    for each in rows:
        case, name = each["case"], each["contestant"]
        cells = found.setdefault((case, name), {"case": case, "system": name, "kept home": ""})
        if each["metric"] == SETTLED:
            cells[SETTLED] = f"{each['value']:.1f} ms, {each['ratio']:.2f}x"
        elif each["metric"]:
            cells["kept home"] = f"{each['value']:.1f} %"
        else:
            seconds, reached = each["to_target_s"], f"{each['reached_by']} of {each['seeds']}"
            cells |= {
                "total": f"{each['value']:.2f} s, {each['ratio']:.2f}x",
                "to target": f"{seconds:.2f} s, {reached}" if each["reached_by"] else "not reached",
                "test": f"{each['score']:.2f} ± {each['score_half']:.2f} %",
                "beside vanilla": f"{each['points']:+.2f} ± {each['half_interval']:.2f} points",
                "sent an epoch": human_bytes(each["bytes_per_epoch"]),
            }
    return list(found.values())
