"""Pareto-optimal (time, variance) pairs of a link that the best assignment may use (Nemhauser and Ullmann, 1969).

Only assignments of a link matter that no other beats in both time and variance. Far fewer remain once an assignment
and a dual bound are known. With multipliers μ each bit-width of a group has a *reduced cost*: its increase of the
Lagrangian over the group's best bit-width. An assignment whose reduced costs sum to more than the distance between
the bound and the known objective cannot be better than the known one. So most groups have one bit-width left.

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
"""Limit of assignments in the list of a link; a link with more gets no list."""
_ROUNDING = 1e-13
"""Allowance for rounding errors, for an objective of at most 1."""


@dataclass(frozen=True, eq=False)
class Front:
    """Pareto front of one link: assignments by rising time and falling variance."""

    link: int
    groups: Index
    """All groups of the link."""
    usual: Index
    """Index of the best bit-width of each group at the multipliers; final for groups that are not open."""
    open: Index
    """Positions in ``groups`` of those with more than one bit-width left."""
    seconds: Array
    variance: Array
    """Variance above that of the finest bit-width."""
    parents: tuple[Index, ...]
    """For each open group: the list index of each pair in the list before the group was added."""
    options: tuple[Index, ...]
    """For each open group: the bit-width index of the group in each pair."""

    def choice(self, place: int) -> Index:
        """Return the bit-width index of each group for the assignment at list index ``place``."""
        choice = self.usual.copy()
        # Follow the parents back from the last open group to the first.
        for index in range(self.open.size - 1, -1, -1):
            choice[self.open[index]] = self.options[index][place]
            place = int(self.parents[index][place])
        return choice


def fronts(problem: Problem, multipliers: Array, slack: Array, *, most_open: int) -> list[Front]:
    """List the assignments of every link that can be part of one better than a known assignment.

    Args:
        problem: groups and links.
        multipliers: of the dual, ``(L,)``.
        slack: objective of the known assignment in each round minus the dual bound, ``(R,)``.
        most_open: limit of groups with more than one bit-width left, over all links.

    Returns:
        A front for each link whose list stays short; none at all if more than ``most_open`` groups are open.
    """
    weight_v, _ = problem.weights
    links = problem.link_round.size
    price = multipliers[problem.group_link] * problem.group_s_per_byte  # (G,)
    cost = np.outer(price, problem.width_bytes)
    cost += weight_v * np.outer(problem.group_beta, problem.width_variance)
    choice = cost.argmin(axis=1)  # (G, B) -> (G,)
    cost -= cost.min(axis=1, keepdims=True)  # (G, B), reduced costs
    limit = slack[problem.link_round] + _ROUNDING  # (L,)
    is_allowed = cost <= limit[problem.group_link][:, None]  # (G, B)
    if np.count_nonzero(is_allowed.sum(axis=1) > 1) > most_open:
        return []
    by_link = np.split(np.argsort(problem.group_link, kind="stable"), np.bincount(problem.group_link).cumsum()[:-1])
    link_fronts = (_front(problem, link, by_link[link], choice, is_allowed, cost, limit[link]) for link in range(links))
    return [front for front in link_fronts if front is not None]


def _front(
    problem: Problem, link: int, groups: Index, choice: Index, is_allowed: NDArray[np.bool_], cost: Array, limit: float
) -> Front | None:
    """Build the front of a link group by group: extend every pair by every allowed bit-width, then prune.

    A pair is removed if another has no more time and no more variance, or if its reduced costs exceed ``limit``.
    """
    extra_variance = problem.width_variance - problem.width_variance[problem.finest]
    s_per_byte, beta = problem.group_s_per_byte, problem.group_beta
    open_groups = np.flatnonzero(is_allowed[groups].sum(axis=1) > 1)
    closed_group = np.delete(groups, open_groups)
    fixed_s = problem.link_gamma_s[link] + (s_per_byte[closed_group] * problem.width_bytes[choice[closed_group]]).sum()
    seconds = np.array([fixed_s])  # one pair at first: the closed groups
    variance = np.array([(beta[closed_group] * extra_variance[choice[closed_group]]).sum()])
    reduced_cost = np.zeros(1)  # reduced costs of each pair
    parents, options = [], []
    for group in groups[open_groups]:
        width = np.flatnonzero(is_allowed[group])
        all_costs = (reduced_cost[:, None] + cost[group, width]).ravel()  # (pairs, bit-widths), flat
        pair_index = np.flatnonzero(all_costs <= limit)
        all_s = (seconds[:, None] + s_per_byte[group] * problem.width_bytes[width]).ravel()[pair_index]
        all_v = (variance[:, None] + beta[group] * extra_variance[width]).ravel()[pair_index]
        # By time, then variance: a pair survives only if its variance is below that of every faster one.
        order = np.lexsort((all_v, all_s))
        least_variance = np.minimum.accumulate(all_v[order])
        is_better = np.ones(order.size, dtype=bool)
        is_better[1:] = all_v[order[1:]] < least_variance[:-1]
        order = order[is_better]
        if order.size > _LONGEST:
            return None
        seconds, variance, reduced_cost = all_s[order], all_v[order], all_costs[pair_index[order]]
        parent, option = np.divmod(pair_index[order], width.size)  # flat index -> pair and bit-width
        parents.append(parent)
        options.append(width[option])
    return Front(link, groups, choice[groups], open_groups, seconds, variance, tuple(parents), tuple(options))


def front_stairs(listed: list[Front], steps: int) -> Stairs:
    """Return the stairs of these links; ``state`` is the list index."""
    sizes = [front.seconds.size for front in listed]
    variance = np.concatenate([front.variance for front in listed])
    return Stairs(
        link=np.repeat([front.link for front in listed], sizes),
        seconds=np.concatenate([front.seconds for front in listed]),
        bound=variance,
        reached=variance,
        state=np.concatenate([np.arange(size) for size in sizes]),
        odd=np.full(variance.size, -1),
        also=np.full((variance.size, steps), -1),
    )
