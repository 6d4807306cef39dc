"""Errors of predictions: measured epochs of finished runs compared with their forecasts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.run.run import Run, runs
from gnnqlab.train.config.config_file import find_unimported_modules, read_config
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.tune.timing import read_epoch_time

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.systems.system import System
    from gnnqlab.tune.forecast import Forecast

__all__ = ["median_error", "compare_with_runs"]

_LATEST = 40
"""Limit of runs, the latest ones; the machine may have changed since older ones."""
_MIN_EPOCHS = 6
"""Least epochs of a run for a median."""


def compare_with_runs(
    config: RunConfig, forecast: Callable[[System], Forecast], root: Path | str | None = None
) -> DataFrame:
    """Return predicted and measured epochs of finished runs of the same graph, model, workers and link.

    Args:
        config: graph, model, workers and link to select runs by.
        forecast: function that predicts a system.
        root: folder of runs, as for ``gq.runs``.

    Returns:
        One row per run: ``run, system, lam, predicted_s, measured_s, error`` (predicted over measured, minus 1).
    """
    import pandas as pd

    columns = ["run", "system", "lam", "predicted_s", "measured_s", "error"]
    rows = [_row(forecast, run) for run in _similar_runs(config, runs(root)[-_LATEST:])]
    return pd.DataFrame([row for row in rows if row is not None], columns=columns)


def median_error(errors: Iterable[float]) -> float | None:
    """Return the median of absolute errors; ``None`` without errors.

    Example:
        >>> median_error([-0.25, 0.125, 0.5]), median_error([])
        (0.25, None)
    """
    sizes = [abs(error) for error in errors]
    return statistics.median(sizes) if sizes else None


def _similar_runs(config: RunConfig, all_runs: Iterable[Run]) -> Iterable[Run]:
    for run in all_runs:
        try:
            if find_unimported_modules(read_config(run.folder)):
                continue  # its prediction would need a part that this process has not imported
            run_config = run.config
        except (ValueError, KeyError, TypeError):
            continue  # written by another version
        is_similar = (
            (run_config.graph, run_config.model, run_config.workers) == (config.graph, config.model, config.workers)
            and (run_config.launch.hosts, run_config.launch.link) == (config.launch.hosts, config.launch.link)
            and (run_config.train.input_features, run_config.train.transport)
            == (config.train.input_features, config.train.transport)
            and run_config.system.partition == config.system.partition
        )
        if (
            is_similar and run_config.train.epochs >= _MIN_EPOCHS and run.status == "finished"
        ):  # fewer are mostly warm-up
            yield run


def _row(predict: Callable[[System], Forecast], run: Run) -> dict[str, Any] | None:
    system = run.config.system
    try:
        forecast = predict(system)
    except ValueError:
        return None  # no prediction for this system
    measured_s = read_epoch_time(run).epoch_s
    if not (measured_s > 0 and math.isfinite(forecast.epoch_s)):  # no relative error can be computed
        return None
    return {
        "run": run.id,
        "system": system.name,
        "lam": forecast.lam,
        "predicted_s": forecast.epoch_s,
        "measured_s": measured_s,
        "error": forecast.epoch_s / measured_s - 1,
    }
