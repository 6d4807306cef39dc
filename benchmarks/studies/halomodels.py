"""Worked models of weather, flow and a crystal on several ranks: error, bytes and seconds of each exchange.

Every case trains the same weights for the same steps. The rival is the float32 all-to-all of the same rows; the
all-gather of all rows is a case of its own. Seconds are those of a training step of the slowest rank.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.engine.rows import row

__all__ = ["halomodels"]

CASES = (32, 8, 4, "all-to-all", "all-gather")
ERROR_GOAL = 1 / 1.01
"""Least error of float32 over that of 8 bits: one percent more."""


def halomodels(
    models: Sequence[str] = ("weather", "flow", "crystal"),
    workers: Sequence[int] = (1, 2, 4),
    epochs: int = 200,
    link: str = "100mbit",
) -> list[dict[str, Any]]:
    """Train the worked models; takes about ten minutes on two cores.

    Args:
        models: names of worked models.
        workers: numbers of ranks.
        epochs: training steps.
        link: rate of the links between emulated hosts.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.

    Raises:
        ValueError: if a model does not exist, or a number is below 1.
    """
    from gnnqlab.course.halo_models.model_training import train_on_ranks
    from gnnqlab.launch.emulated import available

    reason = available()
    if reason is not None:
        print(f"bench halomodels: no emulated hosts ({reason}), so seconds are those of the loopback", file=sys.stderr)
    lines = []
    for model in models:
        for count in workers:
            trained = train_on_ranks(model, count, CASES, steps=epochs, link=None if reason else link)
            place = "one process" if count == 1 else f"{count} ranks, {'loopback' if reason else link}"
            lines += _rows(f"{model}, {place}, {epochs} steps", trained)
    return lines


def _rows(case: str, trained: dict[Any, Any]) -> list[dict[str, Any]]:
    """Compare error, bytes and seconds of every exchange with those of the float32 all-to-all."""
    rival, rival_name = trained["all-to-all"], "all-to-all"
    lines = []
    for name, each in trained.items():
        if name == rival_name:
            continue
        contestant = f"{name} bits" if isinstance(name, int) else name
        goal = ERROR_GOAL if name == 8 else None
        ratio = rival.error / each.error
        lines.append(row(case, "error", each.error, "", rival_name, rival.error, ratio, goal, contestant=contestant))
        if rival.step_bytes:
            metrics = (("bytes a step", "kB", "step_bytes", 1e-3), ("step", "s", "step_s", 1.0))
            for metric, unit, field, factor in metrics:
                ours, theirs = (factor * vars(found)[field] for found in (each, rival))
                lines.append(row(case, metric, ours, unit, rival_name, theirs, theirs / ours, contestant=contestant))
    return lines
