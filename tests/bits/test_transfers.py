"""Seconds of a transfer: without the wait for a late sender, and with a fair share of a link that several use."""

from __future__ import annotations

import itertools
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from gnnqlab.bits.assigner import link_samples as transfers_module
from gnnqlab.bits.assigner.link_samples import Transfers, clock_offsets, machine, refreshed, samples
from gnnqlab.bits.row import two_parameters
from gnnqlab.message.channels.incoming import MessageRecord
from gnnqlab.message.layout import make_layout
from gnnqlab.theory.cost import LinkCost, all_at_once_s
from tests.ranks import run_ranks

PLACE = (1, "backward")


def arrival(sender, receiver, size, *, posted, came):
    layout = make_layout(8, size, 1, param_bytes=two_parameters(0))
    return MessageRecord(*PLACE, sender, receiver, layout, came - posted if size else 0.0, posted)


def exchange(sizes, *, posted, theta, offsets=None):
    """Return the records of all workers for one exchange: each sender's messages share its link and end together."""
    workers = len(posted)
    offsets = offsets or [0.0] * workers
    seen = []
    for receiver in range(workers):
        arrivals = []
        for sender in range(workers):
            if sender != receiver:
                latest = max(posted[sender], *(posted[other] for other in range(workers) if sizes[sender][other]))
                came = latest + theta[sender] * sum(sizes[sender])
                here = posted[receiver] - offsets[receiver]
                came -= offsets[receiver]
                arrivals.append(arrival(sender, receiver, sizes[sender][receiver], posted=here, came=came))
        transfers = Transfers()
        for _ in range(5):
            transfers.observe(arrivals)
        seen.append(transfers.take())
    return seen


def test_transfer_shares_of_a_sender_sum_to_the_busy_time_of_its_link():
    sizes = [[0, 3000, 1000], [500, 0, 500], [0, 1000, 0]]  # no receiver has more to do than its busiest sender
    theta = [1e-6, 2e-6, 5e-7]
    known = np.tile(np.array(theta)[:, None], 3)
    found = samples(exchange(sizes, posted=[0.0, 0.0, 0.0], theta=theta), theta_s_per_byte=known)
    for sender in range(3):
        shares = [found[sender, receiver][0] for receiver in range(3) if sizes[sender][receiver]]
        assert sum(seconds for _, seconds in shares) == pytest.approx(theta[sender] * sum(sizes[sender]))
        assert all(seconds == pytest.approx(theta[sender] * size) for size, seconds in shares)
    assert found[2, 0] == [] and len(found[0, 1]) == 5
    # So the cost model's own sum, over the busiest end, equals the time of the exchange.
    busiest = max(rate * sum(row) for rate, row in zip(theta, sizes, strict=True))
    cost = LinkCost.uniform(3, bytes_per_s=1.0)
    exact = LinkCost(
        theta_s_per_byte=known * (1 - np.eye(3)),
        gamma_s=np.zeros((3, 3)),
        r_squared=cost.r_squared,
        moments=cost.moments,
    )
    assert all_at_once_s(exact, sizes) == pytest.approx(busiest)


def test_a_message_is_charged_at_the_end_that_others_keep_busy():
    """Links are equal, a byte takes a microsecond at either end; the last message ends when its busier end is done."""
    sizes = np.array([[0, 3000, 0], [0, 0, 500], [0, 1000, 0]])
    done = {(0, 1): 4e-3, (2, 1): 4e-3, (1, 2): 5e-4}  # 0 and 2 send to 1, whose link is shared
    seen = []
    for receiver in range(3):
        transfers = Transfers()
        arrivals = [
            arrival(sender, receiver, int(sizes[sender, receiver]), posted=0.0, came=done.get((sender, receiver), 0.0))
            for sender in range(3)
            if sender != receiver
        ]
        for _ in range(5):
            transfers.observe(arrivals)
        seen.append(transfers.take())
    found = samples(seen)
    for pair, seconds in {(0, 1): 3e-3, (2, 1): 1e-3, (1, 2): 5e-4}.items():
        assert found[pair] == [(int(sizes[pair]), pytest.approx(seconds))] * 5
    charged = {pair: taken[0][1] / sizes[pair] for pair, taken in found.items() if taken}
    assert all(rate == pytest.approx(1e-6) for rate in charged.values()), "by their sender 2 -> 1 would cost 4e-6"
    assert all_at_once_s(LinkCost.uniform(3, bytes_per_s=1e6), sizes) == pytest.approx(max(done.values()))


def test_waiting_for_a_late_sender_is_no_transfer():
    sizes = [[0, 1000], [2000, 0]]
    together = samples(exchange(sizes, posted=[0.0, 0.0], theta=[1e-6, 1e-6]))
    late = samples(exchange(sizes, posted=[0.0, 7.0], theta=[1e-6, 1e-6]))
    for pair, seen in together.items():
        np.testing.assert_allclose([seconds for _, seconds in late[pair]], [seconds for _, seconds in seen], rtol=1e-6)


def test_clocks_of_other_machines_are_set_right():
    sizes = [[0, 1000], [2000, 0]]
    offsets = [0.0, 123.0]
    seen = exchange(sizes, posted=[5.0, 6.0], theta=[1e-3, 1e-3], offsets=offsets)
    found = samples(seen, offsets)
    assert found[0, 1][0] == (1000, pytest.approx(1.0)) and found[1, 0][0] == (2000, pytest.approx(2.0))


def test_a_layer_that_not_every_worker_saw_is_left_out():
    seen = exchange([[0, 10], [10, 0]], posted=[0.0, 0.0], theta=[1.0, 1.0])
    seen[1].posted.clear()
    assert samples(seen) == {}


def test_unexplained_fit_keeps_the_link_cost_but_updates_its_moments():
    before = [(size, 1e-3 + 1e-6 * size) for size in (500, 5000) for _ in range(5)]
    cost = LinkCost.measured(2, {(0, 1): before, (1, 0): before})
    noise = [(size, seconds) for size, seconds in ((900, 9.0), (1000, 0.1), (1100, 7.0), (5000, 0.2)) for _ in range(5)]
    line = [(size, 2e-3 + 4e-6 * size) for size in (1000, 3000, 5000) for _ in range(5)]
    kept, changed = refreshed(cost, {(0, 1): noise, (1, 0): line})
    assert changed.tolist() == [[False, False], [True, False]]
    assert kept.theta_s_per_byte[0, 1] == cost.theta_s_per_byte[0, 1] and kept.r_squared[0, 1] == cost.r_squared[0, 1]
    assert not np.array_equal(kept.moments[0, 1], cost.moments[0, 1])
    assert kept.theta_s_per_byte[1, 0] > 2e-6 and kept.r_squared[1, 0] > 0
    for _ in range(4):
        kept, changed = refreshed(kept, {(0, 1): line})
    assert changed.tolist() == [[False, True], [False, False]]
    assert kept.theta_s_per_byte[0, 1] == pytest.approx(4e-6, rel=0.05)


def test_old_epochs_are_forgotten():
    transfers = Transfers(most=3)
    for epoch in range(10):
        transfers.observe([arrival(0, 1, 10, posted=float(epoch), came=epoch + 1.0)])
    seen = transfers.take()
    assert seen.posted[PLACE].tolist() == [7.0, 8.0, 9.0] and seen.completions[PLACE, 0].tolist()[0] == [10.0, 8.0]
    assert transfers.take().posted == {}


def offsets_of(rank, workers):
    """Compare recorded clocks: round trips take 3, 1 and then 5 s; rank 2 answers when its clock is 51 s ahead."""
    asks, trips = itertools.count(0.0, 100.0), itertools.chain((3.0, 1.0), itertools.repeat(5.0))
    here = itertools.chain.from_iterable((asked, asked + trip) for asked, trip in zip(asks, trips))
    there = itertools.count(51.0, 100.0)
    transfers_module.time = SimpleNamespace(perf_counter=partial(next, here if rank == 0 else there))
    names = ["here", "here", "there"]
    found = clock_offsets(rank, names), clock_offsets(rank, names, seconds=50.0 if rank == 2 else 0.0)
    return *found, clock_offsets(rank, [machine()] * 3)


def test_clock_offsets_take_the_quickest_round_trip_of_each_machine():
    for found, moved, same in run_ranks(offsets_of, 3):
        # Of the second round trip: sent at 100 s, answered half a second later, when the other clock shows 151 s.
        assert found == [0.0, 0.0, 100.5 - 151.0]
        assert moved == [0.0, 0.0, 802.5 - (851.0 + 50.0)] and same == [0.0, 0.0, 0.0]
