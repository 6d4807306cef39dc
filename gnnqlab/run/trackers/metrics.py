"""Metrics of a run for other tools, from its folder: one value per metric and epoch that all workers have written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gnnqlab.run.folder import read_json, write_json

if TYPE_CHECKING:
    import pandas as pd

    from gnnqlab.run.run_data import RunData

__all__ = ["STATE", "Metric", "log_epochs", "new_epochs", "new_metrics", "parameters", "unexported_epochs"]

STATE = "exported.json"
"""File in the folder of an export with the last exported epoch."""
_EQUAL = ("loss", "lr", "train_score", "val_score", "test_score")
"""Columns with the same value on all workers."""


class Metric(NamedTuple):
    """Value of one metric after one epoch."""

    epoch: int
    name: str
    value: float
    time_s: float
    """Seconds since training began."""


def new_metrics(run: RunData, *, after: int = -1) -> Iterator[Metric]:
    """Yield the metrics of epochs after one, in order; an epoch that a worker has not written yet is left for later.

    ``epoch_s`` is that of the slowest worker, ``bytes_sent`` (payload and parameters) and ``memory_bytes`` are sums
    over workers, all others are equal on all workers. Scores exist in evaluated epochs only.

    Args:
        run: the run, which may still train.
        after: the last epoch that was exported before; -1 for none.
    """
    frame, workers = run.records, int(run.settings["workers"])
    for epoch, rows in frame[frame["epoch"] > after].groupby("epoch"):
        if len(rows) < workers:
            return  # later epochs too, so that the next export begins here
        for name, value in _values(rows).items():
            if value == value:  # not NaN: no evaluation in this epoch
                yield Metric(int(epoch), name, value, float(rows["time_s"].max()))


def new_epochs(run: RunData, *, after: int = -1) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield epoch and metrics by name, with ``time_s``, for tools that record an epoch in one call.

    Args:
        run: the run, which may still train.
        after: the last epoch that was exported before; -1 for none.
    """
    for epoch, metrics in groupby(new_metrics(run, after=after), key=lambda metric: metric.epoch):
        metrics_of_epoch = list(metrics)
        values = {metric.name: metric.value for metric in metrics_of_epoch}
        yield epoch, values | {"time_s": metrics_of_epoch[0].time_s}


def unexported_epochs(run: RunData, folder: Path) -> list[tuple[int, dict[str, float]]] | None:
    """Return the epochs of a run that an earlier export into a folder lacks; ``None`` if it lacks none.

    Args:
        run: the run, which may still train.
        folder: folder of the export, which is created if it is missing.
    """
    folder.mkdir(exist_ok=True)
    exported = read_json(folder / STATE)
    epochs = list(new_epochs(run, after=-1 if exported is None else int(exported["epoch"])))
    return epochs if epochs or exported is None else None


def log_epochs(tracker: Any, epochs: Sequence[tuple[int, dict[str, float]]], folder: Path) -> None:
    """Log epochs with a tracker, end it, and store the last epoch in the folder of the export."""
    for epoch, values in epochs:
        tracker.log(values, step=epoch)
    tracker.finish()
    # After the metrics are on disk: an interrupted export repeats epochs, and loses none.
    write_json(folder / STATE, {"epoch": epochs[-1][0] if epochs else -1})


def _values(rows: pd.DataFrame) -> dict[str, float]:
    values = {name: float(rows[name].iloc[0]) for name in _EQUAL if name in rows}
    values["epoch_s"] = float(rows["epoch_s"].max())
    names = [name for name in ("bytes_payload", "bytes_params", "bytes_bases") if name in rows]
    values["bytes_sent"] = float(rows[names].sum().sum())
    values["memory_bytes"] = float(rows["memory_bytes"].sum())
    return values


def parameters(settings: dict[str, Any], prefix: str = "") -> dict[str, str | int | float | bool]:
    """Return the settings of a run as one level, with names such as ``train.lr``.

    Example:
        >>> parameters({"workers": 2, "train": {"lr": 0.01, "seed": None}})
        {'workers': 2, 'train.lr': 0.01, 'train.seed': 'None'}
    """
    flat: dict[str, str | int | float | bool] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            flat |= parameters(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value if isinstance(value, str | int | float) else str(value)
    return flat
