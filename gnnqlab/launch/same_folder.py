"""Machines of one run write into one folder, which a disk that they share holds: seen to before anything is trained."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import torch
import torch.distributed as dist

__all__ = ["check_same_folder"]

_PATIENCE_S = 5.0
"""Some network disks show a new file to other machines a little later."""


def check_same_folder(folder: Path, rank: int, workers: int, *, patience_s: float = _PATIENCE_S) -> None:
    """Refuse a run folder that is not the same for all workers.

    Records, checkpoints and decisions of all workers belong together: figures made from those of one machine alone
    would be wrong and say nothing of it. Rank 0 puts down a file of a name that no disk has seen before, and the others
    look for it.

    Args:
        folder: the run folder, as this machine names it.
        rank: this worker; the process group stands.
        workers: P.
        patience_s: seconds to look for it.

    Raises:
        RuntimeError: on every worker, if one does not see what rank 0 wrote.
    """
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    name = torch.tensor(list(secrets.token_bytes(8)), dtype=torch.uint8)
    mark = _mark(folder, name)
    if rank == 0:
        mark.touch()  # before its name goes out
    name = name.to(device)
    dist.broadcast(name, 0)
    seen = torch.zeros(workers, dtype=torch.int32)
    seen[rank] = _appears(_mark(folder, name.cpu()), patience_s)
    seen = seen.to(device)
    dist.all_reduce(seen)
    if rank == 0:
        mark.unlink(missing_ok=True)
    blind = (seen == 0).nonzero().flatten().tolist()
    if blind:
        raise RuntimeError(
            f"machines of one run must share its folder, got {folder}, where rank(s) {', '.join(map(str, blind))} do "
            "not see what rank 0 writes; give all of them one folder on a shared disk (--out, or root=...)"
        )


def _mark(folder: Path, name: torch.Tensor) -> Path:
    return folder / f".seen-{bytes(name.tolist()).hex()}"


def _appears(path: Path, patience_s: float) -> bool:
    until = time.monotonic() + patience_s
    while not path.exists():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
