"""Run this process as one rank of a prepared run: its guard, which starts the worker. Standard library only.

Every rank has a guard of its own, as every machine has in ``cluster.py``, so signals, failures and hangs are handled as
in any other run. The guard replaces this process, so it gets the signals of the program that started the ranks.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from gnnqlab.launch.network import interface_towards
from gnnqlab.launch.retries import clear_rank
from gnnqlab.launch.starters import ExistingRank, read_rank
from gnnqlab.launch.worker_target import FIT, argument, import_path, search_path
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.train.memory import large_pages
from gnnqlab.train.processors import BOUND, REQUESTED, SHARED_BY
from gnnqlab.train.records.machine import MACHINE
from gnnqlab.train.stop_request import STOP

__all__ = ["become_rank", "rank_command"]


def become_rank(folder: Path, environ: Mapping[str, str]) -> None:
    """Replace this process with the guard of its rank; the guard's exit status is that of the rank.

    Raises:
        ValueError: if the environment has no rank, or the run cannot be started with it.
    """
    command, environment = rank_command(folder, environ)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, environment)


def rank_command(folder: Path, environ: Mapping[str, str], *, fit: str = FIT) -> tuple[list[str], dict[str, str]]:
    """Return the command line and the environment of the guard of this process's rank, and prepare its files.

    Args:
        folder: the run folder, which all ranks share.
        environ: environment variables with the rank.
        fit: ``module:function`` that the worker runs; by default training.

    Raises:
        ValueError: if the environment has no rank, or the run cannot be started with it.
        LaunchRefused: if the folder cannot be written.
    """
    folder = folder.absolute()
    config = files.read_json(folder / "config.json")
    if config is None:
        raise ValueError(
            f"a rank needs a prepared run, got no config.json in {folder}; prepare one with gnnqlab train --prepare, "
            "on a disk that all machines share"
        )
    existing = read_rank(environ, folder.name)
    _check(existing, config["workers"], config["launch"])
    status = files.read_json(folder / "status.json") or {}
    if status.get("state") == "finished":
        raise ValueError(f"a run must not have finished to be started, got {folder}; prepare a new one")
    files.create(folder.parent, folder.name, exist_ok=True)  # tmp, which the end of an earlier attempt removes
    clear_rank(folder, existing.rank)
    if existing.rank == 0:
        (folder / STOP).unlink(missing_ok=True)  # of an earlier attempt
    worker = [sys.executable, "-m", "gnnqlab.launch.worker", str(folder), argument(fit)]
    options = [f"--machines={existing.workers}", f"--node={existing.rank}", "--one-rank"]
    if (parent := os.getppid()) > 1:  # 1 and 0: of a container, where the starter cannot be seen
        options.append(f"--launcher={parent}:{processes.start_time(parent)}")
    command = [sys.executable, "-m", "gnnqlab.launch.guard", *options, str(folder), "--", *worker]
    return command, {**environ, **_environment(existing, environ)}


def _check(existing: ExistingRank, workers: int, launch: Mapping[str, object]) -> None:
    """Raise if a run cannot be started by these ranks."""
    if existing.workers != workers:
        raise ValueError(
            f"the world size must be the workers of the run, got {existing.workers} ranks of {existing.starter} for "
            f"{workers} workers; start {workers} ranks, or prepare a run with workers={existing.workers}"
        )
    for setting, none in (("hosts", 1), ("retries", 0)):
        value = launch.get(setting, none)
        if isinstance(value, int) and value > none:
            raise ValueError(
                f"{setting} work only where gnnqlab starts the workers, got {setting} {value} for ranks of "
                f"{existing.starter}; prepare the run without"
            )


def _environment(existing: ExistingRank, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a worker, as torchrun would set them, and those of its guard."""
    is_on_one_machine = existing.local_workers == existing.workers
    interface = "lo" if is_on_one_machine else interface_towards(existing.address)
    cores, machine_cores = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    has_own_cores = existing.binds and cores * existing.local_workers <= machine_cores
    return {
        **import_path(),
        **search_path(),
        **large_pages(environ),
        "RANK": str(existing.rank),
        "WORLD_SIZE": str(existing.workers),
        "LOCAL_RANK": str(existing.local_rank),
        "LOCAL_WORLD_SIZE": str(existing.local_workers),
        "GROUP_WORLD_SIZE": environ.get("GROUP_WORLD_SIZE", "1" if is_on_one_machine else "2"),  # more than one machine
        "MASTER_ADDR": existing.address,
        "MASTER_PORT": str(existing.port),
        MACHINE: "" if is_on_one_machine else socket.gethostname(),
        REQUESTED: environ.get("OMP_NUM_THREADS", ""),
        BOUND: "1" if existing.binds else "",
        SHARED_BY: "1" if has_own_cores else str(existing.local_workers),
        "GLOO_SOCKET_IFNAME": environ.get("GLOO_SOCKET_IFNAME", interface),
        "NCCL_SOCKET_IFNAME": environ.get("NCCL_SOCKET_IFNAME", interface),
    }
