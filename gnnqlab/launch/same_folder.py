"""Check before training that all machines of a run write to the same folder on a shared disk."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

__all__ = ["check_same_folder", "folder_error", "wait_until_exists"]

_PATIENCE_S = 5.0
"""Time to wait for a file of another machine: some network disks show new files with a delay."""


def check_same_folder(folder: Path, rank: int, workers: int, *, patience_s: float = _PATIENCE_S) -> None:
    """Raise if the run folder is not the same for all workers.

    Records, checkpoints and decisions of all workers belong together: figures from those of one machine would be wrong
    without notice. Rank 0 creates a file with a random name, and the others wait for it to appear.

    Args:
        folder: the run folder, as a path on this machine.
        rank: this worker; the process group must be initialised.
        workers: P.
        patience_s: seconds to wait for the file.

    Raises:
        RuntimeError: on every worker, if one does not find the file of rank 0.
    """
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    name = torch.tensor(list(secrets.token_bytes(8)), dtype=torch.uint8)
    mark = _mark(folder, name)
    if rank == 0:
        mark.touch()  # before its name is broadcast
    name = name.to(device)
    dist.broadcast(name, 0)
    has_folder = torch.zeros(workers, dtype=torch.int32)  # (P,)
    has_folder[rank] = wait_until_exists(_mark(folder, name.cpu()), patience_s)
    has_folder = has_folder.to(device)
    # All workers get all answers, so they raise together, and rank 0 can remove the file.
    dist.all_reduce(has_folder)
    if rank == 0:
        mark.unlink(missing_ok=True)
    ranks = (has_folder == 0).nonzero().flatten().tolist()
    if ranks:
        raise RuntimeError(folder_error(folder, f"rank(s) {', '.join(map(str, ranks))} do not find the file of rank 0"))


def folder_error(folder: Path, finding: str) -> str:
    """Return the text of an error about a run folder that machines do not share.

    Args:
        folder: the run folder, as a path on this machine.
        finding: a clause about the machines without it.
    """
    return (
        f"machines of one run must share its folder, got {folder}, where {finding}; use one folder on a shared disk "
        "for all (--out, or root=...)"
    )


def _mark(folder: Path, name: torch.Tensor) -> Path:
    return folder / f".seen-{bytes(name.tolist()).hex()}"


def wait_until_exists(
    path: Path, patience_s: float = _PATIENCE_S, *, clock: Callable[[], float] = time.monotonic
) -> bool:
    """Wait for a file of another machine; return False if it is missing at the end."""
    deadline_s = clock() + patience_s
    while not path.exists():
        if clock() > deadline_s:
            return False
        time.sleep(0.05)
    return True
