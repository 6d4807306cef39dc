"""The loss has a gradient with respect to the same parameters on all workers, or an error names the difference."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.train.loop.gradient_check import GradientCheck
from tests.ranks import run_ranks


def check_losses(rank, workers):
    model = torch.nn.ModuleDict({name: torch.nn.Linear(3, 3) for name in ("first", "unused", "last")})
    rows = torch.ones(0 if rank else 4, 3)  # no row on rank 1
    GradientCheck(model, distributed=True)(model["last"](model["first"](rows)).sum())
    hidden = model["first"](rows) if rank == 0 else rows
    check = GradientCheck(model, distributed=True)
    with pytest.raises(ValueError, match="got first.weight without one on rank 1; use it on every worker"):
        check(model["last"](hidden).sum())
    with pytest.raises(ValueError, match="got first.weight without one on rank 0, 1|got a loss without"):
        check(rows.sum())
    return True


def test_parameter_without_gradient_is_named_with_its_rank():
    assert run_ranks(check_losses, 2) == [True, True]
