"""Bit-widths by the constraint of AdaQP's slides, which leaves θ of the links out, beside those by Eq. 12."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from gnnqlab.bits.assigner.assemble import Message, assemble
from gnnqlab.bits.assigner.problem import Problem
from gnnqlab.bits.assigner.solver import solve
from gnnqlab.theory.cost import LinkCost

__all__ = ["WithoutRates", "without_rates"]

_WORKERS, _GROUPS, _ROWS = 4, 10, 100


@dataclass(frozen=True)
class WithoutRates:
    """What the slides' widths come to at the true rates, over what Eq. 12's do."""

    objective: float
    """Normalised, λ = 1/2."""
    seconds: float
    """Of the exchange."""


def without_rates(slower: float) -> WithoutRates:
    """Assign widths to messages of lognormal β in ring rounds of four workers, with θ of the links and without.

    Args:
        slower: what worker 0 takes for a byte, over what the others take; at least 1.

    Example:
        >>> alike, slow = without_rates(1.0), without_rates(10.0)
        >>> round(alike.objective, 2), slow.objective > 1.05
        (1.0, True)
    """
    paper = _problem(slower)
    slides = replace(paper, theta_s_per_byte=np.ones_like(paper.theta_s_per_byte))
    choice, best = paper.choice(solve(slides).widths), solve(paper)
    objective = paper.objective(paper.variance(choice), paper.seconds(choice))
    return WithoutRates(objective / best.objective, paper.seconds(choice) / best.seconds)


def _problem(slower: float) -> Problem:
    generator, cost = np.random.default_rng(0), LinkCost.uniform(_WORKERS, bytes_per_s=1e8)
    rates = np.ones((_WORKERS, 1))
    rates[0] = slower
    messages = [
        Message(sender, receiver, np.full(_GROUPS, _ROWS), np.sort(generator.lognormal(0, 2, _GROUPS))[::-1])
        for sender, receiver in itertools.permutations(range(_WORKERS), 2)
    ]
    cost = replace(cost, theta_s_per_byte=rates * cost.theta_s_per_byte)
    return assemble(messages, cost, columns=256, lam=0.5, transport="ring")
