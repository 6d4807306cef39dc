"""The solver: equal to brute force where that is possible, never below its bound, close to HiGHS and faster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gnnqlab.bits.assigner.pareto import front_over_lam
from gnnqlab.bits.assigner.problem import Problem, Solution
from gnnqlab.bits.assigner.reference import brute_force, solve_reference
from gnnqlab.bits.assigner.relaxation import dual_bound, lower_hull, relax, upgrades
from gnnqlab.bits.assigner.solver import _assign, solve
from gnnqlab.bits.row import two_parameters
from tests.bits.problems import from_messages, irregular
from tests.cases import each

# Objectives are sums of terms of at most 1; the remaining difference is rounding.
ROUNDING = 1e-11


def unlisted(problem: Problem, tolerance: float) -> Solution:
    """Return the solution and the bound of the first pass alone."""
    ups = upgrades(problem)
    relaxed = relax(problem, ups)
    return _assign(problem, ups, relaxed, dual_bound(problem, relaxed.multipliers), [], tolerance).solution(problem)


def relaxed_objective(problem: Problem) -> tuple[float, float]:
    """Return the relaxed optimum by its variance and seconds, and by its multipliers."""
    ups = upgrades(problem)
    relaxed = relax(problem, ups)
    variance = ups.relaxed_variance(relaxed.seconds[problem.link_round]).sum() + problem.ends[0]
    utopia_v, _, utopia_t, _ = problem.ends
    weight_v, weight_t = problem.weights
    proved = dual_bound(problem, relaxed.multipliers).sum() - weight_v * utopia_v - weight_t * utopia_t
    return problem.objective(variance, relaxed.seconds.sum()), proved


@each("block", range(10))
def test_equals_brute_force_on_anything_with_few_groups(block):
    for seed in range(20 * block, 20 * block + 20):
        problem = irregular(seed, most_groups=5 if seed % 4 else 7)
        truth, ours = brute_force(problem), solve(problem)
        assert ours.objective == pytest.approx(truth.objective, abs=ROUNDING), seed
        assert ours.bound <= truth.objective + ROUNDING and ours.gap < 1e-6, seed
        assert set(ours.widths.tolist()) <= set(problem.widths)


@each("block", range(10))
def test_without_lists_the_bound_still_holds_and_the_answer_is_not_beaten(block):
    for seed in range(1000 + 30 * block, 1000 + 30 * block + 30):
        problem = irregular(seed, most_groups=6)
        truth = brute_force(problem)
        for tolerance in (0.0, 1e-2):
            quick = unlisted(problem, tolerance)
            assert quick.bound <= truth.objective + ROUNDING, seed
            assert quick.objective >= truth.objective - ROUNDING, seed


@each("transport", ["ring", "direct"])
@each("widths", [(2, 4, 8), (1, 2, 4, 8), (2, 8), (4,), (2, 4, 8, 32)])
def test_equals_brute_force_on_messages(transport, widths):
    for seed, lam in enumerate((0.0, 0.05, 0.3, 0.5, 0.8, 0.99, 1.0)):
        problem = from_messages(2, 3, seed=seed, lam=lam, widths=widths, transport=transport, columns=37)
        truth, ours = brute_force(problem), solve(problem)
        assert ours.objective == pytest.approx(truth.objective, abs=ROUNDING)
        assert unlisted(problem, 0.0).bound <= truth.objective + ROUNDING


@each(("workers", "groups"), [(2, 40), (4, 12), (8, 4), (24, 2)])
@each("transport", ["ring", "senders"])
def test_relaxation_is_exact(workers, groups, transport):
    pytest.importorskip("cvxpy")
    for seed, lam in enumerate((0.1, 0.5, 0.9)):
        problem = from_messages(workers, groups, seed=seed, lam=lam, transport=transport)
        primal, proved = relaxed_objective(problem)
        assert primal == pytest.approx(proved, abs=ROUNDING)
        assert primal == pytest.approx(solve_reference(problem, relaxed=True).objective, abs=1e-6)


@each("seed", range(60))
def test_primal_and_dual_meet_on_anything(seed):
    problem = irregular(seed, most_groups=60)
    primal, proved = relaxed_objective(problem)
    assert primal == pytest.approx(proved, abs=ROUNDING)


@each(
    ("workers", "groups", "transport"),
    [(2, 40, "ring"), (4, 10, "ring"), (4, 10, "senders"), (8, 4, "ring"), (24, 1, "ring"), (24, 1, "senders")],
)
def test_agrees_with_highs(workers, groups, transport):
    pytest.importorskip("cvxpy")
    for seed, lam in enumerate((0.2, 0.7)):
        problem = from_messages(workers, groups, seed=seed, lam=lam, transport=transport)
        ours = solve(problem)
        highs = solve_reference(problem, time_limit_s=5)
        assert highs.solution is not None
        # No assignment is below our bound, and HiGHS's relative gap is 1e-4.
        assert ours.bound <= highs.objective + 1e-6
        assert ours.objective <= highs.objective * (1 + ours.gap + 1e-6) + 1e-9


@each("transport", ["ring", "senders", "direct"])
def test_pure_optima(transport):
    problem = from_messages(5, 30, seed=2, transport=transport)
    fast, fine = solve(replace(problem, lam=0.0)), solve(replace(problem, lam=1.0))
    utopia_v, nadir_v, utopia_t, _ = problem.ends
    assert fast.seconds == pytest.approx(utopia_t, rel=1e-12) and fast.gap == 0
    assert fine.variance == pytest.approx(utopia_v, rel=1e-9) and fine.gap == 0
    assert set(fine.widths.tolist()) == {8}
    # Of all assignments that take the least time, one that uses the spare time of the faster links.
    assert fast.variance < 0.9 * nadir_v


def test_rows_with_zero_beta_get_the_lowest_bit_width():
    problem = from_messages(2, 30, lam=1.0)
    problem = replace(problem, group_beta=np.where(np.arange(problem.group_beta.size) % 3, problem.group_beta, 0.0))
    widths = solve(problem).widths
    assert (widths[problem.group_beta == 0] == 2).all() and (widths[problem.group_beta > 0] == 8).all()


@each("lam", [0.1, 0.5, 0.9])
@each(("groups", "most"), [(40, 1e-3), (500, 1e-4)])
def test_gap_is_small_on_24_devices(lam, groups, most):
    problem = from_messages(24, groups, lam=lam)
    ours = solve(problem)
    assert ours.gap <= most and 0 < ours.bound <= ours.objective
    assert ours.objective == pytest.approx(problem.objective(ours.variance, ours.seconds))


def test_listing_closes_the_gap():
    problem = from_messages(8, 20, seed=4)
    quick, exact = solve(problem, most_open=0), solve(problem)
    assert quick.gap > exact.gap <= 1e-4
    assert quick.bound <= exact.objective <= quick.objective + ROUNDING


def test_order_of_groups_does_not_matter():
    problem = from_messages(4, 25, seed=5)
    shuffle = np.random.default_rng(0).permutation(problem.group_rows.size)
    other = replace(
        problem,
        group_pair=problem.group_pair[shuffle],
        group_rows=problem.group_rows[shuffle],
        group_beta=problem.group_beta[shuffle],
    )
    straight, shuffled = solve(problem), solve(other)
    assert shuffled.objective == pytest.approx(straight.objective, abs=1e-4 * straight.objective)
    assert max(straight.bound, shuffled.bound) <= min(straight.objective, shuffled.objective) + ROUNDING


def test_equal_groups_are_no_trouble():
    problem = from_messages(3, 40, seed=1)
    problem = replace(problem, group_beta=np.ones(problem.group_beta.size) * problem.group_rows)
    ours = solve(problem)
    assert ours.bound <= ours.objective and ours.gap <= 1e-3


def test_front_falls_in_variance_as_it_rises_in_time():
    problem = from_messages(4, 60, seed=3)
    front = front_over_lam(problem, np.linspace(0, 1, 11))
    seconds, variance = ([getattr(each, name) for each in front] for name in ("seconds", "variance"))
    # Each is the best for its λ up to its gap, so neighbours can be out of order by no more than that.
    assert (np.diff(seconds) >= -1e-3 * max(seconds)).all() and (np.diff(variance) <= 1e-3 * max(variance)).all()


def test_hull_leaves_out_widths_that_cost_more_for_less():
    one = irregular(0)
    assert lower_hull(replace(one, widths=(2, 4, 8), columns=64)).tolist() == [0, 1, 2]
    # One column: a byte of payload at each width, so only the largest bit-width is worth its byte.
    assert lower_hull(replace(one, widths=(1, 2, 4, 8), columns=1)).tolist() == [3]
    # Exact rows carry no parameters; two columns of 32 bits are shorter than 8 bits and their parameters.
    assert lower_hull(replace(one, widths=(2, 8, 32), columns=2, param_bytes=two_parameters(4))).tolist() == [2]


def test_invalid_multipliers_of_the_dual_bound_raise_value_error():
    problem = from_messages(2, 3)
    with pytest.raises(ValueError, match="multipliers must be at least 0 and sum to"):
        dual_bound(problem, np.array([0.0, 0.0]))
