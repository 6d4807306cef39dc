"""Broadcast of blocks compared with halo exchange: broadcasts skipped by SANCUS, and its speed compared with Vanilla.

CAGNET, SANCUS with and without quantized blocks, CDFGNN and Vanilla train completely over the same emulated link, from
the same weights, once per seed; trainings are stored and reused by the next call. Only forward blocks can be skipped:
gradients are always sent. The comparison of CDFGNN with SANCUS and CAGNET is CDFGNN Fig. 5. Vanilla uses METIS and
CDFGNN EBV; the others have contiguous blocks, as published. There is no dropout, as in SANCUS's own trainings: with
dropout the receivers would apply masks to cached rows, which would then be sent before their projection, with more
columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.engine.graphs import graph_or_digits
from benchmarks.engine.rows import paired_difference, row
from benchmarks.engine.trained import TrainingOptions, mean_of, study_rows
from benchmarks.studies.systems import table

if TYPE_CHECKING:
    from gnnqlab.study import RunResult
    from gnnqlab.systems.system import System

__all__ = ["AVOIDED", "LINES", "skipped_broadcasts", "broadcasts", "lines", "format_rows"]

AVOIDED = 50.0
"""Goal: least share of forward broadcasts skipped by SANCUS at an equal score (%)."""
GRAPHS = ("cora", "amazon_computers")
"""Default graphs; ``digits`` replaces a missing one."""
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
    """Return the systems of the table, always with Vanilla and CAGNET.

    Raises:
        ValueError: if a name is part of no line's name.

    Example:
        >>> list(lines(["fixed"]))
        ['vanilla', 'cagnet', 'sancus, fixed 4']
    """
    from gnnqlab.systems import make_system

    # each name is a part of a line's name
    unknown_names = [name for name in names or () if not any(name in line for line in LINES)]
    if unknown_names:
        raise ValueError(f"a line must be one of {list(LINES)}, got {unknown_names}")
    chosen_lines = [
        line for line in LINES if names is None or line in ("vanilla", "cagnet") or any(name in line for name in names)
    ]
    return {line: make_system(LINES[line][0], **LINES[line][1]) for line in chosen_lines}


def broadcasts(
    *,
    systems: Sequence[str] | None = None,
    hosts: int = 2,
    link: str = "100mbit",
    **options: Any,
) -> list[dict[str, Any]]:
    """Train every line over an emulated link; return skipped broadcasts, times and scores.

    Args:
        systems: parts of the names of lines; by default all.
        hosts: emulated hosts; 1 for the loopback.
        link: rate of each host's link.
        **options: see :class:`benchmarks.engine.trained.TrainingOptions`; by default ``GRAPHS``, ``EPOCHS`` and 4
            workers.

    Returns:
        For each line its total time compared with Vanilla's, with time to accuracy, score, interval and bytes in
        further columns (see :func:`benchmarks.studies.systems.table`), and its epoch after the first ones compared with
        CAGNET's; for each line with a cache the share of skipped forward rows.

    Raises:
        ValueError: if there is no seed, or no line of such a name.
    """
    run_options = TrainingOptions(
        **{"workers": (4,), "epochs": EPOCHS, "trainings": "runs/bench-broadcasts", **options}
    )
    link_settings: dict[str, Any] = {"hosts": hosts, "link": link} if hosts > 1 else {}  # one host has no link
    place = "{workers} workers, " + ("{hosts} hosts over {link}" if link_settings else "loopback")
    return study_rows(
        lambda case, results: table(case, results, {}) + skipped_broadcasts(case, results),
        lines(systems),
        case=f"{{graph}}, {{model}} {{layers}} x {{hidden}}, {place}, {{epochs}} epochs, {{seeds}}",
        # a missing graph may make both the same
        graphs=list(dict.fromkeys(graph_or_digits(run_options.graph, name) for name in GRAPHS)),
        **run_options.merge_into({**SETTINGS, **link_settings}),
    )


def skipped_broadcasts(case: str, found: Mapping[str, Sequence[RunResult]]) -> list[dict[str, Any]]:
    """Return the share of rows skipped by each cache, and each line's epoch compared with CAGNET's.

    SANCUS's goal counts as reached only if the score is not certainly below CAGNET's.

    Args:
        case: first column.
        found: line -> trainings of the same seeds in the same order, with ``cagnet``.
    """
    rows, rivals = [], found["cagnet"]
    for name, trainings in found.items():
        # mean over seeds, after warm-up
        epoch_s, rival_s = (sum(training.settled_s() for training in each) / len(each) for each in (trainings, rivals))
        rival = ("cagnet", 1e3 * rival_s, rival_s / epoch_s)
        rows.append(row(case, SETTLED, 1e3 * epoch_s, "ms", *rival, contestant=name))
        share = 100 * mean_of(trainings, "skipped")  # share of forward rows, percent
        if not share:
            continue
        # paired by seed
        difference = paired_difference(
            [training.score for training in trainings], [training.score for training in rivals]
        )
        is_worse = difference.is_certain and difference.points < 0
        metric = "broadcasts avoided" if name.startswith("sancus") else "rows kept home"
        goal = 1.0 if name == "sancus, variation" else None
        ratio = 0.0 if is_worse else share / AVOIDED  # skipped broadcasts do not count if they cost accuracy
        columns = {"points": difference.points, "half_interval": difference.half}
        detail = f", test score {difference}"
        rows.append(
            row(case, metric, share, "%", "at least", AVOIDED, ratio, goal, contestant=name, detail=detail, **columns)
        )
    return rows


def format_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the table as formatted text, one row per line."""
    from gnnqlab.units import human_bytes

    cells_by_line: dict[tuple[str, str], dict[str, str]] = {}
    for entry in rows:
        case, name = entry["case"], entry["contestant"]
        cells = cells_by_line.setdefault((case, name), {"case": case, "system": name, "kept home": ""})
        if entry["metric"] == SETTLED:  # metric of the epoch, of skipped rows, or empty for the whole training
            cells[SETTLED] = f"{entry['value']:.1f} ms, {entry['ratio']:.2f}x"
        elif entry["metric"]:
            cells["kept home"] = f"{entry['value']:.1f} %"
        else:
            seconds, reached_text = entry["to_target_s"], f"{entry['reached_by']} of {entry['seeds']}"
            cells |= {
                "total": f"{entry['value']:.2f} s, {entry['ratio']:.2f}x",
                "to target": f"{seconds:.2f} s, {reached_text}" if entry["reached_by"] else "not reached",
                "test": f"{entry['score']:.2f} ± {entry['score_half']:.2f} %",
                "beside vanilla": f"{entry['points']:+.2f} ± {entry['half_interval']:.2f} points",
                "sent an epoch": human_bytes(entry["bytes_per_epoch"]),
            }
    return list(cells_by_line.values())
