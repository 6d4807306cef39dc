"""Pareto front over λ: variance against seconds of the exchange (AdaQP Fig. 11, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gnnqlab.bits.assigner.problem import Problem, Solution
from gnnqlab.bits.assigner.solver import solve

__all__ = ["front_over_lam"]


def front_over_lam(problem: Problem, lams: Sequence[float] = tuple(np.linspace(0, 1, 21))) -> list[Solution]:
    """Solve one problem for several λ, as a slider needs.

    Returns:
        A solution for each λ, in the order of ``lams``. As λ grows, time does not fall and variance does not rise, up
        to the gaps of the solutions.

    Example:
        >>> one = Problem(widths=(2, 8), columns=4, lam=0.5, group_pair=[0, 0], group_rows=[1, 1],
        ...     group_beta=[9.0, 0.1], pair_link=[0], link_round=[0], theta_s_per_byte=[1.0], gamma_s=[0.0])
        >>> [each.widths.tolist() for each in front_over_lam(one, (0.0, 0.5, 1.0))]
        [[2, 2], [8, 2], [8, 8]]
    """
    return [solve(replace(problem, lam=float(lam))) for lam in lams]
