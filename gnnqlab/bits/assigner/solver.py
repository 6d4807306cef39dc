"""Solves the bit-width problem in milliseconds, and proves how good the answer is.

1. The linear relaxation, exactly, and its dual bound (:mod:`gnnqlab.bits.assigner.relaxation`).
2. A window around the best Z of each round, outside of which the relaxation alone is worse than whole groups are.
3. In the window, the staircases of all links (:mod:`gnnqlab.bits.assigner.link_stairs`): the Z at which their sum and
   the price of the seconds is least gives the assignment; the same with the bounds gives a lower bound on every other.
4. If the gap is still too wide and few groups are open, all that links can reach (:mod:`gnnqlab.bits.assigner.pareto_fronts`).

Rounds do not see each other, so all of this is done for every round at once. Where transfers queue at both of their
ends links do see each other: :mod:`gnnqlab.bits.assigner.full_duplex` solves that.

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
"""Up to so many groups in all the answer is exact from the start."""
_MOST_OPEN = 2000
"""Groups whose width is open that are listed."""
_AHEAD = 256
"""Upgrades that a link looks through for one that fits into time it has left."""
_MOST_STAIRS = 400_000
"""Stairs to look at before the window is narrowed."""


def solve(problem: Problem, *, tolerance: float = 1e-4, most_open: int | None = None) -> Solution:
    """Return the best assignment that can be found fast, with a proved lower bound on every assignment.

    Args:
        problem: what to assign.
        tolerance: a gap above this is narrowed by listing what links can reach.
        most_open: at most so many groups, in all, whose width is then still open; more would take long. By default
            2000 that are listed, or 64 of an integer program where transfers queue at both ends.

    Returns:
        A :class:`Solution`; its ``gap`` is 0 if it is proved to be the best, which it is up to 64 groups. Where
        transfers queue at both ends, nothing is proved beyond what HiGHS calls feasible, some 1e-5.

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
    ups = upgrades(problem)
    relaxed = relax(problem, ups)
    proved = dual_bound(problem, relaxed.multipliers)
    found = _assign(problem, ups, relaxed, proved, [], tolerance)
    if found.gap(problem) <= tolerance:
        return found.solution(problem)
    slack = np.maximum(found.reached - proved, 0.0)
    listed = fronts(problem, relaxed.multipliers, slack, most_open=_MOST_OPEN if most_open is None else most_open)
    if not listed:
        return found.solution(problem)
    again = _assign(problem, ups, relaxed, proved, listed, 0.0)
    # Nothing better than `found` was left off the lists: what is not on them is no better than it.
    by_round: Array = np.maximum(found.bound, np.minimum(again.bound, found.reached))
    better = again if again.reached.sum() < found.reached.sum() else found
    return _Found(better.choice, better.reached, by_round).solution(problem)


@dataclass(frozen=True, eq=False)
class _Found:
    """An assignment; objectives as :func:`gnnqlab.bits.assigner.relaxation.dual_bound` counts them."""

    choice: Index
    reached: Array
    """What each round adds to the objective, ``(R,)``."""
    bound: Array
    """And what it adds at least, whatever the assignment."""

    def solution(self, problem: Problem) -> Solution:
        weight_v, weight_t = problem.weights
        utopia_v, _, utopia_t, _ = problem.ends
        # No assignment is below 0.
        bound = max(0.0, float(self.bound.sum()) - weight_v * utopia_v - weight_t * utopia_t)
        return problem.solution(self.choice, bound)

    def gap(self, problem: Problem) -> float:
        return self.solution(problem).gap


def _assign(
    problem: Problem,
    ups: Upgrades,
    relaxed: Relaxed,
    proved: Array,
    listed: list[Front],
    tolerance: float,
) -> _Found:
    weight_v, weight_t = problem.weights
    even = even_links(problem, ups, apart_from=[each.link for each in listed])
    stairs, low, complete = _stairs_around(problem, ups, relaxed, even, listed, tolerance)
    steps = _descend(problem, stairs, low)
    choice = _choice(problem, ups, stairs, steps.taken, even, listed)

    # Stairs count variance on top of what the finest width leaves; the dual counts all of it.
    left = np.bincount(problem.link_round, problem.link_beta, minlength=problem.num_rounds)
    left *= weight_v * problem.width_variance[ups.hull[-1]]
    bound = np.where(complete, np.maximum(proved, np.minimum(steps.bound, steps.reached) + left), proved)
    link_v = problem.by_link(problem.group_beta * problem.width_variance[choice])
    reached = np.bincount(problem.link_round, weight_v * link_v, minlength=problem.num_rounds).astype(np.float64)
    reached += weight_t * problem.round_s(problem.link_s(choice))
    return _Found(choice, reached, bound)


def _stairs_around(
    problem: Problem, ups: Upgrades, relaxed: Relaxed, even: Even, listed: list[Front], tolerance: float
) -> tuple[Stairs, Array, NDArray[np.bool_]]:
    """Return the stairs in each round's window, where windows begin ``(R,)``, and which are wide enough to prove."""
    round_of = problem.link_round
    weight_v, weight_t = problem.weights
    low, high, whole = _window(problem, ups, relaxed)
    # A quarter of the tolerance may go into bounds that are quicker to find.
    near = float(whole.sum()) - weight_t * problem.ends[2]
    spare = tolerance / 4 * near / weight_v if weight_v > 0 else 0.0
    other = np.ones(round_of.size, dtype=bool)
    other[even.links] = False
    other[[each.link for each in listed]] = False

    complete = np.ones(problem.num_rounds, dtype=bool)
    for _ in range(8):
        states = ups.at(high[round_of]) - ups.at(low[round_of])
        if states.sum() * ups.hull.size <= _MOST_STAIRS:
            break
        complete[:] = False
        low, high = (relaxed.seconds + (end - relaxed.seconds) / 4 for end in (low, high))
    window = Window(low[round_of], high[round_of])
    parts = [other_stairs(ups, np.flatnonzero(other), window)]
    if even.links.size:
        parts.append(even_stairs(problem, ups, even, window, spare=spare))
    if listed:
        parts.append(front_stairs(listed, ups.hull.size - 1))
    stairs = joined(parts)
    # A sum in another order may end a little later.
    return stairs.only(stairs.seconds <= high[round_of[stairs.link]] * (1 + 1e-12)), low, complete


def _window(problem: Problem, ups: Upgrades, relaxed: Relaxed) -> tuple[Array, Array, Array]:
    """Return times of each round beyond which the relaxation is worse than whole groups at the relaxed best, ``(R,)``.

    And what these whole groups add to the objective, on top of the variance that the finest width leaves.

    The relaxation is convex in Z, so once it is worse it stays so.
    """
    weight_v, weight_t = problem.weights
    round_of, best = problem.link_round, relaxed.seconds

    def at(seconds: Array, variance: Array) -> Array:
        return weight_v * np.bincount(round_of, variance, minlength=seconds.size) + weight_t * seconds

    whole = at(best, ups.variance[ups.at(best[round_of])])
    # A first guess of the width: one upgrade of the link that has the longest.
    here = ups.at(best[round_of])
    step_s = ups.seconds[np.minimum(here + 1, ups.last)] - ups.seconds[here]
    guess = problem.round_s(step_s)
    ends = []
    for limit, sign in ((relaxed.least, -1.0), (relaxed.most, 1.0)):
        reach, end = guess.copy(), best.copy()
        for _ in range(64):
            end = np.clip(best + sign * reach, relaxed.least, np.maximum(relaxed.most, best))
            inside = (at(end, ups.relaxed_variance(end[round_of])) < whole) & (end != limit)
            if not (inside & (reach > 0)).any():
                break
            reach = np.where(inside, 2 * reach, reach)
        ends.append(end)
    return ends[0], ends[1], whole


@dataclass(frozen=True, eq=False)
class _Descent:
    taken: Index
    """The stair on which each link ends, ``(L,)``."""
    reached: Array
    """What each round then adds to the objective, ``(R,)``."""
    bound: Array
    """And what it adds at least, if its Z lies in the window."""


def _descend(problem: Problem, stairs: Stairs, low: Array) -> _Descent:
    """Find for each round the time at which its links' stairs, and the price of the time, are least together."""
    weight_v, weight_t = problem.weights
    round_of, rounds, links = problem.link_round, problem.num_rounds, problem.link_round.size
    seconds = np.maximum(stairs.seconds, low[round_of[stairs.link]])

    # Every link's stairs in a row, by rising time.
    stair = _table(stairs.link, links)
    there = stair >= 0
    time = np.where(there, seconds[stair], np.inf)
    order = np.argsort(time, axis=1)
    stair, time, there = (np.take_along_axis(each, order, axis=1) for each in (stair, time, there))
    falls = [_falling(np.where(there, values[stair], np.inf)) for values in (stairs.bound, stairs.reached)]

    # Every round's stairs in a row: how much each of them lowers the sum over the round's links.
    entry_link = np.nonzero(there)[0]
    entry = _table(round_of[entry_link], rounds)
    real = entry >= 0
    round_time = np.where(real, time[there][entry], np.inf)
    order = np.argsort(round_time, axis=1)
    round_time = np.take_along_axis(round_time, order, axis=1)
    # A round lasts at least until each of its links can stand somewhere.
    possible = np.isfinite(round_time) & (round_time >= problem.round_s(time[:, 0])[:, None])
    sums = []
    for least, _ in falls:
        change = np.zeros_like(least)
        np.subtract(least[:, 1:], least[:, :-1], out=change[:, 1:], where=there[:, 1:])
        ordered = np.take_along_axis(np.where(real, change[there][entry], 0.0), order, axis=1)
        start = np.bincount(round_of, least[:, 0], minlength=rounds)
        total = weight_v * (start[:, None] + np.cumsum(ordered, axis=1))
        sums.append(np.where(possible, total + weight_t * np.where(possible, round_time, 0.0), np.inf))
    best = sums[1].argmin(axis=1)  # the earliest of equal ones
    chosen = round_time[np.arange(rounds), best]
    latest = np.count_nonzero(time <= chosen[round_of][:, None], axis=1) - 1
    rows = np.arange(links)
    return _Descent(stair[rows, falls[1][1][rows, latest]], sums[1][np.arange(rounds), best], sums[0].min(axis=1))


def _table(row: Index, rows: int) -> Index:
    """Return which elements belong to each row, padded with -1."""
    count = np.bincount(row, minlength=rows)
    by_row = np.argsort(row, kind="stable")
    sorted_row = row[by_row]
    table = np.full((rows, int(count.max())), -1)
    table[sorted_row, np.arange(row.size) - (np.cumsum(count) - count)[sorted_row]] = by_row
    return table


def _falling(values: Array) -> tuple[Array, Index]:
    """Return the least value so far along each row, and in which column it stands."""
    least = np.minimum.accumulate(values, axis=1)
    new = np.zeros(values.shape, dtype=np.int64)
    new[:, 1:] = np.where(values[:, 1:] < least[:, :-1], np.arange(1, values.shape[1]), 0)
    return least, np.maximum.accumulate(new, axis=1)


def _choice(problem: Problem, ups: Upgrades, stairs: Stairs, taken: Index, even: Even, listed: list[Front]) -> Index:
    """Return the index of each group's width when every link stands on its stair, ``(G,)``."""
    links = np.arange(taken.size)
    by_state = ~_members(np.array([each.link for each in listed], dtype=np.int64), taken.size)
    state = np.where(by_state, stairs.state[taken], ups.first)
    levels = ups.steps_taken(state)
    for step in range(ups.hull.size - 1):
        also = stairs.also[taken, step]
        some = np.flatnonzero(by_state & (also >= 0))
        group, _ = ups.next_upgrade(also[some], links[some])
        levels[group] += 1
    some = np.flatnonzero(stairs.odd[taken[even.links]] >= 0)
    levels[even.odd[some]] = stairs.odd[taken[even.links[some]]]
    _spend_odd(problem, levels, even, ups, stairs.seconds[taken])
    _spend_rest(problem, levels, ups, state, stairs.seconds[taken], by_state & ~_members(even.links, taken.size))
    choice = ups.hull[levels]
    for each in listed:
        choice[each.groups] = each.choice(int(stairs.state[taken[each.link]]))
    return choice


def _members(some: Index, size: int) -> NDArray[np.bool_]:
    among = np.zeros(size, dtype=bool)
    among[some] = True
    return among


def _spend_odd(problem: Problem, levels: Index, even: Even, ups: Upgrades, link_s: Array) -> None:
    """Give odd groups the best width that costs their round nothing; changes ``levels``."""
    which = even.odd >= 0
    odd, links = even.odd[which], even.links[which]
    spare_s = (problem.round_s(link_s)[problem.link_round] - link_s)[links]
    for step in range(ups.hull.size - 1):
        takes = (levels[odd] == step) & (even.odd_s[which, step] <= spare_s)
        spare_s -= np.where(takes, even.odd_s[which, step], 0.0)
        levels[odd[takes]] += 1


def _spend_rest(
    problem: Problem, levels: Index, ups: Upgrades, state: Index, link_s: Array, these: NDArray[np.bool_]
) -> None:
    """Spend what is left of a round's time on later upgrades that fit, link by link; changes ``levels``."""
    more_bytes = np.diff(problem.width_bytes[ups.hull])
    spare_s = problem.round_s(link_s)[problem.link_round] - link_s
    for link in np.flatnonzero(these & (spare_s > 0) & (state < ups.last)):
        ahead = np.arange(state[link], min(state[link] + _AHEAD, ups.last[link]))
        group, step = ups.next_upgrade(ahead, np.full(ahead.size, link))
        cost = problem.group_s_per_byte[group] * more_bytes[step]
        left = spare_s[link]
        for place in np.flatnonzero(cost <= left):
            if cost[place] <= left and levels[group[place]] == step[place]:
                levels[group[place]] += 1
                left -= cost[place]
