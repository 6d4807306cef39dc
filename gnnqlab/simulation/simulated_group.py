"""Process group that a model can read in worker threads: ``torch.distributed`` and variables of ``torchrun``.

Worker threads have no process group, so a model that reads the number of workers would read 1 there and compute another
result in a launched run.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import torch.distributed as dist

__all__ = ["simulated_group", "worker_thread"]

_thread = threading.local()
_OWN = ("torch", "gnnqlab")
"""Packages whose names stay: their own code must not find a process group that cannot send."""


@contextmanager
def simulated_group(workers: int) -> Iterator[None]:
    """Let the calling thread and worker threads read a number of workers and a rank within the block.

    Replaced are ``is_initialized``, ``get_world_size`` and ``get_rank`` of ``torch.distributed``, also where a module
    has imported them by name, and the environment variables ``WORLD_SIZE`` and ``RANK``. The calling thread, which
    builds the models, reads the last rank, as the variable ``RANK`` does everywhere. One worker has no process group in
    a launched run either, so nothing is replaced.

    Args:
        workers: P.

    Example:
        >>> with simulated_group(3), worker_thread(1):
        ...     dist.get_world_size(), dist.get_rank()
        (3, 1)
        >>> dist.is_initialized()
        False
    """
    if workers == 1:
        yield
        return
    values: dict[str, Callable[[], object]] = {
        "is_initialized": lambda: True,
        "get_world_size": lambda: workers,
        "get_rank": lambda: _thread.rank,
    }
    replaced = {id(getattr(dist, name)): _in_workers(getattr(dist, name), value) for name, value in values.items()}
    environment = {"WORLD_SIZE": str(workers), "RANK": str(workers - 1)}  # one environment for all threads
    with ExitStack() as stack:
        for module, name in [(dist, name) for name in values] + _imported(set(replaced)):
            original = getattr(module, name)
            stack.callback(setattr, module, name, original)
            setattr(module, name, replaced[id(original)])
        for name, text in environment.items():
            stack.callback(_restore, name, os.environ.get(name))
            os.environ[name] = text
        stack.enter_context(worker_thread(workers - 1))
        yield


@contextmanager
def worker_thread(rank: int) -> Iterator[None]:
    """Mark the present thread as a worker within the block."""
    before = getattr(_thread, "rank", None)
    _thread.rank = rank
    try:
        yield
    finally:
        _thread.rank = before


def _in_workers(original: Callable[..., Any], value: Callable[[], object]) -> Callable[..., Any]:
    """Return a function that calls ``value`` in worker threads without a group as argument, else the original."""

    def read(group: Any = None) -> Any:
        # Other threads of the process, and groups of the model's own, are not simulated.
        if group is None and getattr(_thread, "rank", None) is not None:
            return value()
        return original() if group is None else original(group)

    return read


def _restore(name: str, text: str | None) -> None:
    os.environ.pop(name, None)
    if text is not None:
        os.environ[name] = text


def _imported(functions: set[int]) -> list[tuple[ModuleType, str]]:
    """Return module and name wherever a user's module has imported one of the functions by name."""
    return [
        (module, name)
        for module_name, module in list(sys.modules.items())
        if isinstance(module, ModuleType) and module_name.partition(".")[0] not in _OWN
        for name, value in list(vars(module).items())
        if id(value) in functions
    ]
