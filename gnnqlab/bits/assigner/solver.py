"""Solver of the bit-width problem: an assignment in milliseconds, with a proved bound on its distance to the optimum.

1. The exact linear relaxation and its dual bound (:mod:`gnnqlab.bits.assigner.relaxation`).
2. A window around the best Z of each round; outside of it even the relaxation is worse than a known whole assignment.
3. In the window, the staircases of all links (:mod:`gnnqlab.bits.assigner.link_stairs`): the Z with the least sum of
   variance and priced seconds gives the assignment; the same with the bounds gives a lower bound on every other.
4. If the gap is still too large and few groups are open, the Pareto fronts of all links
   (:mod:`gnnqlab.bits.assigner.pareto_fronts`).

Rounds are independent, so each step handles all rounds at once. If transfers queue at both ends, links are not
independent: :mod:`gnnqlab.bits.assigner.full_duplex` solves that case.

Letters: G groups, L links, R rounds, E stairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnnqlab.bits.assigner.full_duplex import solve_full_duplex
from gnnqlab.bits.assigner.link_stairs import Even, Stairs, Window, even_links, even_stairs, joined, other_stairs
from gnnqlab.bits.assigner.pareto_fronts import Front, front_stairs, fronts
from gnnqlab.bits.assigner.problem import Problem, Solution
from gnnqlab.bits.assigner.relaxation import Relaxed, Upgrades, dual_bound, relax, upgrades

__all__ = ["solve"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_FEW = 64
"""Limit of groups for which the tolerance is 0, so that the optimum is found."""
_MAX_OPEN = 2000
"""Limit of groups with an open bit-width for which fronts are listed."""
_LOOKAHEAD = 256
"""Upgrades of a link that are searched for those that fit into its spare time."""
_MAX_STAIRS = 400_000
"""Limit of stairs; above it the window is narrowed."""


def solve(problem: Problem, *, tolerance: float = 1e-4, most_open: int | None = None) -> Solution:
    """Find a good assignment in milliseconds, with a proved lower bound on every assignment.

    Args:
        problem: groups and links.
        tolerance: a gap above this is narrowed with the Pareto fronts of links.
        most_open: limit of groups with an open bit-width for that step; more would take long. By default 2000, or 64
            for the integer program if transfers queue at both ends.

    Returns:
        A :class:`Solution`; its ``gap`` is 0 if it is proved optimal, as it is up to 64 groups. If transfers queue at
        both ends, the proof is limited by the feasibility tolerance of HiGHS, about 1e-5.

    Example:
        >>> one = Problem(widths=(2, 8), columns=4, lam=0.5, group_pair=[0, 0], group_rows=[1, 1],
        ...     group_beta=[9.0, 0.1], pair_link=[0], link_round=[0], theta_s_per_byte=[1.0], gamma_s=[0.0])
        >>> solve(one).widths.tolist()
        [8, 2]
    """
    if problem.group_rows.size <= _FEW:
        tolerance = 0.0
    if problem.pair_far_link is not None:
        return solve_full_duplex(problem, tolerance=tolerance, most_open=_FEW if most_open is None else most_open)
    # Relaxation, dual bound, and whole groups in the window around the relaxed optimum.
    ups = upgrades(problem)
    relaxation = relax(problem, ups)
    proved_bound = dual_bound(problem, relaxation.multipliers)
    assignment = _assign(problem, ups, relaxation, proved_bound, [], tolerance)
    if assignment.gap(problem) <= tolerance:
        return assignment.solution(problem)
    slack = np.maximum(assignment.reached - proved_bound, 0.0)  # (R,)
    # The gap is too large: list the assignments of each link that may still be better.
    lists = fronts(problem, relaxation.multipliers, slack, most_open=_MAX_OPEN if most_open is None else most_open)
    if not lists:
        return assignment.solution(problem)
    refinement = _assign(problem, ups, relaxation, proved_bound, lists, 0.0)
    # Assignments missing from the lists are no better than `assignment`, so its objective is the bound there.
    by_round: Array = np.maximum(assignment.bound, np.minimum(refinement.bound, assignment.reached))
    result = refinement if refinement.reached.sum() < assignment.reached.sum() else assignment
    return _Assignment(result.choice, result.reached, by_round).solution(problem)


@dataclass(frozen=True, eq=False)
class _Assignment:
    """An assignment; objectives as defined by :func:`gnnqlab.bits.assigner.relaxation.dual_bound`."""

    choice: Index
    reached: Array
    """Objective of each round, ``(R,)``."""
    bound: Array
    """Lower bound on the objective of each round for any assignment, ``(R,)``."""

    def solution(self, problem: Problem) -> Solution:
        weight_v, weight_t = problem.weights
        utopia_v, _, utopia_t, _ = problem.ends
        # The objective is relative to utopia, so 0 is always a bound.
        bound = max(0.0, float(self.bound.sum()) - weight_v * utopia_v - weight_t * utopia_t)
        return problem.solution(self.choice, bound)

    def gap(self, problem: Problem) -> float:
        return self.solution(problem).gap


def _assign(
    problem: Problem,
    ups: Upgrades,
    relaxation: Relaxed,
    proved_bound: Array,
    lists: list[Front],
    tolerance: float,
) -> _Assignment:
    weight_v, weight_t = problem.weights
    even = even_links(problem, ups, apart_from=[front.link for front in lists])
    stairs, low, is_complete = _stairs_around(problem, ups, relaxation, even, lists, tolerance)
    descent = _descend(problem, stairs, low)
    choice = _choice(problem, ups, stairs, descent.stair, even, lists)

    # Stairs count variance above that of the finest bit-width; the dual counts all of it.
    finest_v = np.bincount(problem.link_round, problem.link_beta, minlength=problem.num_rounds)
    finest_v *= weight_v * problem.width_variance[ups.hull[-1]]
    bound = np.where(
        is_complete, np.maximum(proved_bound, np.minimum(descent.bound, descent.reached) + finest_v), proved_bound
    )
    link_v = problem.by_link(problem.group_beta * problem.width_variance[choice])
    # Evaluated from the choice itself: spending spare time may have made it better than its stairs.
    objective = np.bincount(problem.link_round, weight_v * link_v, minlength=problem.num_rounds).astype(np.float64)
    objective += weight_t * problem.round_s(problem.link_s(choice))
    return _Assignment(choice, objective, bound)


def _stairs_around(
    problem: Problem, ups: Upgrades, relaxation: Relaxed, even: Even, lists: list[Front], tolerance: float
) -> tuple[Stairs, Array, NDArray[np.bool_]]:
    """Return the stairs in each round's window, the starts of windows ``(R,)``, and True for complete windows ``(R,)``.

    Only a complete window gives a lower bound: a narrowed one may exclude the optimum.
    """
    round_of = problem.link_round
    weight_v, weight_t = problem.weights
    low, high, whole_objective = _window(problem, ups, relaxation)
    # Up to a quarter of the tolerance is spent on looser bounds that are faster to compute.
    objective = float(whole_objective.sum()) - weight_t * problem.ends[2]
    spare_variance = tolerance / 4 * objective / weight_v if weight_v > 0 else 0.0
    is_other = np.ones(round_of.size, dtype=bool)
    is_other[even.links] = False
    is_other[[front.link for front in lists]] = False

    is_complete = np.ones(problem.num_rounds, dtype=bool)
    # Too many stairs: narrow the window to a quarter on both sides of the relaxed best Z.
    for _ in range(8):
        states = ups.last_state_within(high[round_of]) - ups.last_state_within(low[round_of])
        if states.sum() * ups.hull.size <= _MAX_STAIRS:
            break
        is_complete[:] = False
        low, high = (relaxation.seconds + (end - relaxation.seconds) / 4 for end in (low, high))
    window = Window(low[round_of], high[round_of])
    parts = [other_stairs(ups, np.flatnonzero(is_other), window)]
    if even.links.size:
        parts.append(even_stairs(problem, ups, even, window, spare=spare_variance))
    if lists:
        parts.append(front_stairs(lists, ups.hull.size - 1))
    stairs = joined(parts)
    # Tolerance for rounding errors: sums in another order may differ in the last bits.
    return stairs.only(stairs.seconds <= high[round_of[stairs.link]] * (1 + 1e-12)), low, is_complete


def _window(problem: Problem, ups: Upgrades, relaxation: Relaxed) -> tuple[Array, Array, Array]:
    """Return start and end of each round's window, and the objective of whole groups at the relaxed best Z, ``(R,)``.

    Outside of the window the relaxation is worse than these whole groups. It is convex in Z, so it remains worse. The
    objective counts variance above that of the finest bit-width.
    """
    weight_v, weight_t = problem.weights
    round_of, best_s = problem.link_round, relaxation.seconds

    def objective(seconds: Array, variance: Array) -> Array:
        return weight_v * np.bincount(round_of, variance, minlength=seconds.size) + weight_t * seconds

    whole_objective = objective(best_s, ups.variance[ups.last_state_within(best_s[round_of])])
    # First estimate of half the window: the longest next upgrade of the round's links; doubled until it suffices.
    state = ups.last_state_within(best_s[round_of])
    step_s = ups.seconds[np.minimum(state + 1, ups.last)] - ups.seconds[state]  # (L,)
    guess = problem.round_s(step_s)
    ends = []
    for limit, sign in ((relaxation.least, -1.0), (relaxation.most, 1.0)):
        reach, end = guess.copy(), best_s.copy()
        for _ in range(64):
            end = np.clip(best_s + sign * reach, relaxation.least, np.maximum(relaxation.most, best_s))
            is_inside = (objective(end, ups.relaxed_variance(end[round_of])) < whole_objective) & (end != limit)
            if not (is_inside & (reach > 0)).any():
                break
            reach = np.where(is_inside, 2 * reach, reach)
        ends.append(end)
    return ends[0], ends[1], whole_objective


@dataclass(frozen=True, eq=False)
class _Descent:
    stair: Index
    """Chosen stair of each link, ``(L,)``."""
    reached: Array
    """Objective of each round with these stairs, ``(R,)``."""
    bound: Array
    """Lower bound on the objective of each round if its Z lies in the window, ``(R,)``."""


def _descend(problem: Problem, stairs: Stairs, low: Array) -> _Descent:
    """Find the Z of each round with the least sum of its links' stairs and the priced time."""
    weight_v, weight_t = problem.weights
    round_of, rounds, links = problem.link_round, problem.num_rounds, problem.link_round.size
    seconds = np.maximum(stairs.seconds, low[round_of[stairs.link]])

    # One row per link: its stairs by rising time, padded with infinite times.
    stair = _table(stairs.link, links)  # (L, most stairs)
    is_stair = stair >= 0
    time = np.where(is_stair, seconds[stair], np.inf)
    order = np.argsort(time, axis=1)
    stair, time, is_stair = (np.take_along_axis(each, order, axis=1) for each in (stair, time, is_stair))
    falls = [_running_minimum(np.where(is_stair, values[stair], np.inf)) for values in (stairs.bound, stairs.reached)]

    # One row per round: all stairs of its links by rising time, and the change of the round's sum at each.
    entry_link = np.nonzero(is_stair)[0]
    entry = _table(round_of[entry_link], rounds)
    is_entry = entry >= 0
    round_time = np.where(is_entry, time[is_stair][entry], np.inf)
    order = np.argsort(round_time, axis=1)
    round_time = np.take_along_axis(round_time, order, axis=1)
    # A round lasts at least until the first stair of each of its links.
    is_possible = np.isfinite(round_time) & (round_time >= problem.round_s(time[:, 0])[:, None])
    sums = []
    for minimum, _ in falls:
        change = np.zeros_like(minimum)
        np.subtract(minimum[:, 1:], minimum[:, :-1], out=change[:, 1:], where=is_stair[:, 1:])
        ordered_change = np.take_along_axis(np.where(is_entry, change[is_stair][entry], 0.0), order, axis=1)
        start = np.bincount(round_of, minimum[:, 0], minlength=rounds)
        total = weight_v * (start[:, None] + np.cumsum(ordered_change, axis=1))
        sums.append(np.where(is_possible, total + weight_t * np.where(is_possible, round_time, 0.0), np.inf))
    best_index = sums[1].argmin(axis=1)  # among equals, the earliest
    chosen_s = round_time[np.arange(rounds), best_index]
    latest_stair = np.count_nonzero(time <= chosen_s[round_of][:, None], axis=1) - 1
    rows = np.arange(links)
    return _Descent(
        stair[rows, falls[1][1][rows, latest_stair]], sums[1][np.arange(rounds), best_index], sums[0].min(axis=1)
    )


def _table(row: Index, rows: int) -> Index:
    """Return the indices of the elements of each row, padded with -1."""
    count = np.bincount(row, minlength=rows)
    by_row = np.argsort(row, kind="stable")
    sorted_row = row[by_row]
    table = np.full((rows, int(count.max())), -1)
    table[sorted_row, np.arange(row.size) - (np.cumsum(count) - count)[sorted_row]] = by_row
    return table


def _running_minimum(values: Array) -> tuple[Array, Index]:
    """Return the running minimum along each row, and its column."""
    minimum = np.minimum.accumulate(values, axis=1)
    columns = np.zeros(values.shape, dtype=np.int64)
    columns[:, 1:] = np.where(values[:, 1:] < minimum[:, :-1], np.arange(1, values.shape[1]), 0)
    return minimum, np.maximum.accumulate(columns, axis=1)


def _choice(problem: Problem, ups: Upgrades, stairs: Stairs, stair: Index, even: Even, lists: list[Front]) -> Index:
    """Return the bit-width index of each group from the chosen stair of its link, ``(G,)``."""
    links = np.arange(stair.size)
    by_state = ~_members(np.array([front.link for front in lists], dtype=np.int64), stair.size)
    state = np.where(by_state, stairs.state[stair], ups.first)
    levels = ups.steps_taken(state)
    # Fillers of even links: upgrades taken in addition, before their turn.
    for step in range(ups.hull.size - 1):
        added_states = stairs.also[stair, step]
        selection = np.flatnonzero(by_state & (added_states >= 0))
        group, _ = ups.next_upgrade(added_states[selection], links[selection])
        levels[group] += 1
    selection = np.flatnonzero(stairs.odd[stair[even.links]] >= 0)
    levels[even.odd[selection]] = stairs.odd[stair[even.links[selection]]]
    # Time up to the slowest link of a round is free: spend it on upgrades that still fit.
    _spend_odd(problem, levels, even, ups, stairs.seconds[stair])
    _spend_rest(problem, levels, ups, state, stairs.seconds[stair], by_state & ~_members(even.links, stair.size))
    choice = ups.hull[levels]
    for front in lists:
        choice[front.groups] = front.choice(int(stairs.state[stair[front.link]]))
    return choice


def _members(links: Index, size: int) -> NDArray[np.bool_]:
    members = np.zeros(size, dtype=bool)
    members[links] = True
    return members


def _spend_odd(problem: Problem, levels: Index, even: Even, ups: Upgrades, link_s: Array) -> None:
    """Upgrade odd groups as far as their round does not take longer; changes ``levels``."""
    has_odd = even.odd >= 0
    odd_groups, links = even.odd[has_odd], even.links[has_odd]
    spare_s = (problem.round_s(link_s)[problem.link_round] - link_s)[links]
    for step in range(ups.hull.size - 1):
        is_taken = (levels[odd_groups] == step) & (even.odd_s[has_odd, step] <= spare_s)
        spare_s -= np.where(is_taken, even.odd_s[has_odd, step], 0.0)
        levels[odd_groups[is_taken]] += 1


def _spend_rest(
    problem: Problem, levels: Index, ups: Upgrades, state: Index, link_s: Array, is_selected: NDArray[np.bool_]
) -> None:
    """Spend the spare time of each link in its round on later upgrades that fit; changes ``levels``."""
    more_bytes = np.diff(problem.width_bytes[ups.hull])
    spare_s = problem.round_s(link_s)[problem.link_round] - link_s
    for link in np.flatnonzero(is_selected & (spare_s > 0) & (state < ups.last)):
        later_states = np.arange(state[link], min(state[link] + _LOOKAHEAD, ups.last[link]))
        group, step = ups.next_upgrade(later_states, np.full(later_states.size, link))
        cost = problem.group_s_per_byte[group] * more_bytes[step]
        remaining_s = spare_s[link]
        for index in np.flatnonzero(cost <= remaining_s):
            # A group takes its steps in order: skip a step whose predecessor was not taken.
            if cost[index] <= remaining_s and levels[group[index]] == step[index]:
                levels[group[index]] += 1
                remaining_s -= cost[index]
