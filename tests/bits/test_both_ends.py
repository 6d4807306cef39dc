"""Transfers that queue at both ends: compared with all assignments by independent arithmetic."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from gnnqlab.bits.assigner.assemble import MessageGroups, assemble
from gnnqlab.bits.assigner.full_duplex import solve_full_duplex
from gnnqlab.bits.assigner.problem import Problem
from gnnqlab.bits.assigner.reference import brute_force, solve_reference
from gnnqlab.bits.assigner.relaxation import dual_bound
from gnnqlab.bits.assigner.solver import solve
from gnnqlab.bits.row import row_bytes, two_parameters
from gnnqlab.theory.cost import LinkCost
from tests.bits.problems import from_messages
from tests.cases import each

FEASIBLE = 1e-5
"""Largest error of HiGHS: it calls 1e-6 of a row feasible."""


def drawn(workers: int, groups: int, seed: int, *, lam: float, widths=(2, 4, 8), dense: float = 1.0):
    """Return messages between some pairs, of few groups each, over links of uneven rate that differ by direction."""
    generator = np.random.default_rng(seed)
    theta = generator.uniform(0.2, 2.0, (workers, workers)) * (1 - np.eye(workers))
    gamma = generator.uniform(0, 30, (workers, workers)) * (1 - np.eye(workers))
    plain = LinkCost.uniform(workers, bytes_per_s=1.0)
    cost = replace(plain, theta_s_per_byte=theta, gamma_s=gamma)
    pairs = [pair for pair in product(range(workers), repeat=2) if pair[0] != pair[1] and generator.random() < dense]
    pairs = pairs or [(0, 1), (2, 1)]
    messages = []
    for sender, receiver in pairs:
        number = int(generator.integers(1, groups + 1))
        rows = generator.integers(1, 30, number)
        messages.append(MessageGroups(sender, receiver, rows, generator.lognormal(0, 2, number)))
    columns = int(generator.integers(4, 40))
    return messages, cost, columns, assemble(messages, cost, columns=columns, lam=lam, widths=widths)


def every_objective(messages, cost, columns, lam, widths):
    """Return variance, seconds and objective of every assignment, from the messages alone, for the busiest end."""
    rows = [int(count) for message in messages for count in message.rows]
    beta = [float(value) for message in messages for value in message.beta]
    pair = [(message.sender, message.receiver) for message in messages for _ in message.rows]
    size = {width: row_bytes(width, columns, two_parameters(4)) for width in widths}
    noise = {width: 0.0 if width == 32 else 1 / (2**width - 1) ** 2 for width in widths}

    every = np.array(list(product(range(len(widths)), repeat=len(rows))))  # index of a width, (assignments, groups)
    variance = sum(value * np.array([noise[width] for width in widths])[every[:, k]] for k, value in enumerate(beta))
    busy = {}
    for message in messages:
        for end in (("out", message.sender), ("in", message.receiver)):
            busy[end] = busy.get(end, 0.0) + np.full(len(every), cost.gamma_s[message.sender, message.receiver])
    for k, (count, (sender, receiver)) in enumerate(zip(rows, pair)):
        sizes = np.array([size[width] for width in widths])[every[:, k]]
        for end in (("out", sender), ("in", receiver)):
            busy[end] = busy[end] + cost.theta_s_per_byte[sender, receiver] * count * sizes
    seconds = np.max(list(busy.values()), axis=0)

    def share(values, low, high):
        return (values - low) / (high - low) if high > low else 0.0 * values

    return every, lam * share(variance, variance[-1], variance[0]) + (1 - lam) * share(seconds, seconds[0], seconds[-1])


def check(workers, groups, seed, lam, widths, dense):
    messages, cost, columns, problem = drawn(workers, groups, seed, lam=lam, widths=widths, dense=dense)
    every, truth = every_objective(messages, cost, columns, lam, widths)
    best = truth.min()
    both = problem.pair_far_link is not None
    # Few open groups are enumerated; the integer program, which is for many, must agree.
    for ours in (solve(problem), *([solve_full_duplex(problem, most_tried=0)] if both else [])):
        place = (every == np.searchsorted(widths, ours.widths)).all(axis=1).argmax()
        assert ours.objective == pytest.approx(truth[place], abs=1e-9), "differs from the objective"
        assert ours.objective <= best + FEASIBLE, (seed, ours.objective, best)
        assert ours.bound <= best + 1e-12, "the bound is above the optimum"
        assert ours.gap <= 1e-4 or ours.objective - ours.bound <= FEASIBLE
    return both


@each("lam", [0.0, 0.05, 0.3, 0.5, 0.9, 1.0])
def test_equals_every_assignment_of_three_workers(lam):
    ends = [check(3, 2, seed, lam, (2, 8) if seed % 2 else (2, 4, 8), 1.0 if seed < 4 else 0.8) for seed in range(8)]
    assert sum(ends) >= 6


@each("lam", [0.1, 0.5, 0.8])
def test_equals_every_assignment_of_four_workers(lam):
    ends = [check(4, 1, 50 + seed, lam, (2, 8), 1.0) for seed in range(3)]
    ends += [check(4, 2, 60 + seed, lam, (2, 4, 8), 0.5) for seed in range(3)]
    assert sum(ends) >= 4


@each("transposed", [False, True])
def test_rows_on_the_busiest_link_end_get_narrower_bit_widths(transposed):
    """Two senders, one receiver: its link is busy twice as long as theirs. Backward there is one sender."""
    cost = LinkCost.uniform(3, bytes_per_s=1.0)
    pairs = [(0, 1), (2, 1), (1, 0)]
    messages = [MessageGroups(*(pair[::-1] if transposed else pair), [10] * 4, [8.0, 4.0, 2.0, 1.0]) for pair in pairs]
    problem = assemble(messages, cost, columns=64, lam=0.5)
    found = solve(problem)
    bits = found.widths.reshape(3, 4).astype(int)
    assert (bits[2] == 8).all(), "an end with spare time uses it"
    assert bits[:2].sum() < 2 * bits[2].sum()
    busiest = sum(10 * row_bytes(int(width), 64, two_parameters(4)) for width in bits[:2].ravel())
    assert found.seconds == busiest


def test_two_workers_fan_out_fan_in_and_ring_need_no_second_queue():
    message = {"rows": [3, 2], "beta": [2.0, 1.0]}
    both = [MessageGroups(0, 1, **message), MessageGroups(1, 0, **message)]
    two = assemble(both, LinkCost.uniform(2, bytes_per_s=1.0),
                   columns=4, lam=0.5)  # fmt: skip
    assert two.pair_far_link is None and two.pair_link.tolist() == [0, 1]
    three = LinkCost.uniform(3, bytes_per_s=1.0)
    fan_out = assemble([MessageGroups(0, 1, **message), MessageGroups(0, 2, **message)], three, columns=4, lam=0.5)
    fan_in = assemble([MessageGroups(1, 0, **message), MessageGroups(2, 0, **message)], three, columns=4, lam=0.5)
    assert fan_out.pair_far_link is fan_in.pair_far_link is None
    assert fan_out.pair_link.tolist() == fan_in.pair_link.tolist() == [0, 0]
    ring = assemble(
        [MessageGroups(0, 1, **message), MessageGroups(2, 1, **message)], three, columns=4, lam=0.5, transport="ring"
    )
    assert ring.pair_far_link is None and ring.num_rounds == 2


def test_links_may_be_named_in_any_order():
    _, _, _, problem = drawn(3, 2, 1, lam=0.4)
    assert problem.pair_far_link is not None
    swapped = replace(problem, pair_link=problem.pair_far_link, pair_far_link=problem.pair_link)
    assert solve(swapped).objective == pytest.approx(solve(problem).objective, abs=FEASIBLE)
    shuffle = np.random.default_rng(0).permutation(problem.group_rows.size)
    names = ("group_pair", "group_rows", "group_beta")
    shuffled = replace(problem, **{name: getattr(problem, name)[shuffle] for name in names})
    assert solve(shuffled).objective == pytest.approx(solve(problem).objective, abs=FEASIBLE)


@each(("workers", "groups", "most"), [(3, 8, 1e-4), (3, 40, 5e-3), (4, 25, 0.08), (8, 10, 0.05)])
def test_agrees_with_highs_and_the_gap_is_small(workers, groups, most):
    for seed, lam in enumerate((0.1, 0.5, 0.9)):
        problem = from_messages(workers, groups, seed=seed, lam=lam, transport="direct")
        ours = solve(problem)
        assert 0 <= ours.bound <= ours.objective == pytest.approx(problem.objective(ours.variance, ours.seconds))
        assert ours.gap <= most
        if workers < 8:
            pytest.importorskip("cvxpy")
            relaxed = solve_reference(problem, relaxed=True).objective
            assert relaxed <= ours.objective + 1e-6
            assert ours.bound >= relaxed - 1e-5


def test_highs_and_brute_force_find_the_same_objective():
    pytest.importorskip("cvxpy")
    for seed in range(3):
        _, _, _, problem = drawn(3, 1, 20 + seed, lam=0.5)
        assert solve_reference(problem).objective == pytest.approx(brute_force(problem).objective, rel=2e-4, abs=2e-5)


def test_a_price_is_paid_at_both_ends():
    _, _, _, problem = drawn(3, 1, 3, lam=0.5)
    _, weight_t = problem.weights
    multipliers = np.full(problem.link_round.size, weight_t / problem.link_round.size)
    utopia_v, _, utopia_t, _ = problem.ends
    weight_v, _ = problem.weights
    proved = dual_bound(problem, multipliers).sum() - weight_v * utopia_v - weight_t * utopia_t
    assert proved <= brute_force(problem).objective


def test_one_ended_links_and_invalid_far_links_raise_value_error():
    _, _, _, problem = drawn(3, 1, 3, lam=0.5)
    with pytest.raises(ValueError, match="transfers must queue at both ends, got links at one end only; use solve"):
        solve_full_duplex(from_messages(2, 3, transport="direct"))
    with pytest.raises(ValueError, match="the ends of a pair must be two links"):
        replace(problem, pair_far_link=np.append(problem.pair_link[:1], problem.pair_far_link[1:]))
    with pytest.raises(ValueError, match="pair_far_link must have 6 entries"):
        replace(problem, pair_far_link=problem.pair_far_link[:2])
    with pytest.raises(ValueError, match="must all be in one round, got 2 rounds"):
        replace(problem, link_round=[0, 0, 0, 1, 1, 1])


def test_problem_computes_busy_seconds_of_both_link_ends():
    cost = LinkCost.uniform(3, bytes_per_s=1.0, latency_s=3.0)
    pairs = [(0, 1), (2, 1), (1, 2), (0, 2)]
    problem: Problem = assemble([MessageGroups(*pair, [5], [1.0]) for pair in pairs], cost, columns=8, lam=0.5)
    size = {width: row_bytes(width, 8, two_parameters(4)) for width in (2, 4, 8)}
    busy = problem.link_s(problem.choice([2, 4, 8, 8]))
    leaving = [6 + 5 * (size[2] + size[8]), 3 + 5 * size[8], 3 + 5 * size[4]]
    entering = [6 + 5 * (size[2] + size[4]), 6 + 5 * (size[8] + size[8])]
    assert busy.tolist() == [*leaving, *entering]
    assert problem.seconds(problem.choice([2, 4, 8, 8])) == entering[1] > max(leaving)
