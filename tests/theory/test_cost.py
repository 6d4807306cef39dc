"""The cost model: a fit that noise and outliers hardly change, never negative, and exchanges added up by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gnnqlab.theory.cost import LinkCost, all_at_once_s, epoch_s, exchange_s, fit, ring_round_s, ring_s
from tests.cases import each

SIZES = (4096, 32768, 131072, 524288, 1048576)


def timed(theta: float, gamma: float, *, repeats: int = 5, noise: float = 0.0, seed: int = 0):
    generator = np.random.default_rng(seed)
    return [
        (size, (theta * size + gamma) * float(generator.uniform(1 - noise, 1 + noise)))
        for size in SIZES
        for _ in range(repeats)
    ]


def columns(samples):
    return [size for size, _ in samples], [seconds for _, seconds in samples]


def test_a_line_is_found_exactly():
    theta, gamma, r_squared = fit(*columns(timed(8e-9, 2e-4)))
    assert (theta, gamma, r_squared) == pytest.approx((8e-9, 2e-4, 1.0), rel=1e-9)


def test_two_outliers_in_five_do_not_move_it():
    samples = timed(8e-9, 2e-4)
    for index in range(len(SIZES)):
        for shift in (0, 1):
            size, seconds = samples[5 * index + shift]
            samples[5 * index + shift] = (size, 50 * seconds)
    assert fit(*columns(samples))[:2] == pytest.approx((8e-9, 2e-4), rel=1e-9)


def test_noise_of_five_percent_leaves_both_within_ten():
    theta, gamma, r_squared = fit(*columns(timed(8e-9, 2e-4, noise=0.05, repeats=9)))
    assert theta == pytest.approx(8e-9, rel=0.1) and gamma == pytest.approx(2e-4, rel=0.1)
    assert 0.99 < r_squared <= 1


@each(
    ("medians", "theta", "gamma"),
    [
        # Points that bend up: the free line would start below 0.
        ({100: 1.0, 200: 8.0}, "positive", "zero"),
        # Larger messages that took less: the free line would fall.
        ({100: 2.0, 200: 1.0}, "zero", "positive"),
    ],
)
def test_neither_is_negative(medians, theta, gamma):
    samples = [(size, seconds) for size, seconds in medians.items() for _ in range(5)]
    fitted = dict(zip(("theta", "gamma"), fit(*columns(samples))[:2]))
    for name, sign in (("theta", theta), ("gamma", gamma)):
        assert fitted[name] > 0 if sign == "positive" else fitted[name] == 0
    x, y = np.array(list(medians), dtype=float), np.array(list(medians.values()))

    def loss(theta, gamma):
        return (((theta * x + gamma - y) / y) ** 2).sum()

    best = loss(fitted["theta"], fitted["gamma"])
    for theta_ in np.linspace(0, 0.1, 101):
        for gamma_ in np.linspace(0, 10, 101):
            assert best <= loss(theta_, gamma_) + 1e-12


def test_pairs_are_fitted_apart_and_refreshed_apart():
    samples = {(0, 1): timed(1e-8, 1e-4), (1, 0): timed(3e-8, 2e-4)}
    cost = LinkCost.measured(2, samples)
    assert cost.theta_s_per_byte[0, 1] == pytest.approx(1e-8) and cost.theta_s_per_byte[1, 0] == pytest.approx(3e-8)
    assert cost.gamma_s[1, 0] == pytest.approx(2e-4) and cost.theta_s_per_byte[0, 0] == 0
    # The link became twice as slow: old medians lose half their weight at each refresh, so θ approaches that value.
    slower = [(200_000, 2 * (1e-8 * 200_000 + 1e-4))] * 5 + [(400_000, 2 * (1e-8 * 400_000 + 1e-4))] * 5
    fresh = cost
    for _ in range(12):
        fresh = fresh.updated({(0, 1): slower})
    assert fresh.theta_s_per_byte[0, 1] == pytest.approx(2e-8, rel=0.05)
    assert fresh.theta_s_per_byte[1, 0] == cost.theta_s_per_byte[1, 0]


def test_update_ignores_sizes_with_too_few_samples():
    cost = LinkCost.uniform(2, bytes_per_s=1e8, latency_s=1e-4)
    same = cost.updated({(0, 1): [(5000, 9.0)] * 4})
    assert (same.theta_s_per_byte == cost.theta_s_per_byte).all() and (same.gamma_s == cost.gamma_s).all()


def test_uniform_model_is_its_own_fit():
    cost = LinkCost.uniform(3, bytes_per_s=1e8, latency_s=1e-4)
    again = cost.updated({(0, 1): [(10**5, 1e-4 + 1e-3)] * 5})
    assert again.theta_s_per_byte[0, 1] == pytest.approx(1e-8) and again.gamma_s[0, 1] == pytest.approx(1e-4)


def test_ring_rounds_are_those_of_the_transport():
    cost = LinkCost.uniform(4, bytes_per_s=1.0, latency_s=1.0)
    sent = np.arange(16.0).reshape(4, 4)
    expected = [max(sent[r, (r + k) % 4] for r in range(4)) + 1 for k in (1, 2, 3)]
    assert ring_round_s(cost, sent).tolist() == expected
    assert ring_s(cost, sent) == exchange_s(cost, sent, transport="ring") == sum(expected)
    pairs = [(r, c) for r in range(4) for c in range(4) if c != r and sent[r, c]]
    leaving, entering = ([sum(sent[p] + 1 for p in pairs if p[end] == r) for r in range(4)] for end in (0, 1))
    assert max(leaving) > max(entering)
    assert all_at_once_s(cost, sent) == exchange_s(cost, sent) == max(leaving)


def test_all_at_once_time_uses_the_busiest_end_in_each_direction():
    cost = LinkCost.uniform(3, bytes_per_s=2.0, latency_s=0.5)
    into_one = np.array([[0.0, 8.0, 0.0], [0.0, 0.0, 2.0], [0.0, 8.0, 0.0]])
    # Each of the two senders is busy for 4.5 s, the common receiver for 9.
    assert all_at_once_s(cost, into_one) == 9.0
    # Backward every message has the other direction: then there is one sender.
    assert all_at_once_s(cost, into_one.T) == 9.0
    slow_out = LinkCost(
        theta_s_per_byte=np.array([[0.0, 3.0, 3.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]),
        gamma_s=np.zeros((3, 3)), r_squared=cost.r_squared, moments=cost.moments,
    )  # fmt: skip
    assert all_at_once_s(slow_out, into_one) == 3 * 8 + 8
    assert all_at_once_s(slow_out, into_one.T) == 8 + 8


def test_pair_without_messages_has_zero_cost():
    cost = LinkCost.uniform(2, bytes_per_s=1.0, latency_s=5.0)
    assert ring_s(cost, [[0, 0], [0, 0]]) == 0 and all_at_once_s(cost, [[0, 2], [0, 0]]) == 7
    assert ring_round_s(LinkCost.uniform(1, bytes_per_s=1.0), [[0.0]]).size == 0


def test_overlap_hides_the_shorter_of_both():
    assert epoch_s([4, 1], [1, 3], 2, overlapped=True) == 9
    assert epoch_s([4, 1], [1, 3], 2, overlapped=False) == 11


@each(
    ("make", "text"),
    [
        (lambda: fit([1, 2], [1.0, 2.0]), "timed at least 5 times, got 1 of 1 bytes"),
        (lambda: fit([8] * 5, [1.0] * 5), r"transfers must have at least two different sizes, got \[8\]"),
        (lambda: fit([8] * 5, [0.0] * 5), "finite positive seconds"),
        (lambda: LinkCost.measured(2, {(0, 1): timed(1e-8, 0)}), "got no transfer from 1 to 0"),
        (lambda: LinkCost.measured(2, {(0, 1): [(8, 1.0)] * 5, (1, 0): [(8, 1.0)] * 5}), "from 0 to 1"),
        (lambda: LinkCost.uniform(2, bytes_per_s=0), "rate must be positive"),
        (lambda: LinkCost.uniform(2, bytes_per_s=1).updated({}, keep=0), r"keep must lie in \(0, 1\], got 0"),
        (lambda: LinkCost.uniform(2, bytes_per_s=1).updated({(0, 0): []}), r"got \(0, 0\)"),
        (lambda: LinkCost.uniform(2, bytes_per_s=1).seconds([1.0]), r"bytes must have shape \(2, 2\), got \(1,\)"),
        (lambda: exchange_s(LinkCost.uniform(2, bytes_per_s=1), [[0]], transport="x"), "'ring' or 'direct', got 'x'"),
    ],
)
def test_bad_input_is_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()
