"""Gradients summed as int8 codes: identical on all workers, unbiased, with the stated number of bytes."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

from gnnqlab.train.gradient_codes import AsCodes
from gnnqlab.train.loop.parameters import FlatParameters
from gnnqlab.train.loop.reduction import Facts, Slots
from tests.ranks import run_ranks

WORKERS, DRAWS = 3, 300


def own_gradient(rank):
    return torch.randn(701, generator=torch.Generator().manual_seed(rank)) * (rank + 1)


def sums(rank, workers):
    """Return the sums of many steps, the loss, the stated bytes, and the bytes passed to collectives."""
    parameters = FlatParameters(nn.Linear(700, 1))
    reduction = AsCodes(parameters, Slots(), seed=4)
    given = []
    scatter, gather = dist.all_to_all_single, dist.all_gather
    dist.all_to_all_single = lambda out, own: (given.append(own.nbytes), scatter(out, own))
    dist.all_gather = lambda out, own: (given.append(own.nbytes), gather(out, own))
    found = []
    for _ in range(DRAWS):
        parameters.zero()
        parameters.gradients.copy_(own_gradient(rank))
        reduction.begin(Facts(torch.tensor(float(rank))))
        summed = reduction.finish()
        found.append(parameters.gradients.clone())
    dist.all_to_all_single, dist.all_gather = scatter, gather
    return torch.stack(found), summed, reduction.sent_bytes, given[:2]


@pytest.fixture(scope="module")
def found():
    return run_ranks(sums, WORKERS)


def test_all_hold_the_same_bits(found):
    for draws, summed, *_ in found:
        assert torch.equal(draws, found[0][0])
        assert summed.loss == 3.0 and not summed.flag  # loss and flag are sent without rounding


def test_their_mean_is_the_sum(found):
    draws = found[0][0]
    off = draws - sum(own_gradient(rank) for rank in range(WORKERS))
    # 5.5 standard errors: 701 means exceed them by chance in one of 10^4 runs; noise has 16 bits
    assert (off.mean(0).abs() <= 5.5 * off.std(0) / DRAWS**0.5 + 1e-4).all()
    # Two roundings, each with an error below one step: that of each term, and that of their sum.
    steps = [own_gradient(rank).abs().max() / 127 for rank in range(WORKERS)]
    assert 0 < off.abs().max() < sum(steps) + (draws.abs().max() + sum(steps)) / 127


def test_bytes_are_those_that_travel(found):
    for _, _, said, (scattered, gathered) in found:
        # 701 gradients are three blocks of 256 codes and a scale, one for each worker.
        assert said == 3 * 260 + 8 and scattered == 3 * 260 and gathered == 260
        # A worker does not send its own part: 2 (P - 1) / P of the summed bytes are sent.
        assert scattered * 2 // 3 + gathered * 2 == (said - 8) * 4 // 3


def opposite_gradients(rank, workers):
    """Return a hundred sums of two opposite gradients, and the message of a refusal."""
    parameters = FlatParameters(nn.Linear(255, 1))
    reduction = AsCodes(parameters, Slots(), seed=4)
    found = []
    for _ in range(100):
        parameters.gradients.copy_(own_gradient(0)[:256] * (1 - 2 * rank))
        reduction.begin(Facts(torch.zeros(())))
        reduction.finish()
        found.append(parameters.gradients.clone())
    parameters.gradients[7] = float("inf")
    try:
        reduction.finish()
    except RuntimeError as error:
        return torch.stack(found), str(error)


@pytest.fixture(scope="module")
def opposite():
    return run_ranks(opposite_gradients, 2)


def test_error_for_nonfinite_gradients_names_the_rank(opposite):
    for rank, (_, said) in enumerate(opposite):
        assert said.startswith(
            f"gradients must be finite to be summed as codes, rank {rank} got NaN or Inf in step 100"
        )


def test_errors_of_workers_are_independent(opposite):
    draws, _ = opposite[0]
    step = own_gradient(0)[:256].abs().max() / 127
    # A term f of a step above its code has the squared error f (1 - f) of a step, 1/6 on average, and two with
    # independent errors have 1/3. With the same noise the errors of both have the same sign: 2 min(f, 1 - f), 1/2 on
    # average. The sum is within a step of zero, so the error of rounding it is negligible.
    assert draws.square().mean() / step**2 == pytest.approx(1 / 3, abs=0.04)
