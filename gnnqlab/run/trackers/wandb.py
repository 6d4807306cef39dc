"""``run.export("wandb")``: metrics of a run for Weights & Biases, as files that are uploaded on request."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from gnnqlab.run.trackers.metrics import STATE, log_epochs, new_epochs, parameters, unexported_epochs

if TYPE_CHECKING:
    from gnnqlab.run.run_data import RunData

__all__ = ["export_wandb"]


def export_wandb(run: RunData) -> Path:
    """Write the metrics of a run for Weights & Biases; a later call adds the epochs since the last one.

    Nothing is sent, unless ``WANDB_MODE=online`` is set: the epochs are in one folder ``offline-run-*``, which
    ``wandb sync`` uploads, also again after a later call. The project is ``WANDB_PROJECT``, by default ``gnnqlab``.

    Args:
        run: the run, which may still train.

    Returns:
        The folder ``wandb`` in the run folder.

    Raises:
        RuntimeError: if the package wandb is not installed.

    Example:
        ``run.export("wandb")``, then in a shell ``wandb sync runs/*/wandb/offline-run-*``
    """
    try:
        import wandb
    except ImportError as error:
        raise RuntimeError(
            f"export to Weights & Biases needs the package wandb, got {error}; run pip install wandb"
        ) from error

    folder = run.folder / "wandb"
    epochs = unexported_epochs(run, folder)
    if epochs is None:
        return folder
    mode = os.environ.get("WANDB_MODE", "offline")
    if mode == "offline":
        # An upload of a folder replaces the run on the server, so that a second folder would lose the first epochs.
        (folder / STATE).unlink(missing_ok=True)
        for earlier in folder.glob("offline-run-*"):
            shutil.rmtree(earlier)
        epochs = list(new_epochs(run))
    tracker = wandb.init(
        project=os.environ.get("WANDB_PROJECT", "gnnqlab"),
        name=run.id,
        id=run.id,
        dir=str(run.folder),
        config=parameters(run.settings),
        mode=mode,
        # Measurements of this process and its output are not those of the run.
        settings={"x_disable_stats": True, "console": "off"},
        resume=None if mode == "offline" else "allow",
    )
    log_epochs(tracker, epochs, folder)
    return folder
