"""Random instances of the bit-width problem: regular ones as of messages, and irregular ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gnnqlab.bits.assigner.assemble import MessageGroups, assemble
from gnnqlab.bits.assigner.problem import Problem
from gnnqlab.bits.row import two_parameters
from gnnqlab.theory.cost import LinkCost


def from_messages(
    workers: int,
    groups: int,
    *,
    seed: int = 0,
    lam: float = 0.5,
    widths: tuple[int, ...] = (2, 4, 8),
    columns: int = 256,
    size: int = 100,
    transport: str = "ring",
    spread: float = 2.0,
) -> Problem:
    """Build messages of every pair with about ``groups`` groups of ``size`` rows, the last one shorter, β falling.

    Transport ``senders``: all at once, and messages queue only at their senders.
    """
    generator = np.random.default_rng(seed)
    cost = LinkCost.uniform(workers, bytes_per_s=1e8)
    theta = cost.theta_s_per_byte * generator.uniform(0.7, 1.4, cost.theta_s_per_byte.shape)
    gamma = (theta > 0) * generator.uniform(0, 2e-4, theta.shape)
    cost = LinkCost(theta_s_per_byte=theta, gamma_s=gamma, r_squared=cost.r_squared, moments=cost.moments)
    messages = []
    for sender in range(workers):
        for receiver in range(workers):
            if sender == receiver:
                continue
            number = max(1, int(groups * generator.uniform(0.5, 1.0)) if groups > 2 else groups)
            rows = np.full(number, size)
            rows[-1] = generator.integers(1, size + 1)
            beta = np.sort(generator.lognormal(0, spread, number) * generator.lognormal(0, 1))[::-1]
            messages.append(MessageGroups(sender, receiver, rows, beta * rows / size))
    how = "ring" if transport == "ring" else "direct"
    problem = assemble(messages, cost, columns=columns, lam=lam, widths=widths, transport=how)
    if transport != "senders" or problem.pair_far_link is None:
        return problem
    return replace(problem, pair_far_link=None, link_round=problem.link_round[: problem.pair_link.max() + 1])


def irregular(seed: int, *, most_groups: int = 8) -> Problem:
    """Groups of any size in any order, zero β, free links, shared links, few columns, any set of widths."""
    generator = np.random.default_rng(seed)
    groups = int(generator.integers(1, most_groups + 1))
    pairs = int(generator.integers(1, groups + 1))
    links = int(generator.integers(1, pairs + 1))
    rounds = int(generator.integers(1, links + 1))

    def onto(size: int, number: int) -> np.ndarray:
        """Return a random map onto all numbers."""
        return generator.permutation(np.append(np.arange(number), generator.integers(0, number, size - number)))

    known = np.array([1, 2, 4, 8, 16, 32])
    widths = np.sort(generator.choice(known, size=generator.integers(1, 5), replace=False))
    beta = generator.lognormal(0, 2, groups) * (generator.random(groups) > 0.15)
    if generator.random() < 0.2:
        beta[:] = beta[0]
    theta = generator.uniform(0.1, 1.0, pairs) * (generator.random(pairs) > 0.1)
    rows = generator.integers(1, 40, groups) if generator.random() < 0.5 else np.full(groups, 10)
    return Problem(
        widths=tuple(widths.tolist()),
        columns=int(generator.integers(1, 40)),
        lam=float(generator.choice([0, 0.01, 0.3, 0.5, 0.9, 0.999, 1])),
        group_pair=onto(groups, pairs),
        group_rows=rows,
        group_beta=beta,
        pair_link=onto(pairs, links),
        link_round=onto(links, rounds),
        theta_s_per_byte=theta,
        gamma_s=generator.uniform(0, 20, pairs) * (generator.random(pairs) > 0.5),
        param_bytes=two_parameters(int(generator.choice([2, 4]))),
    )
