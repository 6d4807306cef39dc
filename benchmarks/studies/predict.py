"""Predicted epochs compared with measured ones, over random settings of launched runs.

A configuration is a graph, a model, a hidden size, a number of workers and a link, drawn at random. It is probed once
(two short runs); then three random settings of AdaQP are predicted and run, and Vanilla again: its difference from the
probe's own Vanilla is the best accuracy that any prediction could have on this machine. Links are between emulated
hosts if the machine allows it; else everything runs over the loopback. Epochs are represented by their lower quartile,
in the probe and in the runs, because other load on a shared machine only lengthens epochs.

In addition every registered system is predicted and run on each of `SHAPES`: one worker per host, where several
messages share both ends of a link, and two tiers, where workers share the link of their host. Predictions are made
epoch by epoch, with the bit-widths, draws and samples of each epoch. Only a base bit-width that depends on the loss is
fixed at its first value, as stated in the row; a system with a part that cannot be predicted has a row with the reason.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.engine.rows import row

if TYPE_CHECKING:
    from gnnqlab.tune.probe import Probe

__all__ = ["error_rows", "predict", "system_rows"]

PLACES = 4
SETTINGS = 3
GRAPHS = ("digits", "sbm:10000,8,20")
LINKS = ("100mbit", "200mbit", "500mbit")
SHAPES = ((2, 2), (3, 3), (4, 4), (4, 2), (8, 8))
"""Numbers of workers and hosts."""
MEDIAN, WORST = 0.10, 0.25
QUARTILE = 0.25
_EPOCHS = 48
_SETTLING = 3
"""Number of first epochs excluded from medians, because they include set-up."""
HELD = {"sylvie": ("delta",)}
"""System -> settings replaced by the number of epochs, so that the base bit-width does not change."""


def predict(
    repeats: int = 1,
    *,
    seeds: int = 0,
    epochs: int = _EPOCHS,
    workers: tuple[int, ...] | None = None,
    hosts: int | None = None,
    link: str = LINKS[1],
    systems: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Predict and measure.

    Args:
        repeats: number of times that everything is drawn and measured.
        seeds: seed of the draw.
        epochs: epochs of each run.
        workers, hosts: predict only systems, and only on `SHAPES` with these numbers.
        link: rate of the link for systems.
        systems: names of systems; all by default.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`; the last ones are the median and worst error of random settings.

    Raises:
        ValueError: if no shape has these numbers, or a system is unknown.
    """
    from gnnqlab.launch.emulated import available
    from gnnqlab.systems.registry import SYSTEMS, make_system

    chosen_names = tuple(systems or sorted(SYSTEMS))
    for name in chosen_names:
        make_system(name)  # an unknown name raises an error before anything is measured
    shapes = [
        shape for shape in SHAPES if (workers is None or shape[0] in workers) and (hosts is None or shape[1] == hosts)
    ]
    if not shapes:
        raise ValueError(f"workers and hosts must be among {SHAPES}, got {workers} worker(s) and {hosts} hosts")

    reason = available()
    if reason is not None:
        print(f"bench predict: over the loopback, since hosts cannot be emulated ({reason})", flush=True)
    rows, errors, vanilla_errors = [], [], []
    draw = random.Random(seeds)
    is_random = workers is None and hosts is None and systems is None
    for number in range(repeats * PLACES if is_random else 0):
        place: dict[str, Any] = {
            "graph": GRAPHS[number % len(GRAPHS)],
            "model": draw.choice(("gcn", "graphsage")),
            "hidden": draw.choice((64, 128, 256)),
            "layers": draw.choice((2, 3)),
        }
        if reason is None:
            place |= {"hosts": 2, "link": draw.choice(LINKS)}
        place_rows, vanilla = _place(place, draw, epochs)
        rows += place_rows
        errors += [each["value"] / each["rival_value"] - 1 for each in place_rows]
        vanilla_errors.append(vanilla)
    # Without links, shapes with equal numbers of workers are the same configuration.
    places: list[dict[str, Any]] = [
        {"workers": number} if reason is not None else {"workers": number, "hosts": num_hosts, "link": link}
        for number, num_hosts in shapes
    ]
    for place in [place for number, place in enumerate(places) if place not in places[:number]] * repeats:
        rows += system_rows(place, epochs, chosen_names)
    return rows + error_rows(errors, vanilla_errors) if is_random else rows


def system_rows(where: dict[str, Any], epochs: int, systems: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row per system, then the median and the worst error.

    Args:
        where: number of workers, and hosts and link, if there are any.
        epochs: epochs of each run.
        systems: names of systems.
    """
    place = {"graph": GRAPHS[1], "model": "gcn", "hidden": 128, "layers": 3, **where}
    probe, measure_epoch = _probed(place, epochs)
    rows, errors = [], []
    for system in systems:
        choice: dict[str, Any] = dict.fromkeys(HELD.get(system, ()), epochs)
        words = f"{system}: " + ", ".join(f"{name} {value}" for name, value in {**place, **choice}.items())
        try:
            forecasts = [
                probe.forecast(system=system, epoch=epoch, **choice).epoch_s for epoch in range(_SETTLING, epochs)
            ]
        except ValueError as error:
            rows.append(row(words, "not predicted", None, "", "", None, None, detail=f": {error}"))
            continue
        predicted_s, measured_s = _quartile(forecasts), measure_epoch(system, **choice)
        rows.append(row(words, "predicted epoch", predicted_s, "s", "measured", measured_s, None))
        errors.append(abs(predicted_s / measured_s - 1))
    if not errors:
        return rows
    case = f"{len(errors)} systems, {epochs} epochs each, " + ", ".join(
        f"{name} {value}" for name, value in where.items()
    )
    worst_row = row(case, "worst relative error", max(errors), "1", "", None, None)
    return [*rows, row(case, "median relative error", statistics.median(errors), "1", "", None, None), worst_row]


def error_rows(errors: list[float], again: list[float]) -> list[dict[str, Any]]:
    """Return the rows of the median and of the worst error.

    Args:
        errors: predicted over measured, less 1.
        again: the same for Vanilla, measured in the probe and once more.
    """
    sizes = sorted(abs(error) for error in errors)
    noise = statistics.median(abs(error) for error in again)
    case = f"{len(sizes)} random settings; Vanilla measured twice differs by {noise:.1%} (median)"
    return [
        row(case, f"{name} relative error", size, "1", "allowed", limit, limit / max(size, 1e-9), 1.0)
        for name, size, limit in (("median", statistics.median(sizes), MEDIAN), ("worst", sizes[-1], WORST))
    ]


def _place(place: dict[str, Any], draw: random.Random, epochs: int) -> tuple[list[dict[str, Any]], float]:
    """Return the rows of one configuration, and the error of its Vanilla."""
    probe, measure_epoch = _probed(place, epochs)
    rows = []
    for number in range(SETTINGS):
        system = ("adaqp", "adaqp-q", "adaqp")[number]
        choice: dict[str, Any] = {"lam": round(draw.random(), 2), "group_size": draw.choice((10, 30, 100, 300))}
        forecast = probe.forecast(system=system, **choice)
        words = ", ".join(f"{name} {value}" for name, value in {**place, **choice}.items())
        measured_s = measure_epoch(system, **choice)
        rows.append(row(f"{system}: {words}", "predicted epoch", forecast.epoch_s, "s", "measured", measured_s, None))
    return rows, probe.vanilla.epoch_s / measure_epoch("vanilla") - 1


def _quartile(seconds: list[float]) -> float:
    """Return the lower quartile, the statistic of :func:`gnnqlab.tune.timing.read_epoch_time` here."""
    import numpy as np

    return float(np.quantile(seconds, QUARTILE))


def _probed(place: dict[str, Any], epochs: int) -> tuple[Probe, Callable[..., float]]:
    """Return the probe of a configuration, and a function that measures a system's epoch in it."""
    from gnnqlab.launch.start import launch
    from gnnqlab.tune.probe import probe
    from gnnqlab.tune.timing import read_epoch_time

    settings = {name: value for name, value in place.items() if name != "graph"}
    place_probe = probe(
        place["graph"], epochs=3, timed_epochs=epochs, fresh=True, quantile=QUARTILE, theorem=False, **settings
    )

    def measure_epoch(system: str, **choice: Any) -> float:
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
            return read_epoch_time(run, quantile=QUARTILE).epoch_s

    return place_probe, measure_epoch
