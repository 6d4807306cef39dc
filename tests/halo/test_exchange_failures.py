"""Ranks that skip an exchange or raise an error: all others name them, within the time limit of the plan."""

from __future__ import annotations

import math
from unittest import mock

import pytest
import torch
import torch.distributed as dist

from gnnqlab.errors import NonFiniteMessage, UnexpectedMessage
from gnnqlab.halo import HaloPlan, exchange_rows, reduce_rows, row_transfers
from gnnqlab.halo import exchange_failures as module
from tests.ranks import run_ranks

NONE = torch.empty(0, dtype=torch.int64)
ROW = torch.tensor([0])
LIMIT_S = 4.0
"""A rank that is silent stays so: the limit only has to end."""


def chain_plan(rank, workers, **settings):
    """Rank 2 sends to rank 0, and rank 0 to rank 1."""
    sends = {(2, 0), (0, 1)}
    send = [ROW if (rank, peer) in sends else NONE for peer in range(workers)]
    receive = [int((peer, rank) in sends) for peer in range(workers)]
    return HaloPlan(send, receive, num_rows=1, group=dist.new_group(), timeout_s=LIMIT_S, **settings)


def failure_of(function):
    """Return the text of the error that a call raises."""
    with pytest.raises((RuntimeError, UnexpectedMessage)) as caught:
        function()
    return str(caught.value)


def failing(rank, workers):
    texts, x = [], torch.ones(1, 2)
    # Rank 2 skips the second exchange of the plan.
    plan = chain_plan(rank, workers, name="skipped")
    exchange_rows(x, plan, epoch=0)
    if rank == 2:
        texts.append("")
    elif rank == 1:  # the message of rank 0 is there; that of the next exchange never is

        def two():
            exchange_rows(x, plan, epoch=1)
            exchange_rows(x, plan, epoch=2)

        texts.append(failure_of(two))
    else:
        texts.append(failure_of(lambda: exchange_rows(x, plan, epoch=1)))
    dist.barrier()
    # Rank 2 raises an error in an exchange, which its own records name.
    plan = chain_plan(rank, workers, name="raised")
    if rank == 2:
        with pytest.raises(NonFiniteMessage) as caught:
            exchange_rows(x * math.nan, plan, layer=3)
        texts.append(str(caught.value))
    elif rank == 0:
        texts.append(failure_of(lambda: exchange_rows(x, plan, layer=3)))
    else:
        texts.append("")
    dist.barrier()
    # A backward pass that one rank leaves out.
    plan = chain_plan(rank, workers, name="backward")
    x.requires_grad_()
    rows = exchange_rows(x, plan)
    texts.append("" if rank == 0 else failure_of(lambda: rows.sum().backward()) if rank == 2 else "")
    dist.barrier()
    # Ranks that are out of step.
    plan = chain_plan(rank, workers, name="step")
    if rank != 1:
        texts.append(failure_of(lambda: exchange_rows(x, plan, epoch=rank)))
    else:
        texts.append("")
    dist.barrier()
    with pytest.raises(ValueError, match="timeout_s must be a positive number of seconds, got 0"):
        HaloPlan([NONE] * workers, [0] * workers, timeout_s=0)
    return texts


def test_all_ranks_name_the_first_cause_within_the_time_limit():
    zero, one, two = run_ranks(failing, 3)
    assert "rank 0 got no forward message of rank 2 within the time limit" in zero[0]
    assert "(plan skipped, forward call 2, epoch 1, layer 0)" in zero[0]
    assert "rank 1 got no forward message of rank 0" in one[0] and "forward call 3, epoch 2" in one[0]
    assert "the first cause is rank 2" in one[0], "rank 0 only waits for it"
    assert "rank 0 got no forward message of rank 2" in zero[1]
    assert (
        "NonFiniteMessage in plan raised, forward call 1, epoch 0, layer 3: messages must be finite: rank 2" in zero[1]
    )
    assert two[1].endswith("(plan raised, forward call 1, epoch 0, layer 3)")
    assert "rank 2 got no backward message of rank 0 within the time limit (plan backward, backward call 1" in two[2]
    assert "epoch must be 0, got 2; the workers are out of step" in zero[3]
    assert zero[3].endswith("(plan step, forward call 1, epoch 0, layer 0)")


def test_a_store_that_has_ended_hides_no_error():
    records = module.FailureRecords(None, rank=0, workers=1)

    class Ended:
        def set(self, key, value):
            raise RuntimeError("connection closed")

        def check(self, keys):
            raise RuntimeError("connection closed")

    records._store = Ended()
    assert records.cause(1) == (1, "")
    records.write("text")
    assert records.cause(1) == (1, "")


def test_ranks_that_wait_in_a_circle_name_the_peer():
    store, both = dist.HashStore(), []
    for rank in range(2):
        records = module.FailureRecords(None, rank=rank, workers=1)
        records._store, records.key = store, "plan"
        both.append(records)
    both[0].write("waits", waits_for=1)
    both[1].write("waits", waits_for=0)
    assert both[0].cause(1) == (1, "") and both[1].cause(0) == (0, "")


def test_capture_of_a_cuda_graph_is_refused_before_a_call_is_counted():
    row_transfers.check_not_captured(torch.device("cpu"))
    plan = HaloPlan([NONE], [0])
    with mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=True):
        exchange_rows(torch.ones(1, 2), plan)  # rows on the CPU are not captured
        with pytest.raises(RuntimeError, match="must not be captured in a CUDA graph, .*; capture the layers between"):
            row_transfers.check_not_captured(torch.device("cuda"))
    with mock.patch.object(row_transfers, "check_not_captured", side_effect=RuntimeError("captured")):
        with pytest.raises(RuntimeError, match="captured"):
            exchange_rows(torch.ones(1, 2), plan)
    assert plan.calls["forward"] == 1 and plan.in_flight == set()


def test_reductions_check_their_rows():
    plan = HaloPlan([NONE], [0], num_rows=2)
    with pytest.raises(ValueError, match=r"rank 0: halo rows must be 0 rows \(H, D\) .*, got torch.float32 \(1, 3\)"):
        reduce_rows(torch.ones(1, 3), plan)
