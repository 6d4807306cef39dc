"""Check that the ranks that meet at a store belong to one run, before they form a process group.

Two runs can meet by accident: the same port, a machine that still has the address of an earlier run. Each run has a
random token in its folder, which only its user can read. Ranks that know the token go on with keys of the store that
contain it, so a process without it neither finds the addresses of workers nor is taken for one.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from torch.distributed import PrefixStore, Store

from gnnqlab.launch.same_folder import folder_error
from gnnqlab.run.folder import read_token

__all__ = ["enter_store"]

_RUN = "gnnqlab/run"
"""Key with the name of the store's run, which its first rank sets."""


def enter_store(store: Store, folder: Path, rank: int, workers: int) -> Store:
    """Return the part of a store that belongs to a run, once all its ranks have shown that they are of this run.

    Args:
        store: the store at the address of the run.
        folder: the run folder.
        rank: this worker.
        workers: P.

    Raises:
        RuntimeError: if the store belongs to another run, or, on all ranks, if some have another token.
    """
    run_id, token = folder.name, read_token(folder)
    if rank == 0:
        store.set(_RUN, run_id)
    found = store.get(_RUN).decode(errors="replace")  # waits for rank 0
    if found != run_id:
        # Nothing was written, so the other run is not disturbed.
        raise RuntimeError(
            f"the ranks of a run must meet at a store of their own, got the store of run {found} for rank {rank} of "
            f"run {run_id}; give each run another port (--port, or MASTER_PORT)"
        )
    keys = [f"gnnqlab/{run_id}/{number}" for number in range(workers)]
    store.set(keys[rank], _digest(token, "proof"))
    proofs = store.multi_get(keys)  # waits for all ranks
    others = [str(number) for number, proof in enumerate(proofs) if proof != proofs[0]]
    if others:
        raise RuntimeError(folder_error(folder, f"rank(s) {', '.join(others)} do not find the token of rank 0"))
    return PrefixStore(_digest(token, "keys"), store)


def _digest(token: str, purpose: str) -> str:
    """Return a text that only those with the token can compute, and that does not reveal it.

    Example:
        >>> _digest("a", "keys") == _digest("a", "keys"), _digest("a", "keys") == _digest("b", "keys")
        (True, False)
    """
    return hmac.new(token.encode(), purpose.encode(), hashlib.sha256).hexdigest()
