"""Every pair of time and variance that a link may need in the best assignment (Nemhauser and Ullmann, 1969).

Of a link's assignments only those matter that no other beats in both time and variance. Far fewer remain once an
assignment and a dual bound are known: with multipliers μ each width of a group has a *reduced cost*, what it adds to
the Lagrangian beyond the group's best width, and an assignment whose reduced costs add up to more than is left
between the bound and the known objective cannot be better than the known one. So most groups keep one width.

Letters: G groups, L links, R rounds, B widths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnnqlab.bits.assigner.link_stairs import Stairs
from gnnqlab.bits.assigner.problem import Problem

__all__ = ["Front", "front_stairs", "fronts"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_LONGEST = 4096
"""Longest list of a link that is followed."""
_ROUNDING = 1e-13
"""Of an objective that is at most 1."""


@dataclass(frozen=True, eq=False)
class Front:
    """Assignments of one link, by rising time and falling variance."""

    link: int
    groups: Index
    """All groups of the link."""
    usual: Index
    """Index of the width of each that has no choice."""
    open: Index
    """Which of them have one."""
    seconds: Array
    variance: Array
    """On top of what the finest width leaves."""
    parents: tuple[Index, ...]
    """After each open group, the place in the list before it that each pair came from."""
    options: tuple[Index, ...]
    """And the width that the group took."""

    def choice(self, place: int) -> Index:
        """Return the index of each group's width in the assignment at a place of the list."""
        chosen = self.usual.copy()
        for index in range(self.open.size - 1, -1, -1):
            chosen[self.open[index]] = self.options[index][place]
            place = int(self.parents[index][place])
        return chosen


def fronts(problem: Problem, multipliers: Array, slack: Array, *, most_open: int) -> list[Front]:
    """List the assignments of every link that can be part of one better than a known one.

    Args:
        problem: what to assign.
        multipliers: of the dual, ``(L,)``.
        slack: what the known assignment adds to the objective in each round, less the dual bound, ``(R,)``.
        most_open: groups that may have a choice left, in all.

    Returns:
        A front for each link whose list stays short; none if more groups are open.
    """
    weight_v, _ = problem.weights
    links = problem.link_round.size
    price = multipliers[problem.group_link] * problem.group_s_per_byte
    cost = np.outer(price, problem.width_bytes)
    cost += weight_v * np.outer(problem.group_beta, problem.width_variance)
    usual = cost.argmin(axis=1)
    cost -= cost.min(axis=1, keepdims=True)
    left = slack[problem.link_round] + _ROUNDING
    allowed = cost <= left[problem.group_link][:, None]
    if np.count_nonzero(allowed.sum(axis=1) > 1) > most_open:
        return []
    by_link = np.split(np.argsort(problem.group_link, kind="stable"), np.bincount(problem.group_link).cumsum()[:-1])
    found = (_front(problem, link, by_link[link], usual, allowed, cost, left[link]) for link in range(links))
    return [each for each in found if each is not None]


def _front(
    problem: Problem, link: int, groups: Index, usual: Index, allowed: NDArray[np.bool_], cost: Array, left: float
) -> Front | None:
    """Group by group: every pair so far with every allowed width, less those that are beaten or cost too much."""
    extra_variance = problem.width_variance - problem.width_variance[problem.finest]
    s_per_byte, beta = problem.group_s_per_byte, problem.group_beta
    open_groups = np.flatnonzero(allowed[groups].sum(axis=1) > 1)
    closed = np.delete(groups, open_groups)
    fixed_s = problem.link_gamma_s[link] + (s_per_byte[closed] * problem.width_bytes[usual[closed]]).sum()
    seconds = np.array([fixed_s])
    variance = np.array([(beta[closed] * extra_variance[usual[closed]]).sum()])
    spent = np.zeros(1)
    parents, options = [], []
    for group in groups[open_groups]:
        width = np.flatnonzero(allowed[group])
        all_spent = (spent[:, None] + cost[group, width]).ravel()
        some = np.flatnonzero(all_spent <= left)
        all_s = (seconds[:, None] + s_per_byte[group] * problem.width_bytes[width]).ravel()[some]
        all_v = (variance[:, None] + beta[group] * extra_variance[width]).ravel()[some]
        order = np.lexsort((all_v, all_s))
        least = np.minimum.accumulate(all_v[order])
        better = np.ones(order.size, dtype=bool)
        better[1:] = all_v[order[1:]] < least[:-1]
        order = order[better]
        if order.size > _LONGEST:
            return None
        seconds, variance, spent = all_s[order], all_v[order], all_spent[some[order]]
        parent, option = np.divmod(some[order], width.size)
        parents.append(parent)
        options.append(width[option])
    return Front(link, groups, usual[groups], open_groups, seconds, variance, tuple(parents), tuple(options))


def front_stairs(listed: list[Front], steps: int) -> Stairs:
    """Return the stairs of these links; ``state`` is the place in the list."""
    sizes = [each.seconds.size for each in listed]
    variance = np.concatenate([each.variance for each in listed])
    return Stairs(
        link=np.repeat([each.link for each in listed], sizes),
        seconds=np.concatenate([each.seconds for each in listed]),
        bound=variance,
        reached=variance,
        state=np.concatenate([np.arange(size) for size in sizes]),
        odd=np.full(variance.size, -1),
        also=np.full((variance.size, steps), -1),
    )
