"""Run a function on several real ranks over Gloo and return the result of each."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.slow_down import HANG_S

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.rank_imports"])


def run_ranks(function: Callable[..., Any], workers: int, *arguments: Any, timeout_s: float = HANG_S) -> list[Any]:
    """Return ``[function(rank, workers, *arguments) for every rank]``, each rank in its own process.

    Raises:
        AssertionError: with the traceback of the first rank that failed, or the ranks that never answered.
    """
    answers: Any = _CONTEXT.Queue()
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        processes = [
            _CONTEXT.Process(target=_rank, args=(function, rank, workers, store, arguments, answers), daemon=True)
            for rank in range(workers)
        ]
        for process in processes:
            process.start()
        results: dict[int, Any] = {}
        try:
            until = time.monotonic() + timeout_s
            while len(results) < workers:
                # Exit codes first, answers second: an answer sent before its process ends is never missed.
                codes = {rank: process.exitcode for rank, process in enumerate(processes)}
                try:
                    rank, failure, result = answers.get(timeout=0.5)
                except queue.Empty:
                    gone = {rank: code for rank, code in codes.items() if code is not None and rank not in results}
                    if gone or time.monotonic() > until:
                        missing = sorted(set(range(workers)) - set(results))
                        raise AssertionError(
                            f"ranks {missing} gave no answer within {timeout_s} s; ended without one: {gone}"
                        ) from None
                    continue
                if failure is not None:
                    raise AssertionError(f"rank {rank} failed:\n{failure}")
                results[rank] = pickle.loads(result)
        finally:
            for process in processes:
                if len(results) < workers:
                    process.kill()
                process.join()
    return [results[rank] for rank in range(workers)]


def _rank(
    function: Callable[..., Any], rank: int, workers: int, store: str, arguments: tuple[Any, ...], answers: Any
) -> None:
    import datetime

    import torch
    import torch.distributed as dist

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    try:
        dist.init_process_group(
            "gloo",
            store=dist.FileStore(store, workers),
            rank=rank,
            world_size=workers,
            timeout=datetime.timedelta(seconds=HANG_S),
        )
        result = function(rank, workers, *arguments)
        dist.barrier()
        # Plain pickle, by value: tensors must not live in shared memory that ends with this process.
        answers.put((rank, None, pickle.dumps(result)))
        dist.destroy_process_group()
    except BaseException:
        answers.put((rank, traceback.format_exc(), None))
