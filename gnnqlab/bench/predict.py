"""Predicted epochs beside measured ones, over random settings of launched runs.

A place is a graph, a model, a width, a number of workers and a link, drawn at random; it is probed once (two short
runs), then three random settings of AdaQP are predicted and run there, and Vanilla once more: its distance from the
probe's own Vanilla is how well any prediction could do on this machine. Links join emulated hosts where the machine
allows that, else everything runs over the loopback. Epochs are told by their lower quartile, in the probe and in the
runs alike: what else runs on a shared machine lengthens epochs and shortens none.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from typing import Any

from gnnqlab.bench.registry import row

__all__ = ["error_rows", "predict"]

PLACES = 4
SETTINGS = 3
GRAPHS = ("digits", "sbm:10000,8,20")
LINKS = ("100mbit", "200mbit", "500mbit")
MEDIAN, WORST = 0.10, 0.25
QUARTILE = 0.25
_EPOCHS = 48


def predict(repeats: int = 1, *, seeds: int = 0, epochs: int = _EPOCHS) -> list[dict[str, Any]]:
    """Predict and measure.

    Args:
        repeats: how often everything is drawn and measured anew.
        seeds: seed of the draw.
        epochs: of each run.

    Returns:
        Rows as :func:`gnnqlab.bench.registry.measure` describes them; the last ones are the median and worst error.
    """
    from gnnqlab.launch.emulated import available

    reason = available()
    if reason is not None:
        print(f"bench predict: over the loopback, since hosts cannot be emulated ({reason})", flush=True)
    rows, errors, again = [], [], []
    draw = random.Random(seeds)
    for number in range(repeats * PLACES):
        place: dict[str, Any] = {
            "graph": GRAPHS[number % len(GRAPHS)],
            "model": draw.choice(("gcn", "graphsage")),
            "hidden": draw.choice((64, 128, 256)),
            "layers": draw.choice((2, 3)),
        }
        if reason is None:
            place |= {"hosts": 2, "link": draw.choice(LINKS)}
        found, vanilla = _place(place, draw, epochs)
        rows += found
        errors += [each["value"] / each["rival_value"] - 1 for each in found]
        again.append(vanilla)
    return rows + error_rows(errors, again)


def error_rows(errors: list[float], again: list[float]) -> list[dict[str, Any]]:
    """Return the rows of the median and of the worst error.

    Args:
        errors: predicted over measured, less 1.
        again: the same of Vanilla, which was measured for the probe and once more.
    """
    sizes = sorted(abs(error) for error in errors)
    noise = statistics.median(abs(error) for error in again)
    case = f"{len(sizes)} random settings; Vanilla measured twice differs by {noise:.1%} (median)"
    return [
        row(case, f"{name} relative error", size, "1", "allowed", allowed, allowed / max(size, 1e-9), 1.0)
        for name, size, allowed in (("median", statistics.median(sizes), MEDIAN), ("worst", sizes[-1], WORST))
    ]


def _place(place: dict[str, Any], draw: random.Random, epochs: int) -> tuple[list[dict[str, Any]], float]:
    """Return the rows of one place, and the error of its Vanilla."""
    from gnnqlab.launch.start import launch
    from gnnqlab.tune.probe import probe
    from gnnqlab.tune.timing import spent

    settings = {name: value for name, value in place.items() if name != "graph"}
    seen = probe(
        place["graph"], epochs=3, timed_epochs=epochs, fresh=True, quantile=QUARTILE, theorem=False, **settings
    )

    def measured(system: str, **choice: Any) -> float:
        with tempfile.TemporaryDirectory(prefix="gnnqlab-predict-") as root:
            run = launch(
                place["graph"],
                system=system,
                out=root,
                wait=True,
                epochs=epochs,
                evaluate_every=0,
                **settings,
                **choice,
            )
            return spent(run, quantile=QUARTILE).epoch_s

    rows = []
    for number in range(SETTINGS):
        system = ("adaqp", "adaqp-q", "adaqp")[number]
        choice: dict[str, Any] = {"lam": round(draw.random(), 2), "group_size": draw.choice((10, 30, 100, 300))}
        forecast = seen.forecast(system=system, **choice)
        words = ", ".join(f"{name} {value}" for name, value in {**place, **choice}.items())
        took = measured(system, **choice)
        rows.append(row(f"{system}: {words}", "predicted epoch", forecast.epoch_s, "s", "measured", took, None))
    return rows, seen.vanilla.epoch_s / measured("vanilla") - 1
