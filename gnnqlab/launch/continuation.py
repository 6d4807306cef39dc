"""Resume a run from its newest checkpoint, as a new run with the records of the old one."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path

from gnnqlab.launch.local import launch
from gnnqlab.launch.run_history import carry_over
from gnnqlab.run.folder import other_machines
from gnnqlab.run.job import read_job
from gnnqlab.run.run import LIVE, Run
from gnnqlab.train.checkpoints.checkpoint import newest_checkpoint
from gnnqlab.train.config.run_config import RunConfig

__all__ = ["resume", "to_go_on"]


def resume(
    run: Run | Path | str,
    *,
    epochs: int | None = None,
    workers: int | None = None,
    root: Path | str | None = None,
    wait: bool = False,
) -> Run:
    """Resume a run that has ended from its newest complete checkpoint, as a new run.

    The new run has the records of the old one up to the checkpoint. With the same number of workers, the same threads
    and the same partition it is identical to the bit to an uninterrupted run, until bit-widths are assigned from newly
    measured times.

    With another number of workers, the weights, the optimizer's state and decisions that hold for all rows continue,
    since all workers have the same. The state of rows (assigned bit-widths, cached rows, residuals) belongs to the old
    partition and starts again, and the records so far stay in the old run; a warning and the event ``resumed`` say so.

    Args:
        run: the run, or its folder.
        epochs: total number of epochs, to train more than the run was launched with.
        workers: number of workers; by default as before.
        root: parent of the new run folder; by default that of the old one.
        wait: True to return only when the run has ended.

    Raises:
        ValueError: if there is no checkpoint, no epoch left to train, or the settings do not support this number of
            workers.
        RuntimeError: if the run has not ended.
    """
    old_run, config, epoch = to_go_on(run, epochs)
    checkpoint = newest_checkpoint(old_run.folder)
    assert checkpoint is not None
    former_workers = checkpoint.facts.get("workers", config.workers)
    loss_text = ""
    if workers is not None and workers != config.workers:
        if "workers" not in checkpoint.facts:
            raise ValueError(
                f"a checkpoint must name its number of workers to be resumed with another one, got one of an earlier "
                f"version in run {old_run.id}; resume it with its {config.workers} workers until the next checkpoint"
            )
        config = dataclasses.replace(config, workers=workers)
    if config.workers != former_workers:
        loss_text = _loss_text(old_run.id, epoch, former_workers, config.workers, checkpoint.facts.get("of_rows", []))
        warnings.warn(loss_text, stacklevel=2)
    if read_job(old_run.folder) is not None:  # every rank has a guard of its own there, so none counts as a machine
        warnings.warn(
            f"run {old_run.id} was started by a queue and resumes on this machine only, with all its {config.workers} "
            "workers; gq.Slurm(...).submit(run) continues it in the queue",
            stacklevel=2,
        )
    elif statuses := other_machines(old_run.folder):
        warnings.warn(
            f"run {old_run.id} trained on {1 + len(statuses)} machines and resumes on this machine only, with all its "
            f"{config.workers} workers; use gq.launch.resume_on_machines for several machines",
            stacklevel=2,
        )

    # Before the guard starts: workers look for a checkpoint as soon as they run.
    def prepare(folder: Path) -> None:
        carry_over(old_run.folder, folder, epoch, loss_text=loss_text)

    return launch(config, root=root or old_run.folder.parent, wait=wait, prepare=prepare)


def _loss_text(run_id: str, epoch: int, former_workers: int, workers: int, of_rows: list[str]) -> str:
    """Return the sentence about state and records that do not continue with another number of workers."""
    state = f"the state of rows ({', '.join(of_rows)}) starts again, and " if of_rows else ""
    return (
        f"run {run_id} was trained by {former_workers} worker(s) and continues with {workers}: weights and optimizer "
        f"state are the same, {state}its records before epoch {epoch} stay in its own folder"
    )


def to_go_on(run: Run | Path | str, epochs: int | None) -> tuple[Run, RunConfig, int]:
    """Return a run that has ended, the configuration to resume with, and the epoch of its newest complete checkpoint.

    Raises:
        ValueError: if there is no checkpoint, or no epoch left to train.
        RuntimeError: if the run has not ended.
    """
    old_run = run if isinstance(run, Run) else Run(run)
    if (status := old_run.status) in LIVE:
        raise RuntimeError(
            f"run {old_run.id} must have ended to be resumed, got status {status}; wait for it or stop it"
        )
    checkpoint = newest_checkpoint(old_run.folder)
    if checkpoint is None:
        raise ValueError(
            f"run {old_run.id} has no checkpoint to resume from; launch runs with checkpoint_every=10, for instance"
        )
    # Only the number of epochs may differ: a checkpoint belongs to the digest of its other settings.
    config = old_run.config
    config = dataclasses.replace(
        config, train=dataclasses.replace(config.train, epochs=config.train.epochs if epochs is None else epochs)
    )
    if checkpoint.epoch >= config.train.epochs:
        raise ValueError(
            f"run {old_run.id} has trained {checkpoint.epoch} epochs already, got epochs {config.train.epochs}; "
            "pass a larger number with epochs=..."
        )
    return old_run, config, checkpoint.epoch
