"""``run.export("trackio")``: metrics of a run for Trackio, in its database on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gnnqlab.run.trackers.metrics import log_epochs, parameters, unexported_epochs

if TYPE_CHECKING:
    from gnnqlab.run.run_data import RunData

__all__ = ["export_trackio"]


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
    epochs = unexported_epochs(run, folder)
    if epochs is None:
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
    log_epochs(tracker, epochs, folder)
    return folder
