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

__all__ = ["launch", "require_device"]


def launch(
    config: RunConfig,
    *,
    root: Path | str | None = None,
    wait: bool = False,
    prepare: Callable[[Path], None] | None = None,
    fit: str = FIT,
) -> Run:
    """Check a configuration, start the processes of its run and return the run's handle.

    The run ends when this process ends for any reason, unless ``config.launch.detach`` is true. If the settings have a
    ``comm_share``, short runs calibrate the rate of the link first.

    Args:
        config: configuration of the run.
        root: parent of the run folder; ``GNNQLAB_RUNS``, else ``runs``, by default.
        wait: True to return only when the run has ended (``Run.wait``).
        prepare: called with the new run folder, to add files before any process starts.
        fit: ``module:function`` that every worker runs in place of training, for measurements and tests.

    Returns:
        The handle; ``Run(handle.folder)`` is equivalent in any other process.

    Raises:
        ValueError: if the run needs a GPU and there is none, or more memory than is free.
        TypeError: if the method ``forward`` of a user's model takes other arguments than ``(g, x)``.
        LaunchRefused: if the folder of the run or the cache cannot be written, or this machine has too little for the
            run; it is a ``RuntimeError``.
        RuntimeError: if the guard does not start.
    """
    # Refuse before any process starts, and before calibration, which takes several short runs.
    require_device(config, config.workers)
    from gnnqlab.launch.preflight import check_graph, check_machine
    from gnnqlab.train.preflight import require_memory

    require_memory(config)
    check_machine(config, root)
    if fit == FIT:  # other functions need no graph
        check_graph(config)
    from gnnqlab.train.worker_dependence import worker_dependent_modules

    dependent_modules = worker_dependent_modules(config)  # raises for a model whose forward takes other arguments
    if config.launch.comm_share is not None:
        from gnnqlab.launch.calibrate import resolve_comm_share

        [config] = resolve_comm_share([config])  # with a link in place of comm_share
    from gnnqlab.train.aggregation_calls import unused_settings
    from gnnqlab.train.records.evaluation_pauses import advice

    if text := advice(config.system, config.workers, config.train.evaluate_every):
        warnings.warn(text, stacklevel=2)
    for text in [*unused_settings(config), *dependent_modules]:
        warnings.warn(text, stacklevel=2)
    if text := _slow_kernels(config.launch.device):
        warnings.warn(text, stacklevel=2)
    run = begin(config, root=root, prepare=prepare, fit=fit)
    return run.wait() if wait else run


def require_device(config: RunConfig, local_workers: int) -> None:
    """Raise immediately for a device that the workers would reject after their start.

    Args:
        config: configuration of the run.
        local_workers: number of workers on this machine.

    Raises:
        ValueError: for a missing GPU, or fewer GPUs than workers with NCCL.
    """
    import torch

    from gnnqlab.kernels import native

    device, backend = config.launch.device, config.launch.backend
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device must be one that PyTorch {torch.__version__} finds here, got 'cuda'; choose 'cpu'")
    if backend == "nccl" and local_workers > (num_gpus := torch.cuda.device_count()):
        raise ValueError(
            f"backend 'nccl' needs one GPU per worker, got {local_workers} workers and {num_gpus} GPU(s); "
            "choose backend 'gloo', or fewer workers"
        )
    if os.environ.get("GNNQLAB_KERNELS"):
        native.active(torch.device(device))  # raises if the requested kernels are not available


def _slow_kernels(device: str) -> str:
    """Return a warning if plain PyTorch replaces compiled kernels without being requested; empty if it does not."""
    from gnnqlab.kernels import native

    status = native.status()
    on_gpu = device == "cuda"
    reason = status["cuda_reason" if on_gpu else "reason"]
    if not reason or os.environ.get("GNNQLAB_KERNELS") or (not on_gpu and status["backend"] != "reference"):
        return ""
    location = "on the GPU" if on_gpu else "here"
    return f"kernels are plain PyTorch {location}, several times slower than compiled ones: {reason}"
