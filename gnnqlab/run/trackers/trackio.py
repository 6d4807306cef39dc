"""``run.export("trackio")``: metrics of a run for Trackio, in its database on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gnnqlab.run.folder import read_json, write_json
from gnnqlab.run.trackers.metrics import new_epochs, parameters

if TYPE_CHECKING:
    from gnnqlab.run.run_data import RunData

__all__ = ["export_trackio"]

_STATE = "exported.json"


def export_trackio(run: RunData) -> Path:
    """Write the metrics of a run for Trackio; a later call adds only the epochs since the last one.

    They are in Trackio's database on this machine, or that of ``TRACKIO_DIR``; nothing is sent, unless
    ``TRACKIO_SPACE_ID`` is set. The project is ``TRACKIO_PROJECT``, by default ``gnnqlab``.

    Args:
        run: the run, which may still train.

    Returns:
        The folder ``trackio`` in the run folder, with the last exported epoch.

    Raises:
        RuntimeError: if the package trackio is not installed.

    Example:
        ``run.export("trackio")``, then in a shell ``trackio show --project gnnqlab``
    """
    try:
        import trackio
    except ImportError as error:
        raise RuntimeError(
            f"export to Trackio needs the package trackio, got {error}; run pip install trackio"
        ) from error

    folder = run.folder / "trackio"
    folder.mkdir(exist_ok=True)
    exported = read_json(folder / _STATE)
    last_epoch = -1 if exported is None else int(exported["epoch"])
    epochs = list(new_epochs(run, after=last_epoch))
    if exported is not None and not epochs:
        return folder
    tracker = trackio.init(
        project=os.environ.get("TRACKIO_PROJECT", "gnnqlab"),
        name=run.id,
        config=parameters(run.settings),
        resume="allow",
        embed=False,
        auto_log_gpu=False,  # measurements of this process are not those of the run
        auto_log_cpu=False,
    )
    for epoch, values in epochs:
        tracker.log(values, step=epoch)
    tracker.finish()
    # After the metrics are on disk: an interrupted export repeats epochs, and loses none.
    write_json(folder / _STATE, {"epoch": epochs[-1][0] if epochs else last_epoch})
    return folder
