"""``run.export("tensorboard")``: metrics of a run as event files of TensorBoard."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gnnqlab.run.folder import read_json, write_json
from gnnqlab.run.trackers.metrics import new_metrics, parameters

if TYPE_CHECKING:
    from gnnqlab.run.run_data import RunData

__all__ = ["export_tensorboard"]

_STATE = "exported.json"


def export_tensorboard(run: RunData) -> Path:
    """Write the metrics of a run for TensorBoard; a later call adds only the epochs since the last one.

    Args:
        run: the run, which may still train.

    Returns:
        The folder for ``tensorboard --logdir``: ``tensorboard`` in the run folder.

    Raises:
        RuntimeError: if the package tensorboard is not installed.

    Example:
        ``run.export("tensorboard")``, then in a shell ``tensorboard --logdir runs``
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise RuntimeError(
            f"export to TensorBoard needs the package tensorboard, got {error}; run pip install tensorboard"
        ) from error

    folder = run.folder / "tensorboard"
    folder.mkdir(exist_ok=True)
    exported = read_json(folder / _STATE)
    last_epoch = -1 if exported is None else int(exported["epoch"])
    metrics = list(new_metrics(run, after=last_epoch))
    if exported is not None and not metrics:
        return folder
    start_s = os.path.getmtime(run.folder / "config.json")  # so that the axis "Relative" is the time of training
    with SummaryWriter(str(folder)) as writer:
        if exported is None:
            settings = parameters(run.settings)
            rows = "\n".join(f"| {name} | {value} |" for name, value in settings.items())
            writer.add_text("settings", f"| setting | value |\n|---|---|\n{rows}", walltime=start_s)
        for metric in metrics:
            writer.add_scalar(metric.name, metric.value, metric.epoch, walltime=start_s + metric.time_s)
    # After the events are on disk: an interrupted export repeats epochs, and loses none.
    write_json(folder / _STATE, {"epoch": max((metric.epoch for metric in metrics), default=last_epoch)})
    return folder
