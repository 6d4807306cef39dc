"""The bit-width problem: bytes as in messages, both objectives by hand, normalised, and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gnnqlab.bits.assigner.assemble import MessageGroups, assemble
from gnnqlab.bits.assigner.problem import Problem
from gnnqlab.bits.assigner.reference import brute_force, solve_reference
from gnnqlab.bits.row import row_bytes, two_parameters
from gnnqlab.message.layout import make_layout
from gnnqlab.theory.cost import LinkCost, exchange_s
from tests.bits.problems import from_messages, irregular
from tests.cases import each


@pytest.fixture
def small() -> Problem:
    """Two pairs in two rounds, three groups."""
    return Problem(
        widths=(2, 4, 8),
        columns=5,
        lam=0.25,
        group_pair=[0, 0, 1],
        group_rows=[3, 2, 4],
        group_beta=[9.0, 1.0, 4.0],
        pair_link=[0, 1],
        link_round=[0, 1],
        theta_s_per_byte=[0.5, 1.0],
        gamma_s=[1.0, 2.0],
    )


@each("columns", [1, 3, 5, 64, 257])
def test_bytes_are_those_of_the_wire(columns):
    widths = torch.tensor([2, 8, 4, 1, 2], dtype=torch.uint8)
    for parameter in (2, 4):
        layout = make_layout(widths, 5, columns, param_bytes=two_parameters(parameter))
        assert layout.num_bytes == sum(row_bytes(int(width), columns, two_parameters(parameter)) for width in widths)


def test_both_objectives_by_hand(small):
    choice = small.choice([8, 2, 4])
    assert small.variance(choice) == pytest.approx(9 / 255**2 + 1 / 9 + 4 / 225)
    # Rows take 8 bytes of parameters and 2, 3 or 5 of payload.
    first, second = 1 + 0.5 * (3 * 13 + 2 * 10), 2 + 1.0 * 4 * 11
    assert small.link_s(choice).tolist() == [first, second]
    assert small.seconds(choice) == first + second
    utopia_v, nadir_v, utopia_t, nadir_t = small.ends
    assert (utopia_v, nadir_v) == pytest.approx((14 / 255**2, 14 / 9))
    assert (utopia_t, nadir_t) == (1 + 0.5 * 50 + 2 + 40, 1 + 0.5 * 65 + 2 + 52)
    v = (small.variance(choice) - utopia_v) / (nadir_v - utopia_v)
    t = (first + second - utopia_t) / (nadir_t - utopia_t)
    solution = small.solution(choice, 0.0)
    assert solution.objective == pytest.approx(0.25 * v + 0.75 * t)
    assert solution.widths.tolist() == [8, 2, 4] and solution.widths.dtype == np.uint8


def test_a_round_is_as_slow_as_its_slowest_link(small):
    together = replace(small, link_round=[0, 0])
    choice = small.choice([2, 2, 2])
    assert together.seconds(choice) == max(small.link_s(choice))
    one_link = replace(small, pair_link=[0, 0], link_round=[0])
    assert one_link.seconds(choice) == sum(small.link_s(choice))


def test_last_group_is_charged_for_its_true_size():
    message = MessageGroups(0, 1, [100, 1], [5.0, 1.0])
    problem = assemble([message], LinkCost.uniform(2, bytes_per_s=1.0), columns=8, lam=0.5)
    assert problem.seconds(problem.choice([2, 2])) == 101 * row_bytes(2, 8, two_parameters(4))


@each("transport", ["ring", "direct"])
def test_seconds_are_those_of_the_cost_model(transport):
    problem = from_messages(4, 3, seed=3, transport=transport)
    widths = np.random.default_rng(0).choice([2, 4, 8], problem.group_rows.size)
    sent, theta, gamma = np.zeros((4, 4)), np.zeros((4, 4)), np.zeros((4, 4))
    pairs = [(sender, receiver) for sender in range(4) for receiver in range(4) if sender != receiver]
    for index, (sender, receiver) in enumerate(pairs):
        mine = problem.group_pair == index
        sent[sender, receiver] = sum(
            rows * row_bytes(int(width), problem.columns, two_parameters(4))
            for rows, width in zip(problem.group_rows[mine], widths[mine])
        )
        theta[sender, receiver], gamma[sender, receiver] = problem.theta_s_per_byte[index], problem.gamma_s[index]
    plain = LinkCost.uniform(4, bytes_per_s=1.0)
    cost = replace(plain, theta_s_per_byte=theta, gamma_s=gamma)
    expected = exchange_s(cost, sent, transport=transport)
    assert problem.seconds(problem.choice(widths)) == pytest.approx(expected)


def test_messages_without_rows_are_left_out():
    cost = LinkCost.uniform(3, bytes_per_s=1.0, latency_s=7.0)
    messages = [MessageGroups(0, 1, [4], [1.0]), MessageGroups(1, 2, [], []), MessageGroups(2, 1, [2], [1.0])]
    problem = assemble(messages, cost, columns=4, lam=0.5, transport="ring")
    assert problem.theta_s_per_byte.size == 2 and problem.num_rounds == 2
    assert problem.gamma_s.sum() == 14


def test_objective_without_alternatives_has_weight_zero(small):
    assert replace(small, group_beta=[0.0, 0.0, 0.0]).weights[0] == 0
    assert replace(small, theta_s_per_byte=[0.0, 0.0]).weights[1] == 0
    assert replace(small, widths=(4,)).weights == (0, 0)


@each("seed", range(12))
def test_highs_agrees_with_brute_force(seed):
    pytest.importorskip("cvxpy")
    problem = irregular(seed, most_groups=5)
    found = solve_reference(problem)
    truth = brute_force(problem)
    # HiGHS calls 1e-6 in its own units feasible, and stops at a gap of 1e-4.
    assert found.objective == pytest.approx(truth.objective, rel=2e-4, abs=2e-5)
    relaxed = solve_reference(problem, relaxed=True)
    assert relaxed.solution is None and relaxed.objective <= truth.objective + 1e-6


def with_one(**changes):
    facts = {
        "widths": (2, 4), "columns": 4, "lam": 0.5, "group_pair": [0], "group_rows": [1], "group_beta": [1.0],
        "pair_link": [0], "link_round": [0], "theta_s_per_byte": [1.0], "gamma_s": [0.0],
    }  # fmt: skip
    return Problem(**{**facts, **changes})


@each(
    ("changes", "text"),
    [
        ({"widths": ()}, r"widths must be some of \(1, 2, 3, 4, 8, 16, 32\), ascending, got \(\)"),
        ({"widths": (4, 2)}, "ascending"),
        ({"widths": (2, 5)}, r"got \(2, 5\)"),
        ({"lam": 1.5}, r"λ must lie in \[0, 1\], got 1.5"),
        ({"lam": float("nan")}, "λ must lie"),
        ({"columns": 0}, "columns must be at least 1, got 0"),
        ({"group_pair": [], "group_rows": [], "group_beta": []}, "at least one group of rows .* no messages"),
        ({"group_beta": [1.0, 2.0]}, r"group_beta must have 1 entries, got shape \(2,\)"),
        ({"group_rows": [0]}, "every group must have at least one row, got 0"),
        ({"group_beta": [float("nan")]}, "group_beta must be finite and not negative, got nan at 0"),
        ({"theta_s_per_byte": [-1.0]}, "theta_s_per_byte must be finite and not negative, got -1.0"),
        ({"gamma_s": [float("inf")]}, "gamma_s must be finite"),
        ({"group_pair": [1]}, "group_pair must name each of 1 at least once and no other"),
        ({"link_round": [1]}, "link_round must count rounds from 0"),
    ],
)
def test_bad_problems_are_refused_with_the_reason(changes, text):
    with pytest.raises(ValueError, match=text):
        with_one(**changes)


def test_bad_messages_and_choices_are_refused():
    cost = LinkCost.uniform(2, bytes_per_s=1.0)
    one = MessageGroups(0, 1, [1], [1.0])
    with pytest.raises(ValueError, match="no messages"):
        assemble([MessageGroups(0, 1, [], [])], cost, columns=4, lam=0.5)
    with pytest.raises(ValueError, match="at most one for each ordered pair"):
        assemble([one, one], cost, columns=4, lam=0.5)
    with pytest.raises(ValueError, match="transport must be 'ring' or 'direct', got 'x'"):
        assemble([one], cost, columns=4, lam=0.5, transport="x")
    with pytest.raises(ValueError, match=r"each of 1 groups needs one of the widths \(2, 4\)"):
        with_one().choice([8])
    with pytest.raises(ValueError, match="at most 8 groups, got 9; use solve"):
        brute_force(with_one(group_pair=[0] * 9, group_rows=[1] * 9, group_beta=[1.0] * 9))


def test_shares_of_another_codec_take_the_place_of_those_of_min_max_codes():
    message = MessageGroups(0, 1, [2, 1], [4.0, 1.0])
    cost = LinkCost.uniform(2, bytes_per_s=1.0)
    problem = assemble([message], cost, columns=8, lam=0.5, width_shares=(0.5, 0.25, 0.0))
    assert problem.variance(np.array([0, 1])) == 4.0 * 0.5 + 1.0 * 0.25 and (problem.cheapest, problem.finest) == (0, 2)
    assert assemble([message], cost, columns=8, lam=0.5).width_variance.tolist() == [1 / 9, 1 / 225, 1 / 255**2]
    for shares, said in (((1.0,), "must have 3 entries"), ((1.0, -0.5, 0.0), "finite and not negative, got -0.5 at 1")):
        with pytest.raises(ValueError, match=f"width_variance {said}|width_variance must be {said}"):
            assemble([message], cost, columns=8, lam=0.5, width_shares=shares)
