"""Time of a change of the tuner's settings in the kernel; the browser's part is measured by tests/browser."""

from __future__ import annotations

import random
import statistics
import time
from typing import Any

from benchmarks.engine.rows import row

__all__ = ["tuner"]

_MOVES = 50
GOAL_S = 0.100
"""Goal: most seconds of one change on the embedded graph."""


def tuner(repeats: int = 1, *, graph: str = "digits", seeds: int = 0) -> list[dict[str, Any]]:
    """Set λ, group size, period and bit-widths at random, and time the forecast of each new setting.

    Args:
        repeats: multiples of 50 changes.
        graph: name or path.
        seeds: seed of the changes.
    """
    from gnnqlab.lab.figures.figure_view import FigureView
    from gnnqlab.lab.tuner.model import TunerModel
    from gnnqlab.lab.tuner.views import TunerNumbers, draw_tuner, values

    model = TunerModel(graph)
    start = time.perf_counter()
    model.find_probe()
    probe_s = time.perf_counter() - start
    model.forecast  # noqa: B018  (the first one sorts the rows)
    draw, figure = random.Random(seeds), FigureView(draw_tuner(TunerNumbers()))
    seconds_by_knob: dict[str, list[float]] = {"λ": [], "any knob": []}
    for number in range(2 * _MOVES * repeats):
        if number % 2:
            model.choose(group_size=draw.choice((10, 30, 100, 300)), widths=draw.choice(((2, 4, 8), (2, 8), (4, 8))))
        model.choose(lam=round(draw.random(), 6), period=draw.randint(5, 100))
        start = time.perf_counter()
        numbers = TunerNumbers.from_model(model, front=False)
        figure.change(values(numbers), caption=numbers.caption)
        seconds_by_knob["any knob" if number % 2 else "λ"].append(time.perf_counter() - start)
    rows = [row(f"{graph}, 12 epochs traced in this process", "probe", probe_s, "s", "goal", 5.0, 5.0 / probe_s, 1.0)]
    for knob, seconds in seconds_by_knob.items():
        case = f"{graph}: {len(seconds)} moves of {knob}, forecast and figure"
        for figure_name, value in (("median", statistics.median(seconds)), ("worst", max(seconds))):
            goal = 1.0 if figure_name == "median" else None
            rows.append(row(case, figure_name, value, "s", "goal", GOAL_S, GOAL_S / value, goal))
    return rows
