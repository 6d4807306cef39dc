"""A worker ends the step of joining the process group when all workers have joined, not before."""

import datetime
import time
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

from gnnqlab.launch import worker
from tests.ranks import run_ranks
from tests.slow_down import HANG_S, wait_until

LATE_S = 0.3


def _joining(rank: int, workers: int, folder: Path) -> list[str]:
    """Return the ranks that were connected when this rank went on; the last rank is slow between the two steps."""
    dist.barrier()  # a rank that is still connecting must find the others
    dist.destroy_process_group()
    connect, last = dist.init_process_group, workers - 1

    def late(*args: Any, **kwargs: Any) -> None:
        connect(*args, **kwargs)
        if rank == last:
            wait_until(lambda: len(list(folder.glob("rank*"))) == last, what="the connections of all others")
            time.sleep(LATE_S)  # a rank that does not wait has gone on by then
        (folder / f"rank{rank}").touch()

    how = {"init_method": f"file://{folder / 'store'}", "rank": rank, "world_size": workers}
    with mock.patch.object(dist, "init_process_group", late):
        worker._join("gloo", torch.device("cpu"), datetime.timedelta(seconds=HANG_S), how)
    return sorted(path.name for path in folder.glob("rank*"))


def test_joining_ranks_wait_until_all_ranks_are_connected(tmp_path: Path) -> None:
    assert run_ranks(_joining, 3, tmp_path) == [["rank0", "rank1", "rank2"]] * 3
