"""Ranks that another program has started: torchrun, srun, mpirun or submitit, read from its environment variables.

Each starter names rank and world size in its own variables. Kubeflow and SkyPilot hand over machines, not ranks; there
torchrun starts the ranks. Standard library only.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["STARTERS", "ExistingRank", "Starter", "read_rank"]

_FIRST_PORT, _NUM_PORTS = 20000, 10000
"""Below the ephemeral ports of Linux, which start at 32768."""


@dataclass(frozen=True, kw_only=True)
class ExistingRank:
    """One rank of a run, as its starter numbers it."""

    starter: str
    """Name of the starter."""
    rank: int
    """Number of the rank, 0 to ``workers - 1``."""
    workers: int
    """World size P."""
    local_rank: int
    """Number of the rank on its machine."""
    local_workers: int
    """Number of ranks on its machine."""
    address: str
    """Address of the machine of rank 0."""
    port: int
    """Port of the store on that machine."""
    binds: bool = False
    """True if the starter may give each rank processors of its own."""


@dataclass(frozen=True, kw_only=True)
class Starter:
    """Environment variables of one starter."""

    name: str
    rank: str
    workers: str
    local_rank: str
    local_workers: str
    first_node: Callable[[Mapping[str, str]], str] = lambda environ: ""
    """Return the name of the first machine, empty if the starter names none."""
    binds: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        """Variables that every rank has."""
        return self.rank, self.workers, self.local_rank, self.local_workers


def _first_slurm_node(environ: Mapping[str, str]) -> str:
    """Return the first name of a list such as ``n[01-04,7],m1``."""
    names = re.match(r"(?:[^,\[]|\[[^\]]*\])*", environ.get("SLURM_STEP_NODELIST", ""))
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", names.group()) if names else ""


# The innermost starter comes first: srun starts the daemons of an mpirun, and both may start torchrun.
STARTERS = (
    Starter(
        name="torchrun",
        rank="RANK",
        workers="WORLD_SIZE",
        local_rank="LOCAL_RANK",
        local_workers="LOCAL_WORLD_SIZE",
    ),
    Starter(
        name="submitit",
        rank="SUBMITIT_LOCAL_GLOBALID",
        workers="SUBMITIT_LOCAL_NTASKS",
        local_rank="SUBMITIT_LOCAL_LOCALID",
        local_workers="SUBMITIT_LOCAL_NTASKS",  # its local executor has one machine
    ),
    Starter(
        name="mpirun of Open MPI",
        rank="OMPI_COMM_WORLD_RANK",
        workers="OMPI_COMM_WORLD_SIZE",
        local_rank="OMPI_COMM_WORLD_LOCAL_RANK",
        local_workers="OMPI_COMM_WORLD_LOCAL_SIZE",
        binds=True,
    ),
    Starter(
        name="mpirun of MPICH",  # and of Intel MPI
        rank="PMI_RANK",
        workers="PMI_SIZE",
        local_rank="MPI_LOCALRANKID",
        local_workers="MPI_LOCALNRANKS",
        binds=True,
    ),
    Starter(
        name="srun",
        rank="SLURM_PROCID",
        workers="SLURM_STEP_NUM_TASKS",  # absent in a batch script, which is one process and no rank
        local_rank="SLURM_LOCALID",
        local_workers="SLURM_STEP_TASKS_PER_NODE",
        first_node=_first_slurm_node,
        binds=True,
    ),
)


def read_rank(environ: Mapping[str, str], run_id: str) -> ExistingRank:
    """Return the rank of this process.

    Address and port are ``MASTER_ADDR`` and ``MASTER_PORT``; without them the first machine of the list of ``srun``, or
    the loopback if all ranks are on one machine, and a port derived from the run's name.

    Args:
        environ: environment variables.
        run_id: name of the run, the same for all ranks.

    Raises:
        ValueError: if no starter is found, or a variable is missing, not a number or out of range.

    Example:
        >>> place = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
        >>> rank = read_rank({**place, "MASTER_PORT": "29500"}, "x")
        >>> rank.starter, rank.rank, rank.workers, rank.address, rank.port
        ('torchrun', 1, 2, '127.0.0.1', 29500)
    """
    starter = _find(environ)
    rank, workers = _number(environ, starter.rank), _number(environ, starter.workers)
    local_rank, local_workers = _number(environ, starter.local_rank), _local_workers(environ, starter)
    for number, limit, variable, other in (
        (rank, workers, starter.rank, starter.workers),
        (local_rank, local_workers, starter.local_rank, starter.local_workers),
        (local_workers - 1, workers, starter.local_workers, starter.workers),
    ):
        if number >= limit:
            raise ValueError(
                f"{variable} and {other} of {starter.name} must agree, got {environ[variable]!r} and "
                f"{environ[other]!r}; start all ranks with one {starter.name}"
            )
    address = environ.get("MASTER_ADDR") or ("127.0.0.1" if local_workers == workers else starter.first_node(environ))
    if not address:
        raise ValueError(
            f"MASTER_ADDR must be the address of the machine of rank 0, got none under {starter.name} on several "
            "machines; export it to all ranks"
        )
    derived_port = _FIRST_PORT + zlib.crc32(run_id.encode()) % _NUM_PORTS
    port = _number(environ, "MASTER_PORT") if environ.get("MASTER_PORT") else derived_port
    return ExistingRank(
        starter=starter.name,
        rank=rank,
        workers=workers,
        local_rank=local_rank,
        local_workers=local_workers,
        address=address,
        port=port,
        binds=starter.binds,
    )


def _find(environ: Mapping[str, str]) -> Starter:
    """Return the first starter whose variables are complete."""
    for starter in STARTERS:
        if all(environ.get(variable) for variable in starter.variables):
            return starter
    for starter in STARTERS:
        if environ.get(starter.rank):
            missing = [variable for variable in starter.variables if not environ.get(variable)]
            raise ValueError(
                f"a rank of {starter.name} must have {', '.join(starter.variables)}, got no {', '.join(missing)}; "
                f"start this command with {starter.name}, and not from a script that it runs once"
            )
    raise ValueError(
        "a rank must have the environment variables of torchrun, srun or mpirun, got none of "
        f"{', '.join(starter.rank for starter in STARTERS)}; start this command with one of them, for instance "
        "torchrun --nproc-per-node 2 -m gnnqlab worker --from-environment RUN"
    )


def _number(environ: Mapping[str, str], variable: str) -> int:
    text = environ[variable]
    if not text.isdecimal():
        raise ValueError(f"{variable} must be a whole number of at least 0, got {text!r}; leave it to the starter")
    return int(text)


def _local_workers(environ: Mapping[str, str], starter: Starter) -> int:
    """Return the number of ranks on this machine; SLURM lists those of all machines, as in ``2(x3),1``."""
    if starter.name != "srun":
        return _number(environ, starter.local_workers)
    text, counts = environ[starter.local_workers], []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if match is None:
            raise ValueError(f"{starter.local_workers} must be a list such as 2(x3),1, got {text!r}")
        counts += [int(match.group(1))] * int(match.group(2) or 1)
    node = _number(environ, "SLURM_NODEID") if environ.get("SLURM_NODEID") else 0
    if node >= len(counts):
        raise ValueError(f"SLURM_NODEID must be below the {len(counts)} machines of {text!r}, got {node}")
    return counts[node]
