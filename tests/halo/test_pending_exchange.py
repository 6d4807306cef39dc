"""Exchanges in flight: equal to blocking ones forward, backward and twice; order of starts and waits; refusals."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from gnnqlab.halo import HaloPlan, exchange_rows, start_exchange
from gnnqlab.halo import pending_exchange as module
from tests.ranks import run_ranks

NONE = torch.empty(0, dtype=torch.int64)


def ring_plan(rank, workers, **settings):
    """Each rank sends two rows to the next one."""
    send = [torch.tensor([2, 0]) if peer == (rank + 1) % workers else NONE for peer in range(workers)]
    receive = [2 if peer == (rank - 1) % workers else 0 for peer in range(workers)]
    return HaloPlan(send, receive, num_rows=3, **settings)


def loss_of(x, weight, exchange, events=None):
    """Return a loss with two exchanges in flight over computation, which is recorded in its backward pass."""
    first = exchange(x, layer=0)
    second = exchange(torch.tanh(x), layer=1)
    own = torch.tanh(x @ weight)  # between the starts and the waits
    if events is not None:
        own.register_hook(lambda gradient: events.append("compute"))
    return (own.sum(1).square().sum() + (first() @ weight).square().sum() + (second() ** 3).sum()) * 1.0


def overlapped(rank, workers):
    results, events = [], []

    def recorded(name, method):
        def record(link, *arguments):
            events.append(name)
            return method(link, *arguments)

        return record

    for settings in ({}, {"bits": (4, 8), "epoch": 3}):
        plan = ring_plan(rank, workers, seed=5)
        for pends in (False, True):
            x = (torch.arange(12.0).view(3, 4).sin() + rank).requires_grad_()
            weight = torch.linspace(-1, 1, 16).view(4, 4).requires_grad_()

            def blocking(rows, layer, plan=plan, settings=settings):
                received = exchange_rows(rows, plan, layer=layer, **settings)
                return lambda: received

            def pending(rows, layer, plan=plan, settings=settings):
                return start_exchange(rows, plan, layer=layer, **settings).wait

            with pytest.MonkeyPatch.context() as patch:
                if pends and not settings:
                    patch.setattr(module._Link, "start", recorded("start", module._Link.start))
                    patch.setattr(module._Link, "finish", recorded("finish", module._Link.finish))
                loss = loss_of(x, weight, pending if pends else blocking, events if pends and not settings else None)
                forces, by_weight = torch.autograd.grad(loss, (x, weight), create_graph=True)
                if not settings:  # rounding errors of second derivatives depend on the order of operations
                    forces.square().sum().backward()
            results.append((loss.detach(), forces.detach(), by_weight.detach(), x.grad, weight.grad))
        assert not plan.in_flight
        assert plan.calls["forward"] == (8 if not settings else 4)
    return results, events


def test_exchanges_in_flight_equal_blocking_ones_forward_and_backward():
    for results, events in run_ranks(overlapped, 3):
        for blocking, pending in zip(results[::2], results[1::2], strict=True):
            for exact, found in zip(blocking, pending, strict=True):
                assert (exact is None) == (found is None)
                assert exact is None or torch.allclose(exact, found, rtol=1e-6, atol=1e-6)
        forward, backward = events[:4], events[4:9]
        assert forward == ["start", "start", "finish", "finish"]
        # Both gradients are in flight while autograd differentiates the computation.
        assert backward == ["start", "start", "compute", "finish", "finish"]


def refused(rank, workers):
    plan, x = ring_plan(rank, workers, name="mesh"), torch.ones(3, 2)
    pending = start_exchange(x, plan, layer=4)
    with pytest.raises(ValueError, match=r"must have different layers, got layer 4 twice, forward, in plan mesh; wait"):
        start_exchange(x, plan, layer=4)
    with pytest.raises(ValueError, match="got layer 4 twice"):
        exchange_rows(x, plan, layer=4)
    assert torch.equal(pending.wait(), pending.wait())
    assert torch.equal(start_exchange(x, plan, layer=4).wait(), torch.ones(2, 2))
    # Messages of equal lists belong to their plan.
    twin = ring_plan(rank, workers, name="mesh")
    mine, other = start_exchange(x, plan), start_exchange(2 * x, twin)
    assert (other.wait() == 2).all() and (mine.wait() == 1).all()
    checked = ring_plan(rank, workers, name="checked", check_order=True)
    exchange_rows(x, checked)
    with pytest.raises(
        RuntimeError, match="same order on all ranks, got forward call 2, layer 0, epoch 1 on rank 0 and"
    ):
        start_exchange(x, checked, layer=rank, epoch=1)
    with pytest.raises(RuntimeError, match="must not be compiled"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.compiler, "is_compiling", lambda: True)
        start_exchange(x, plan)
    return True


def in_training_tools(rank, workers):
    """Return gradients with and without activation checkpointing, and types under autocast."""
    plan, gradients = ring_plan(rank, workers), []
    for exchange in (exchange_rows, lambda *args, **settings: start_exchange(*args, **settings).wait()):
        for recomputes in (False, True):
            x = (torch.arange(12.0).view(3, 4).sin() + rank).requires_grad_()

            def layer(rows, exchange=exchange):
                return torch.tanh(torch.cat([rows, exchange(torch.tanh(rows), plan, bits=(8, 8), layer=1)]))

            out = checkpoint(layer, x, use_reentrant=False) if recomputes else layer(x)
            out.square().sum().backward()
            gradients.append(x.grad)
    with torch.autocast("cpu", torch.bfloat16):
        rows = torch.ones(3, 4) @ torch.ones(4, 4)
        types = [rows.dtype, exchange_rows(rows, plan).dtype, start_exchange(rows, plan).wait().dtype]
    with torch.no_grad():
        assert not start_exchange(x, plan).wait().requires_grad
    return all(torch.equal(gradient, gradients[0]) for gradient in gradients), types


def both(rank, workers):
    tools = in_training_tools(rank, workers)
    return tools, refused(rank, workers)


def test_checkpointing_and_autocast_work_and_mixed_up_exchanges_are_refused():
    assert run_ranks(both, 2) == [((True, [torch.bfloat16] * 3), True)] * 2
