"""Launch a training on this machine and return its handle at once."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gnnqlab.launch.guarded import begin
from gnnqlab.launch.worker_target import FIT
from gnnqlab.run.run import Run

if TYPE_CHECKING:
    from gnnqlab.train.config.run_config import RunConfig

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
        ValueError: if it asks for a GPU and there is none, or for more memory than there is.
        RuntimeError: if the folder cannot be written, or the guard does not start.
    """
    _expect_device(config)
    from gnnqlab.train.preflight import require_memory

    require_memory(config)
    if config.launch.comm_share is not None:
        from gnnqlab.launch.calibrate import settle

        [config] = settle([config])
    from gnnqlab.train.records.evaluation_pauses import advice

    if said := advice(config.system, config.workers, config.train.evaluate_every):
        warnings.warn(said, stacklevel=2)
    if said := _slow_kernels(config.launch.device):
        warnings.warn(said, stacklevel=2)
    run = begin(config, root=root, prepare=prepare, fit=fit)
    return run.wait() if wait else run


def _expect_device(config: RunConfig) -> None:
    """Refuse here, at once, what the workers would refuse after they have started."""
    import torch

    from gnnqlab.kernels import native

    device, backend = config.launch.device, config.launch.backend
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device must be one that PyTorch {torch.__version__} finds here, got 'cuda'; choose 'cpu'")
    if backend == "nccl" and config.workers > (found := torch.cuda.device_count()):
        raise ValueError(
            f"backend 'nccl' takes a GPU for each worker, got {config.workers} workers and {found} GPU(s); "
            "choose backend 'gloo', or fewer workers"
        )
    if os.environ.get("GNNQLAB_KERNELS"):
        native.active(torch.device(device))  # refuses kernels that are asked for and are not there


def _slow_kernels(device: str) -> str:
    """Why plain PyTorch runs in place of compiled kernels that nobody turned off; empty if it does not."""
    from gnnqlab.kernels import native

    status = native.status()
    on_gpu = device == "cuda"
    reason = status["cuda_reason" if on_gpu else "reason"]
    if not reason or os.environ.get("GNNQLAB_KERNELS") or (not on_gpu and status["backend"] != "reference"):
        return ""
    where = "on the GPU" if on_gpu else "here"
    return f"kernels are plain PyTorch {where}, several times slower than compiled ones: {reason}"
