"""Going on from a checkpoint: a new run with the old one's past."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path

from gnnqlab.launch.local import launch
from gnnqlab.launch.run_history import carry_over
from gnnqlab.run.folder import other_machines
from gnnqlab.run.run import LIVE, Run
from gnnqlab.train.checkpoints.checkpoint import newest_checkpoint
from gnnqlab.train.config.run_config import RunConfig

__all__ = ["resume", "to_go_on"]


def resume(
    run: Run | Path | str, *, epochs: int | None = None, root: Path | str | None = None, wait: bool = False
) -> Run:
    """Go on from the newest whole checkpoint of a run that has ended, as a new run.

    The new run has the records of the old one up to the checkpoint. With the same number of workers, the same threads
    and the same partition it goes on bit for bit as the old one would have, until bit-widths are assigned from times
    that were measured anew.

    Args:
        run: the run, or its folder.
        epochs: epochs in all, if there shall be more than the run was launched with.
        root: folder in which the new run's own folder is made; by default, where the old one is.
        wait: whether to return only when the run has ended.

    Raises:
        ValueError: if there is no checkpoint, or nothing left to train.
        RuntimeError: if the run is still under way.
    """
    old, config, epoch = to_go_on(run, epochs)
    if others := other_machines(old.folder):
        warnings.warn(
            f"run {old.id} trained on {1 + len(others)} machines and goes on here, on this one, with all its "
            f"{config.workers} workers; gq.resume_on_machines says what to start on several",
            stacklevel=2,
        )

    def prepare(folder: Path) -> None:
        carry_over(old.folder, folder, epoch)

    return launch(config, root=root or old.folder.parent, wait=wait, prepare=prepare)


def to_go_on(run: Run | Path | str, epochs: int | None) -> tuple[Run, RunConfig, int]:
    """Return a run that has ended, the configuration to go on with, and the epoch of its newest whole checkpoint.

    Raises:
        ValueError: if there is no checkpoint, or nothing left to train.
        RuntimeError: if the run is still under way.
    """
    old = run if isinstance(run, Run) else Run(run)
    if (status := old.status) in LIVE:
        raise RuntimeError(f"run {old.id} must have ended to be resumed, got status {status}; wait for it or stop it")
    found = newest_checkpoint(old.folder)
    if found is None:
        raise ValueError(
            f"run {old.id} has no checkpoint to go on from; launch runs with checkpoint_every=10, for instance"
        )
    config = old.config
    config = dataclasses.replace(
        config, train=dataclasses.replace(config.train, epochs=config.train.epochs if epochs is None else epochs)
    )
    if found.epoch >= config.train.epochs:
        raise ValueError(
            f"run {old.id} has trained {found.epoch} epochs already, got epochs {config.train.epochs}; "
            "ask for more with epochs=..."
        )
    return old, config, found.epoch
