"""Training of a worked model on one rank or several: the loop, its losses, the error and the bytes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.by_name import did_you_mean
from gnnqlab.course.halo_models.collectives import EXCHANGES
from gnnqlab.course.halo_models.crystal import Crystal
from gnnqlab.course.halo_models.flow import Flow
from gnnqlab.course.halo_models.weather import Weather
from gnnqlab.course.halo_models.worked_model import HaloExchange, WorkedModel, number_of_ranks
from gnnqlab.halo import run_on_ranks
from gnnqlab.launch.emulated import EmulatedHosts

__all__ = ["MODELS", "TrainedHere", "make_model", "train_model", "train_on_ranks"]

MODELS: dict[str, type[WorkedModel]] = {"crystal": Crystal, "flow": Flow, "weather": Weather}
"""Name -> model."""
_TESTS = 4
"""Number of test samples, which are not trained on."""


@dataclass(frozen=True)
class TrainedHere:
    """Result of one training, equal on all ranks."""

    losses: tuple[float, ...]
    """Relative squared error of each step's sample."""
    error: float
    """Relative error of the test samples with the exchange of the training: root mean square, 1 for predictions of 0,
    which for weather and flow are a forecast of no change (persistence)."""
    step_bytes: float
    """Bytes that all ranks send in a training step, without headers."""
    step_s: float
    """Seconds of a training step of the slowest rank: the median."""


def make_model(name: str, seed: int = 0) -> WorkedModel:
    """Create a worked model with the same weights on all ranks; collective.

    Args:
        name: one of ``MODELS``.
        seed: seed of the weights.

    Raises:
        ValueError: if there is no such model.

    Example:
        >>> sum(weight.numel() for weight in make_model("weather").parameters())  # one process
        29858
    """
    if name not in MODELS:
        raise ValueError(f"model must be one of {sorted(MODELS)}, got {name!r}{did_you_mean(name, MODELS)}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[name]()


def train_model(name: str, exchange: HaloExchange, *, steps: int = 40, rate: float = 5e-3) -> TrainedHere:
    """Train a worked model on this rank; collective.

    Each step has a sample of its own. A rank's loss is its share, so gradients of weights are summed over the ranks.

    Args:
        name: one of ``MODELS``.
        exchange: exchange with its bit-width.
        steps: number of training steps.
        rate: learning rate of Adam, which falls to 0 in the last third of the steps.

    Raises:
        ValueError: if there is no such model.
    """
    model = make_model(name)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    # A sample a step: its noise is averaged out as the rate falls.
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, 3 * (steps - step) / steps))
    losses, seconds = [], []
    for step in range(steps):
        start = time.perf_counter()
        exchange.step = step
        optimizer.zero_grad()
        loss = model.loss(step, exchange)
        loss.backward()
        sum_gradients(model)
        optimizer.step()
        schedule.step()
        seconds.append(time.perf_counter() - start)
        losses.append(loss.detach())
    sent = torch.tensor([float(exchange.sent_bytes(model.plans))], dtype=torch.float64)
    tests = []
    for test in range(_TESTS):
        exchange.step = steps + test
        tests.append(model.loss(10**6 + test, exchange).detach())
    shares = torch.stack(losses + tests)
    slowest = torch.tensor(seconds).median()
    if number_of_ranks() > 1:
        dist.all_reduce(shares)
        dist.all_reduce(sent)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return TrainedHere(
        losses=tuple(shares[:steps].tolist()),
        error=float(shares[steps:].mean().sqrt()),
        step_bytes=float(sent) / steps,
        step_s=float(slowest),
    )


def sum_gradients(model: torch.nn.Module) -> None:
    """Sum the gradients of all weights over the ranks, in one message."""
    if number_of_ranks() == 1:
        return
    weights = [weight for weight in model.parameters() if weight.grad is not None]
    flat = torch.cat([_gradient(weight).flatten() for weight in weights])
    dist.all_reduce(flat)
    for weight, part in zip(weights, flat.split([weight.numel() for weight in weights]), strict=True):
        _gradient(weight).copy_(part.view_as(weight))


def _gradient(weight: Tensor) -> Tensor:
    assert weight.grad is not None
    return weight.grad


def train_on_ranks(
    model: str,
    ranks: int,
    cases: Sequence[int | str] = (32, 8, 4),
    *,
    steps: int = 40,
    link: str | None = None,
) -> dict[int | str, TrainedHere]:
    """Train a worked model from the same weights with several exchanges, on processes over Gloo.

    Args:
        model: one of ``MODELS``.
        ranks: number of processes.
        cases: bit-widths of the halo exchange, and ``all-to-all`` or ``all-gather`` in float32.
        steps: training steps of each case.
        link: rate of the links between emulated hosts, one for each rank; by default the loopback of this machine.

    Returns:
        Case -> losses, error, bytes and seconds.

    Raises:
        ValueError: if a model or a case does not exist, or ``ranks`` or ``steps`` is below 1.
        RuntimeError: if a process fails, or the machine cannot emulate hosts.
    """
    if model not in MODELS:
        raise ValueError(f"model must be one of {sorted(MODELS)}, got {model!r}{did_you_mean(model, MODELS)}")
    if ranks < 1 or steps < 1:
        raise ValueError(f"ranks and steps must be at least 1, got {ranks} and {steps}")
    widths = (1, 2, 4, 8, 16, 32)
    for case in cases:
        if case not in widths and (case == "halo" or case not in EXCHANGES):
            raise ValueError(f"a case must be one of {widths}, 'all-to-all' or 'all-gather', got {case!r}")
    with EmulatedHosts(ranks, link) if link is not None and ranks > 1 else contextlib.nullcontext() as hosts:
        results = run_on_ranks(train_cases, ranks, model, list(cases), steps, hosts=hosts)[0]
    return {case: TrainedHere(**found) for case, found in zip(cases, results, strict=True)}


def train_cases(model: str, cases: Sequence[int | str], steps: int) -> list[dict[str, Any]]:
    """Train all cases of :func:`train_on_ranks` on one rank; return the fields of their results."""
    exchanges = (EXCHANGES["halo"](case) if isinstance(case, int) else EXCHANGES[case]() for case in cases)
    return [asdict(train_model(model, exchange, steps=steps)) for exchange in exchanges]
