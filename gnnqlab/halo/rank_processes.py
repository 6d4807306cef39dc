"""Run a function on several ranks of this machine, each a process of one Gloo group, and return their results."""

from __future__ import annotations

import contextlib
import datetime
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist

from gnnqlab import by_name
from gnnqlab.plain_values import from_bytes, to_bytes

__all__ = ["RankHosts", "run_on_ranks", "work"]

# The search path of this process comes first, to find gnnqlab and the modules in the folder of a notebook or script.
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from gnnqlab.halo.rank_processes import work
work(sys.argv[2], [int(rank) for rank in sys.argv[3:]])
"""
_STEP_S = 0.02


class RankHosts(Protocol):
    """Hosts on which ranks run, one each, such as ``gnnqlab.launch.emulated.EmulatedHosts``."""

    def command(self, host: int, argv: list[str]) -> list[str]:
        """Return the command line that runs ``argv`` on a host."""

    def interface(self, host: int) -> str:
        """Return the name of the network interface of a host."""


def run_on_ranks(
    function: Callable[..., Any],
    ranks: int,
    *arguments: Any,
    hosts: RankHosts | None = None,
    timeout_s: float = 600,
) -> list[Any]:
    """Run a function on several ranks of this machine, over Gloo, and return the result of each.

    Every rank is a process of its own with one thread, whose process group is initialized: the function is the one that
    ``torchrun`` would start, and works in scripts and notebooks. If one rank fails, the others are ended. Texts that
    ranks print are written to standard error.

    Args:
        function: function of a module, which other processes can import.
        ranks: number of ranks.
        arguments: arguments of the function, plain values: numbers, texts, tensors, arrays, and containers of them.
        hosts: hosts of the ranks; by default this machine and its loopback.
        timeout_s: seconds after which the ranks are ended; also the time limit of their process group.

    Returns:
        Result of each rank in rank order, plain values.

    Raises:
        TypeError: if an argument is no plain value.
        ValueError: if there is no rank, or other processes cannot import the function.
        RuntimeError: with the rank, type and message of the first error of a rank; its traceback is a note. Also if a
            rank is killed, or does not return in time.

    Example:
        >>> run_on_ranks(dist.get_world_size, 2)
        [2, 2]
    """
    if ranks < 1:
        raise ValueError(f"ranks must be at least 1, got {ranks}")
    call = to_bytes([by_name.name_of(function), list(arguments), ranks, float(timeout_s)])
    with tempfile.TemporaryDirectory(prefix="gnnqlab-ranks-") as folder, contextlib.ExitStack() as exit_stack:
        Path(folder, "call").write_bytes(call)
        loopback = "lo0" if sys.platform == "darwin" else "lo"
        processes = []
        for host in range(ranks if hosts else 1):
            path = json.dumps([os.path.abspath(entry) for entry in sys.path])
            on_host = [str(host)] if hosts else map(str, range(ranks))
            command = [sys.executable, "-c", _PROGRAM, path, folder, *on_host]
            process = subprocess.Popen(
                hosts.command(host, command) if hosts else command,
                env=os.environ | {"GLOO_SOCKET_IFNAME": hosts.interface(host) if hosts else loopback},
                stdout=2,  # standard output belongs to the results of this process
                start_new_session=True,  # so that forks of an ended process are ended, too
            )
            # Callbacks run in reverse order: kill first, then wait.
            exit_stack.callback(process.wait)
            exit_stack.callback(_end_group, process.pid)
            processes.append(process)
        deadline = time.monotonic() + timeout_s
        while True:
            codes = [process.poll() for process in processes]
            # One failed rank would leave the others waiting.
            if None not in codes or any(codes) or time.monotonic() > deadline:
                break
            time.sleep(_STEP_S)
        if any(code != 0 for code in codes):
            forked = Path(folder, "codes")
            codes = json.loads(forked.read_text()) if forked.exists() else codes if hosts else codes * ranks
            raise _failure(Path(folder), codes, timeout_s)
        return [from_bytes(Path(folder, f"result{rank}").read_bytes()) for rank in range(ranks)]


def work(folder: str, ranks: Sequence[int]) -> None:
    """Run the function on the ranks of one host; several are forks of this process, which has imported PyTorch.

    As soon as one rank fails, the others are ended; the exit codes until then are written, None for those.

    Args:
        folder: folder of the call.
        ranks: ranks of this host.
    """
    if len(ranks) == 1:
        _work_as(folder, ranks[0])
        return
    context = multiprocessing.get_context("fork")
    forks = [context.Process(target=_work_as, args=(folder, rank), daemon=True) for rank in ranks]
    for fork in forks:
        fork.start()
    while None in (codes := [fork.exitcode for fork in forks]) and not any(codes):
        multiprocessing.connection.wait([fork.sentinel for fork, code in zip(forks, codes) if code is None])
    for fork in forks:
        fork.kill()
    Path(folder, "codes").write_text(json.dumps(codes))
    raise SystemExit(int(any(codes)))


def _work_as(folder: str, rank: int) -> None:
    """Run the function as one rank; write its result, or its error."""
    try:
        name, arguments, ranks, timeout_s = from_bytes(Path(folder, "call").read_bytes())
        torch.set_num_threads(1)
        store, limit = dist.FileStore(str(Path(folder, "store")), ranks), datetime.timedelta(seconds=timeout_s)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=limit)
        result = by_name.load(name)(*arguments)
        Path(folder, f"result{rank}").write_bytes(to_bytes(result))
        dist.barrier()
        dist.destroy_process_group()
    except BaseException as error:
        # The clock is that of all processes, so that the first error is known.
        record = [time.monotonic(), type(error).__name__, str(error), traceback.format_exc()]
        Path(folder, f"error{rank}").write_text(json.dumps(record))
        raise SystemExit(1) from None


def _end_group(leader: int) -> None:
    """Kill the processes of a group that are left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _failure(folder: Path, codes: Sequence[int | None], timeout_s: float) -> RuntimeError:
    """Return the first cause of failed ranks: a rank killed by a signal, else the first error."""
    for rank, code in enumerate(codes):
        if code is not None and code < 0:
            return RuntimeError(
                f"all ranks must return, got signal {signal.Signals(-code).name} on rank {rank}; check the free memory"
            )
    files = {rank: folder / f"error{rank}" for rank, code in enumerate(codes) if code}
    records = {rank: json.loads(file.read_text()) for rank, file in files.items() if file.exists()}
    if records:
        rank = min(records, key=lambda rank: records[rank][0])
        _, kind, message, text = records[rank]
        error = RuntimeError(f"all ranks must return, got {kind} on rank {rank}: {message}")
        error.add_note(f"Rank {rank}:\n{text}")
        return error
    missing = [rank for rank, code in enumerate(codes) if code != 0]
    return RuntimeError(
        f"all ranks must return within {timeout_s:g} s, got no result of ranks {missing}, exit codes {list(codes)}; "
        "pass a larger timeout_s"
    )
