"""Functions on ranks of this machine: results in rank order, and the first cause of a failure."""

from __future__ import annotations

import json
import os
import signal

import pytest
import torch
import torch.distributed as dist

from gnnqlab.halo import HaloPlan, exchange_rows, run_on_ranks
from gnnqlab.halo import rank_processes as module


def halo_of(scale):
    """Return the rank, and rows of the other rank, multiplied."""
    plan = HaloPlan.from_edges(torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, 1]))
    x = torch.full((1, 3), float(dist.get_rank()))
    return {"rank": dist.get_rank(), "rows": scale * exchange_rows(x, plan)}


def fail(how):
    if dist.get_rank() == 1:
        if how == "signal":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "result":
            return object()
        raise ValueError("bits must be one of (1, 2), got 3")
    dist.barrier()  # fails after rank 1, whose error is the cause
    return None


def wait():
    signal.pause()


def test_results_are_in_rank_order():
    first, second = run_on_ranks(halo_of, 2, torch.tensor(2.0))
    assert (first["rank"], second["rank"]) == (0, 1)
    assert first["rows"].tolist() == [[2.0] * 3] and second["rows"].tolist() == [[0.0] * 3]


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ("error", r"got ValueError on rank 1: bits must be one of \(1, 2\), got 3"),
        ("result", r"got TypeError on rank 1: a value that is sent between workers must be plain .*, got object"),
        ("signal", "got signal SIGKILL on rank 1"),
    ],
)
def test_first_cause_of_a_failure_is_raised(how, cause):
    with pytest.raises(RuntimeError, match=f"all ranks must return, {cause}") as caught:
        run_on_ranks(fail, 3, how)
    if how != "signal":
        assert "Traceback" in caught.value.__notes__[0]


def test_first_of_several_errors_is_the_cause(tmp_path):
    for rank, (when, text) in enumerate(
        [(2.0, "connection closed"), (1.0, "bits must be 4"), (3.0, "connection closed")]
    ):
        (tmp_path / f"error{rank}").write_text(json.dumps([when, "ValueError", text, "Traceback"]))
    assert "ValueError on rank 1: bits must be 4" in str(module._failure(tmp_path, [1, 1, 1], 9.0))
    assert "SIGKILL on rank 2" in str(module._failure(tmp_path, [1, 1, -9], 9.0)), "others lost their connection to it"


def test_ranks_that_wait_for_ever_are_ended():
    with pytest.raises(RuntimeError, match=r"must return within 0.5 s, got no result of ranks \[0\], .*timeout_s"):
        run_on_ranks(wait, 1, timeout_s=0.5)


def test_wrong_calls_are_refused_before_a_process_starts():
    with pytest.raises(ValueError, match="ranks must be at least 1, got 0"):
        run_on_ranks(wait, 0)
    with pytest.raises(ValueError, match="<lambda> is defined in a function, where workers cannot import it; move it"):
        run_on_ranks(lambda: None, 2)
    with pytest.raises(TypeError, match="must be plain .*, got object"):
        run_on_ranks(fail, 2, object())
