"""The exchange alone, over real ranks: equal to index_select and index_add; bit-widths, bytes, and refusals."""

from __future__ import annotations

import math
import threading
from unittest import mock

import pytest
import torch
import torch.distributed as dist

from gnnqlab.errors import MissingMessage, NonFiniteMessage, UnexpectedMessage
from gnnqlab.exchange import HaloPlan, exchange_rows
from gnnqlab.message import Float32, LowRank, Rotated, Stochastic
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.transport.header import SIZE
from gnnqlab.message.transport.transport import _PeerTransfer, _Round
from tests.cases import each
from tests.ranks import run_ranks

NONE = torch.empty(0, dtype=torch.int64)
ROWS = (7, 1, 5)
"""Rows of each rank."""
SEND = {
    (0, 1): [6, 0, 3],
    (0, 2): [3],
    (1, 0): [0],
    (2, 0): [4, 1, 0, 2],
}  # rank 2 gets nothing from 1, 1 nothing from 2
"""(sender, receiver) -> rows; uneven, out of order, shared and none."""


def plan_of(rank, workers, **settings):
    send = [torch.tensor(SEND.get((rank, peer), []), dtype=torch.int64) for peer in range(workers)]
    receive = [len(SEND.get((peer, rank), [])) for peer in range(workers)]
    return HaloPlan(send, receive, num_rows=ROWS[rank], **settings)


def rows_of(rank, columns, dtype=torch.float32):
    generator = torch.Generator().manual_seed(rank)
    return torch.randn(ROWS[rank], columns, generator=generator, dtype=torch.float64).to(dtype)


def places(receiver, workers):
    """Return the positions of the rows of a receiver's halo in the joined rows of all ranks."""
    firsts = [sum(ROWS[:rank]) for rank in range(workers)]
    return torch.tensor(
        [firsts[sender] + row for sender in range(workers) for row in SEND.get((sender, receiver), [])],
        dtype=torch.int64,
    )


def exchanged(rank, workers, columns, dtype, settings, of_plan):
    plan = plan_of(rank, workers, **of_plan)
    x = rows_of(rank, columns, dtype).requires_grad_()
    came = exchange_rows(x, plan, **settings)
    weight = torch.arange(came.numel(), dtype=dtype).view(came.shape) + rank
    (came * weight).sum().backward()
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("transport")]
    assert threads == [], "no one reads the times that such a thread measures"
    return came.detach(), weight, x.grad, plan.halo_ids


@pytest.mark.parametrize(
    ("workers", "columns", "dtype", "transport"),
    [
        (2, 5, torch.float32, "direct"), (3, 1, torch.float32, "ring"), (3, 33, torch.float32, "all-to-all"),
        (3, 4, torch.float64, "direct"), (2, 3, torch.bfloat16, "direct"), (2, 0, torch.float32, "direct"),
    ],
)  # fmt: skip
def test_float32_is_index_select_and_its_gradient_index_add(workers, columns, dtype, transport):
    joined = torch.cat([rows_of(rank, columns, dtype) for rank in range(workers)])
    results = run_ranks(exchanged, workers, columns, dtype, {}, {"transport": transport})
    gradient = torch.zeros(joined.shape, dtype=torch.float32)
    for rank, (came, weight, _, ids) in enumerate(results):
        at = places(rank, workers)
        assert came.dtype == dtype and torch.equal(came, joined.float()[at].to(dtype))
        assert torch.equal(ids, at), "rows are numbered consecutively over the ranks"
        gradient.index_add_(0, at, weight.float())
    assert torch.equal(torch.cat([grad for _, _, grad, _ in results]), gradient.to(dtype))


DRAWS = 100
BITS = 2


def halo_gradient(rank, num_halo):
    generator = torch.Generator().manual_seed(100 + rank)
    return torch.randn(num_halo, 6, generator=generator)


def drawn(rank, workers):
    """Return exchanges of many epochs forward and backward, and of other plans, layers and seeds."""
    plan, x = plan_of(rank, workers, seed=3), rows_of(rank, 6).requires_grad_()
    rows, gradients = [], []
    for epoch in range(DRAWS):
        came = exchange_rows(x, plan, bits=(BITS, BITS), epoch=epoch, layer=1)
        rows.append(came.detach())
        gradients += torch.autograd.grad(came, x, halo_gradient(rank, plan.num_halo))
    others = [
        exchange_rows(x.detach(), again, bits=BITS, epoch=5, layer=layer)
        for again, layer in [
            (plan_of(rank, workers, seed=3), 1),
            (plan, 2),
            (plan_of(rank, workers, seed=4), 1),
            (plan_of(rank, workers, seed=3, ids=torch.arange(ROWS[rank]) + 100 * rank + 50), 1),
        ]
    ]
    return torch.stack(rows), torch.stack(gradients), [torch.equal(other, rows[5]) for other in others]


def moments(x):
    """Variance and fourth cumulant of each decoded element: x rounded to one of two codes, up with probability σ."""
    x = x.double()
    low, high = x.aminmax(dim=1, keepdim=True)
    step = (high - low) / (2**BITS - 1)
    up = ((x - low) / step) % 1.0
    bernoulli = up * (1 - up)
    return step**2 * bernoulli, step**4 * bernoulli * (1 - 6 * bernoulli)


def agrees(draws, exact, variance, cumulant):
    """Mean and summed squared error within five standard errors; codes are drawn with 16 bits, so almost exactly."""
    errors = draws.double() - exact.double()
    slack = 2.0**-12
    assert (errors.mean(0).abs() <= 5 * (variance / DRAWS).sqrt() + slack).all()
    off = errors.square().mean(0).sum() - variance.sum()
    assert abs(off) <= 5 * ((cumulant + 2 * variance**2).sum() / DRAWS).sqrt() + slack


def test_codes_are_unbiased_with_the_codecs_variance_and_repeat():
    results = run_ranks(drawn, 3)
    joined = torch.cat([rows_of(rank, 6) for rank in range(3)])
    home, variance, cumulant = (torch.zeros(joined.shape, dtype=torch.float64) for _ in range(3))
    for rank, (rows, _, same) in enumerate(results):
        at = places(rank, 3)
        agrees(rows, joined[at], *moments(joined[at]))
        gradient = halo_gradient(rank, at.numel())
        for total, part in zip((home, variance, cumulant), (gradient.double(), *moments(gradient)), strict=True):
            total.index_add_(0, at, part)
        assert same == [True, False, False, False], "noise depends on seed, epoch, layer and id"
    agrees(torch.cat([gradients for _, gradients, _ in results], dim=1), home, variance, cumulant)
    # Row 3 of rank 0 goes to both others, with independent errors.
    one, other = (results[1][0][:, 2] - joined[3], results[2][0][:, 0] - joined[3])
    spread = moments(joined[3:4])[0].square().sum()
    assert abs((one * other).mean(0).sum()) <= 5 * (spread / DRAWS).sqrt()


class Counting:
    """A transport that counts the bytes that it receives from its caller."""

    def __init__(self, inner):
        self.inner, self.bytes = inner, 0

    def post(self, send, receive, headers=None, **how):
        self.bytes += sum(buffer.numel() for buffer in send.values())
        return self.inner.post(send, receive, headers, **how)


def counted(rank, workers, codec, bits):
    plan = plan_of(rank, workers)
    plan._channels._transport = counting = Counting(plan._channels._transport)
    x = rows_of(rank, 5).requires_grad_()
    came = exchange_rows(x, plan, codec=codec, bits=bits)
    forward = counting.bytes
    came.sum().backward()
    return forward, counting.bytes - forward, plan.sent_bytes, plan.header_bytes, came.detach()


@pytest.mark.parametrize(
    ("codec", "bits", "row", "gradient"),
    [
        (Stochastic(), 4, 3 + 8, 20),  # ceil(5 · 4 / 8) bytes of codes, Z and S in float32
        ((Rotated(), Stochastic(parameters="bfloat16")), (4, 8), 3 + 4, 5 + 4),
        (Float32(), 32, 20, 20),
    ],
)
def test_bytes_are_those_of_the_layout(codec, bits, row, gradient):
    sent = [sum(len(rows) for (sender, _), rows in SEND.items() if sender == rank) for rank in range(3)]
    joined = torch.cat([rows_of(rank, 5) for rank in range(3)])
    for rank, (forward, backward, told, headers, came) in enumerate(run_ranks(counted, 3, codec, bits)):
        at = places(rank, 3)
        assert (forward, backward) == (sent[rank] * row, at.numel() * gradient)
        assert (came - joined[at]).norm() < 0.2 * joined[at].norm(), "rows decoded from 4 bits are close to these"
        assert told == forward + backward
        peers = [pair for pair in SEND if rank in pair]  # one header per message in each direction
        assert headers == SIZE * len(peers)


def in_groups(rank, workers):
    group = dist.new_group([1, 2])
    if rank == 0:
        with pytest.raises(ValueError, match="created by members of its group, got a group without this process"):
            HaloPlan([NONE, NONE], [0, 0], group=group)
        return None
    came = []
    for transport in ("direct", "ring", "all-to-all"):
        send = [NONE, torch.tensor([2, 0])] if rank == 1 else [torch.tensor([1]), NONE]
        plan = HaloPlan(send, [0, 1] if rank == 1 else [2, 0], group=group, transport=transport)
        x = (torch.arange(12.0).view(4, 3) + 100 * rank).requires_grad_()  # more rows than the plan has
        rows = exchange_rows(x, plan)
        rows.sum().backward()
        came.append((plan.rank, rows[:, 0].tolist(), x.grad[:, 0].tolist()))
    send = [NONE, torch.tensor([3])] if rank == 1 else [NONE, NONE]  # one sends and gets nothing, the other the reverse
    plan, x = HaloPlan(send, [0, 0] if rank == 1 else [1, 0], group=group), x.detach().requires_grad_()
    torch.cat([x, exchange_rows(x, plan, bits=(4, 4))]).sum().backward()
    return came, x.grad[:, 0].tolist()


def test_the_ranks_of_a_group_exchange_alone():
    _, one, two = run_ranks(in_groups, 3)
    assert one == ([(0, [203.0], [1.0, 0.0, 1.0, 0.0])] * 3, [1.0, 1.0, 1.0, 2.0])
    assert two == ([(1, [106.0, 100.0], [0.0, 1.0, 0.0, 0.0])] * 3, [1.0, 1.0, 1.0, 1.0])


def test_one_process_has_no_peers():
    plan = HaloPlan([NONE], [0])
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    came = exchange_rows(x, plan, bits=(4, 4))
    assert came.shape == (0, 3) and came.dtype == torch.float64
    came.sum().backward()
    assert torch.equal(x.grad, torch.zeros(4, 3, dtype=torch.float64)) and plan.sent_bytes == 0


def wrong_plans():
    """Lists of rank 0 and of rank 1, and the message that both raise."""
    fine = ([NONE, torch.tensor([1])], [0, 1], {}), ([torch.tensor([0]), NONE], [1, 0], {})
    some = torch.tensor([1])
    for spoilt, text in [
        (
            ([NONE, torch.tensor([4])], [0, 1], {"num_rows": 4}),
            r"rank 0: rows to send .* in \[0, 4\), got 4 for rank 1",
        ),
        (([NONE, torch.tensor([-1])], [0, 1], {}), r"rank 0: rows to send must be in \[0, N\), got -1 for rank 1"),
        (
            ([NONE, torch.tensor([2, 0, 2])], [0, 1], {}),
            "rank 0: a row must be sent to a rank once, got row 2 twice for rank 1",
        ),
        (([NONE, torch.tensor([0.5])], [0, 1], {}), r"rank 0: rows to send must be integers \(n,\), got torch.float32"),
        (([NONE], [0, 1], {}), "rank 0: send and receive must have one entry for each of 2 ranks, got 1 and 2"),
        (([some, some], [0, 1], {}), "rank 0: a rank must not send rows to itself, got 1 to send and 0"),
        (([NONE, some], [0, -1], {}), "rank 0: receive must be numbers of rows, at least 0, got -1"),
        (([NONE, some], [0, 1], {"seed": -1}), r"rank 0: seed must be in \[0, 2\*\*63\), got -1"),
        (([NONE, some], [0, 1], {"ids": torch.tensor([5, 2**32])}), r"rank 0: ids must be in .*, got 5 to 4294967296"),
        (([NONE, some], [0, 1], {"ids": some, "num_rows": 2}), "rank 0: ids must have one integer for each of 2 rows"),
        (([NONE, some], [0, 1], {"ids": torch.tensor([5, 6])}), "use of ids must be the same on all ranks"),
        (([NONE, some], [0, 1], {"seed": 5}), "seed must be the same on all ranks, got 5 on rank 0, 0 on rank 1"),
        (
            ([NONE, some], [0, 2], {}),
            "rank 1 sends 1 rows to rank 0, which expects 2; set receive.1. on rank 0 to the length",
        ),
    ]:
        yield spoilt, fine[1], text
    yield fine[0], ([torch.tensor([0]), NONE], [0, 0], {}), "rank 0 sends 1 rows to rank 1, which expects 0"


def refused(rank, workers):
    for *lists, text in wrong_plans():
        send, receive, settings = lists[rank]
        with pytest.raises(ValueError, match=text):
            HaloPlan(send, receive, **settings)
    send, receive = ([NONE, torch.tensor([1])], [0, 1]) if rank == 0 else ([torch.tensor([0]), NONE], [1, 0])
    plan, x = HaloPlan(send, receive, num_rows=2, ids=torch.tensor([70, 80])), torch.ones(2, 3)
    for rows, settings, text in [
        (x[:1], {}, rf"rank {rank}: x must have 2 rows \(N, D\) of a floating type, got torch.float32 \(1, 3\)"),
        (x.long(), {}, "of a floating type, got torch.int64"),
        (x[:, 0], {}, r"got torch.float32 \(2,\); create a new HaloPlan"),
        (x, {"bits": 3}, r"Stochastic supports \[1, 2, 4, 8, 16, 32\], got 3 forward"),
        (x, {"codec": (Stochastic(), Float32()), "bits": (4, 4)}, r"Float32 supports \[32\], got 4 backward"),
        (x, {"codec": LowRank(), "bits": 1}, "must have no state, got LowRank, .* choose codec LeastVariance"),
        (x, {"epoch": -1}, "epoch must be in"),
        (x, {"layer": 4096}, "layer must be in"),
        (x, {"bits": (4,)}, r"bits must be one for rows, or a pair for rows and gradients, got \(4,\)"),
        (x, {"bits": [4, 8, 2]}, r"bits must be one for rows, or a pair for rows and gradients, got \[4, 8, 2\]"),
        (x, {"codec": (Float32(),)}, r"codec must be one for rows, or a pair .*, got \(Float32\(\),\)"),
        (x, {"bits": "4"}, "bits must be a whole number, got '4'"),
        (x, {"epoch": 1.5}, "epoch must be a whole number, got 1.5"),
        (x, {"layer": True}, "layer must be a whole number, got True"),
    ]:
        with pytest.raises((ValueError, TypeError), match=text):
            exchange_rows(rows, plan, **settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dist, "get_backend", lambda group=None: "mpi")
        with pytest.raises(ValueError, match=rf"rank {rank}: the backend must be one of .'gloo', 'nccl'., got 'mpi'"):
            HaloPlan(send, receive)
        patch.setattr(plan, "_over_nccl", True)
        with pytest.raises(RuntimeError, match=f"rank {rank}: NCCL needs rows on a GPU, got x on cpu; move x, or pass"):
            exchange_rows(x, plan)
    if rank == 0:
        with pytest.raises(NonFiniteMessage, match="rank 0, layer 2, forward: the row of global node 80"):
            exchange_rows(torch.tensor([[1.0], [math.nan]]), plan, bits=4, layer=2)
    dist.barrier()
    with pytest.raises(UnexpectedMessage, match=f"epoch must be {rank}, got {1 - rank}; the workers are out of step"):
        exchange_rows(x, plan, epoch=rank)
    return True


def test_lists_rows_and_settings_that_do_not_fit_are_refused_on_every_rank():
    assert run_ranks(refused, 2) == [True, True]


def energy(x, halo, weight):
    """Return an energy of own rows that depends on all rows, non-linearly in both."""
    return torch.tanh((x[:, None] * torch.cat([x, halo])[None]) @ weight).sum()


def force_loss(rank, workers):
    """Return the loss on forces, and its gradients of rows and weights, summed over ranks by the caller."""
    plan, x = plan_of(rank, workers), rows_of(rank, 3).requires_grad_()
    weight = torch.linspace(-1, 1, 9).view(3, 3).requires_grad_()
    first = exchange_rows(x, plan)
    # A second exchange of rows that depend on the first one.
    second = exchange_rows(torch.tanh(x @ weight + first.sum()), plan, layer=1)
    forces = torch.autograd.grad(energy(x, first, weight) + second.square().sum(), x, create_graph=True)[0]
    forces.square().sum().backward()
    return x.grad, weight.grad


def test_gradients_of_gradients_are_those_of_one_process():
    results = run_ranks(force_loss, 3)
    joined = torch.cat([rows_of(rank, 3) for rank in range(3)]).requires_grad_()
    weight = torch.linspace(-1, 1, 9).view(3, 3).requires_grad_()
    ends = [sum(ROWS[:rank]) for rank in range(4)]
    own = [joined[ends[rank] : ends[rank + 1]] for rank in range(3)]
    first = [joined[places(rank, 3)] for rank in range(3)]
    inner = torch.cat([torch.tanh(own[rank] @ weight + first[rank].sum()) for rank in range(3)])
    total = sum(energy(own[rank], first[rank], weight) + inner[places(rank, 3)].square().sum() for rank in range(3))
    torch.autograd.grad(total, joined, create_graph=True)[0].square().sum().backward()
    found = torch.cat([rows for rows, _ in results])
    assert torch.allclose(found, joined.grad, rtol=1e-4, atol=1e-4 * joined.grad.abs().max().item())
    found_weight = torch.stack([gradient for _, gradient in results]).sum(0)
    assert torch.allclose(found_weight, weight.grad, rtol=1e-4, atol=1e-4 * weight.grad.abs().max().item())


def compiled(rank, workers):
    """Return eager and compiled results of a layer, in several epochs and with two plans of equal sizes."""
    weight = torch.linspace(-1, 1, 16).view(4, 4)

    def layer(x, plan, epoch):
        rows = exchange_rows(torch.tanh(x @ weight), plan, bits=(4, 8), epoch=epoch)
        return torch.cat([x, rows]).square().sum()

    fast, results = torch.compile(layer, fullgraph=True, backend="aot_eager"), []
    for seed in (3, 4):  # plans that differ in their noise only
        plan = plan_of(rank, workers, seed=seed)
        for epoch in range(3):
            for function in (layer, fast):
                x = rows_of(rank, 4).requires_grad_()
                function(x, plan, epoch).backward()
                results.append(x.grad)
    return results


@pytest.mark.slow
def test_compiled_layers_have_no_graph_break_and_the_same_numbers():
    by_rank = run_ranks(compiled, 2)
    for results in by_rank:
        for eager, fast in zip(results[::2], results[1::2], strict=True):
            assert torch.allclose(eager, fast, atol=1e-6)
    results = by_rank[0]
    assert not torch.allclose(results[1], results[3]), "another epoch has other noise"
    assert not torch.allclose(results[1], results[7]), "another plan has another seed"


class BrokenWork:
    """A receive of a backend that fails."""

    def __init__(self, reason):
        self.reason = reason

    def wait(self):
        raise RuntimeError(self.reason)


@each("reason", ["[unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation", "Connection closed by peer"])
def test_rank_that_does_not_call_it_is_named(reason):
    plan = HaloPlan([NONE], [0], num_rows=5)
    transfer = _PeerTransfer(mock.Mock(on_host=True, headers=None), [_Round((1,), ())])
    transfer._works = [(BrokenWork(reason), 1, "body")]
    lost = mock.Mock(decode=transfer.finish_rounds)
    with mock.patch.object(Channel, "post", lambda *args, **kwargs: lost), pytest.raises(RuntimeError) as caught:
        exchange_rows(torch.ones(5, 3), plan, epoch=7, layer=2)
    text = str(caught.value)
    assert (
        "got no forward message of rank 1" in text
        and "forward call 1, epoch 7, layer 2)" in text
        and reason not in text
    )
    assert ("within the time limit" in text) == ("Timed out" in reason)
    assert "equally often on all ranks" in text and isinstance(caught.value.__cause__, MissingMessage)
