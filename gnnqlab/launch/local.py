"""Launch a training on this machine and return its handle at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gnnqlab.launch.entry import FIT
from gnnqlab.launch.guarded import begin
from gnnqlab.launch.run import Run

if TYPE_CHECKING:
    from gnnqlab.train.config import RunConfig

__all__ = ["launch"]


def launch(
    config: RunConfig,
    *,
    root: Path | str | None = None,
    wait: bool = False,
    prepare: Callable[[Path], None] | None = None,
    fit: str = FIT,
) -> Run:
    """Start the run that ``config`` describes in processes of its own and return its handle.

    The run ends when this process does, however it ends, unless ``config.launch.detach`` is true. Where the settings
    have a ``comm_share``, the rate of the link is found first, by short runs.

    Args:
        config: what to train and how to launch it.
        root: folder in which the run's own folder is made; ``GNNQLAB_RUNS``, else ``runs``, if it is not given.
        wait: whether to return only when the run has ended (``Run.wait``).
        prepare: puts files into the new run folder before anything starts.
        fit: ``module:function`` that every worker runs in place of training, to measure or to test what is around it.

    Returns:
        The handle; ``Run(handle.folder)`` in any other process is as good.

    Raises:
        RuntimeError: if the folder cannot be written, or the guard does not start.
    """
    if config.launch.comm_share is not None:
        from gnnqlab.launch.calibrate import settle

        [config] = settle([config])
    from gnnqlab.train.pauses import advice

    if said := advice(config.system, config.workers, config.train.evaluate_every):
        warnings.warn(said, stacklevel=2)
    run = begin(config, root=root, prepare=prepare, fit=fit)
    return run.wait() if wait else run
