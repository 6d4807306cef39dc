"""A worker leaves the joining of the process group when everybody is in it, not before."""

import datetime
import time
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

from gnnqlab.launch import worker
from tests.ranks import run_ranks

LATE_S = 0.5


def _joining(rank: int, workers: int, store: str) -> tuple[float, float]:
    """Seconds at which this rank was connected, and at which it went on; the last one is slow between the two."""
    dist.barrier()  # a rank that is still connecting must find the others
    dist.destroy_process_group()
    connect, connected = dist.init_process_group, [0.0]

    def late(*args: Any, **kwargs: Any) -> None:
        connect(*args, **kwargs)
        if rank == workers - 1:
            time.sleep(LATE_S)
        connected[0] = time.monotonic()

    how = {"init_method": f"file://{store}", "rank": rank, "world_size": workers}
    with mock.patch.object(dist, "init_process_group", late):
        worker._join("gloo", torch.device("cpu"), datetime.timedelta(seconds=30), how)
    return connected[0], time.monotonic()


def test_a_rank_with_nothing_to_say_does_not_leave_the_others_alone(tmp_path: Path) -> None:
    found = run_ranks(_joining, 3, str(tmp_path / "store"))
    last = max(connected for connected, _ in found)
    assert all(went_on >= last for _, went_on in found)
    assert found[-1][0] - min(connected for connected, _ in found) > LATE_S / 2
