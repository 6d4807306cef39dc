"""The linear relaxation of the bit-width problem, exactly, and the bound that it proves.

For a given ``Z_r`` the links of a round do not see each other, and each is a knapsack: seconds to spend on upgrades of
groups. All groups share the same convex hull of (bytes, variance) over the widths, so upgrades taken by falling
*slope*, variance saved per second, are the exact optimum of the relaxed knapsack, and the variance left is convex in
Z. The round's best Z is where the slopes of its links sum to the price of a second. At that point the slopes are the
multipliers of the dual, which any reader can evaluate without trusting how they were found (:func:`dual_bound`).

Letters: G groups, L links, R rounds, J steps of the hull, S upgrades.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnnqlab.bits.assigner.problem import Problem

__all__ = ["Relaxed", "Upgrades", "dual_bound", "group_slopes", "lower_hull", "relax", "upgrades"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_IN_CACHE = 16_384
"""Upgrades that are sorted together: fresh memory for all of them at once would cost more than the sorting."""


def lower_hull(problem: Problem) -> Index:
    """Return the widths on the lower convex hull of (bytes, variance), indices from cheapest to finest.

    A mix of two others beats every width that is not on it.
    """
    x, y = problem.width_bytes, problem.width_variance
    hull: list[int] = []
    for index in np.lexsort((y, x)).tolist():
        if hull and y[index] >= y[hull[-1]]:
            continue
        while len(hull) > 1 and (y[hull[-1]] - y[hull[-2]]) * (x[index] - x[hull[-2]]) >= (y[index] - y[hull[-2]]) * (
            x[hull[-1]] - x[hull[-2]]
        ):
            hull.pop()
        hull.append(index)
    return np.array(hull)


@dataclass(frozen=True, eq=False)
class _Block:
    """Links with like numbers of groups, sorted together as the rows of one matrix."""

    links: Index
    members: Index
    """Groups on each of them."""
    width: int
    """The most groups on one; step j of the link's i-th group is column ``j · width + i`` before sorting."""
    begin: int
    """First state of the first of them; a row has ``J · width + 1`` states."""


@dataclass(frozen=True, eq=False)
class Upgrades:
    """Every link's upgrades by falling slope, as states: in state ``first[l] + p`` link l has its first p upgrades.

    Flat arrays over all states; what lies beyond ``last[l]`` is never reached.
    """

    hull: Index
    by_link: Index
    """Groups in the order of their links, ``(G,)``."""
    in_order: bool
    """Whether that is the order they stand in."""
    start: Index
    """Place of each link's first group in ``by_link``, ``(L,)``."""
    width: Index
    """Of the block that each link lies in, ``(L,)``."""
    blocks: tuple[_Block, ...]
    fall: Array
    """How many times steeper each step of the hull is than the next, ``(J - 1,)``."""
    first: Index
    """State without upgrades, ``(L,)``."""
    last: Index
    """State with every upgrade that saves anything, ``(L,)``."""
    seconds: Array
    """Time of the link in each state."""
    variance: Array
    """Variance of the link's groups in each state, on top of what the finest width leaves."""
    slope: Array
    """Variance saved per second by the next upgrade; 0 where there is none worth it."""
    column: NDArray[np.int32]
    """Which upgrade is next: its column before sorting; of equal slopes the lower column comes first."""

    def next_upgrade(self, state: Index, link: Index) -> tuple[Index, Index]:
        """Return group and step of the hull of the upgrade that is next in these states of these links.

        Behind a link's last state there is none worth taking, and what is returned means nothing.
        """
        step, place = np.divmod(self.column[state], self.width[link])
        return self.by_link[np.minimum(self.start[link] + place, self.by_link.size - 1)], step

    def at(self, seconds_L: Array, low: Index | None = None, high: Index | None = None) -> Index:
        """Return the last state of each link whose time is at most ``seconds_L``, between two known ones."""
        low = self.first.copy() if low is None else low.copy()
        high = self.last.copy() if high is None else high.copy()
        while (low < high).any():
            middle = (low + high + 1) >> 1
            fits = self.seconds[middle] <= seconds_L
            low = np.where(fits, middle, low)
            high = np.where(fits, high, middle - 1)
        return low

    def relaxed_variance(self, seconds_L: Array) -> Array:
        """Return the least variance of each link within a time, if a part of an upgrade could be had, ``(L,)``."""
        state = self.at(seconds_L)
        saved = np.zeros_like(seconds_L)
        part = self.slope[state] > 0
        saved[part] = self.slope[state[part]] * (seconds_L[part] - self.seconds[state[part]])
        return self.variance[state] - saved

    def steps_taken(self, state_L: Index) -> Index:
        """Return how many steps of the hull each group has taken in these states, ``(G,)``."""
        levels = np.zeros(self.by_link.size, dtype=np.int64)
        steps = self.hull.size - 1
        for block in self.blocks:
            rows, columns = block.links.size, steps * block.width
            taken = np.zeros((rows, columns), dtype=bool)
            number = (state_L - self.first)[block.links][:, None]
            most = int(number.max())
            np.put_along_axis(taken, self.rows(self.column, block)[:, :most], np.arange(most) < number, axis=1)
            place = np.arange(block.width)
            inside = place < block.members[:, None]
            group = self.by_link[(self.start[block.links][:, None] + place)[inside]]
            levels[group] = taken.reshape(rows, steps, block.width).sum(axis=1)[inside]
        return levels

    def rows(self, flat: NDArray[Any], block: _Block) -> NDArray[Any]:
        """Return a view of a flat array: a row per link of the block, a column per state."""
        states = (self.hull.size - 1) * block.width + 1
        return flat[block.begin : block.begin + block.links.size * states].reshape(-1, states)


def upgrades(problem: Problem) -> Upgrades:
    """Return the upgrades of every link by falling slope."""
    hull = lower_hull(problem)
    links, steps = problem.link_round.size, hull.size - 1
    more_bytes = np.diff(problem.width_bytes[hull])
    less_variance = -np.diff(problem.width_variance[hull])
    cost, weight, link = problem.group_s_per_byte, problem.group_beta, problem.group_link
    base_s = problem.link_gamma_s + problem.link_s_per_byte * problem.width_bytes[hull[0]]
    base_v = problem.link_beta * less_variance.sum()
    by_link, in_order = np.arange(link.size), problem.in_order
    if not in_order:
        by_link = np.argsort(link, kind="stable")
        cost, weight = cost[by_link], weight[by_link]
    ratio = _ratio(weight, cost)
    members = np.bincount(link, minlength=links)
    start = np.cumsum(members) - members
    blocks = _blocks(members, steps)
    size = sum(block.links.size * (steps * block.width + 1) for block in blocks)
    first, last, width = (np.zeros(links, dtype=np.int64) for _ in range(3))
    seconds, variance, slope = np.empty(size), np.empty(size), np.empty(size)
    column = np.empty(size, dtype=np.int32)
    steepness = less_variance / more_bytes
    fall = steepness[:-1] / steepness[1:]
    ups = Upgrades(hull, by_link, in_order, start, width, blocks, fall, first, last, seconds, variance, slope, column)
    for block in blocks:
        inside = np.arange(block.width) < block.members[:, None]
        group = start[block.links][:, None] + np.minimum(np.arange(block.width), block.members[:, None] - 1)
        ratios, costs = ratio[group], cost[group]
        if not inside.all():
            ratios[~inside] = costs[~inside] = 0.0
        slopes = (steepness[:, None] * ratios[:, None]).reshape(block.links.size, -1)
        ranked = np.argsort(-slopes, axis=1, kind="stable")
        slopes = np.take_along_axis(slopes, ranked, axis=1)
        spent = np.take_along_axis((more_bytes[:, None] * costs[:, None]).reshape(slopes.shape), ranked, axis=1)
        if np.isinf(slopes[:, :1]).any():
            weights = np.where(inside, weight[group], 0.0)
            saved = (less_variance[:, None] * weights[:, None]).reshape(slopes.shape)
            saved = np.take_along_axis(saved, ranked, axis=1)
        else:
            saved = slopes * spent
        ups.rows(column, block)[:, :-1] = ranked
        ups.rows(column, block)[:, -1] = 0
        ups.rows(slope, block)[:, :-1] = slopes
        ups.rows(slope, block)[:, -1] = 0.0
        _running(spent, base_s[block.links], ups.rows(seconds, block))
        _running(-saved, base_v[block.links], ups.rows(variance, block))
        first[block.links] = block.begin + np.arange(block.links.size) * (slopes.shape[1] + 1)
        last[block.links] = first[block.links] + np.count_nonzero(slopes > 0, axis=1)
        width[block.links] = block.width
    return ups


def _blocks(members: Index, steps: int) -> tuple[_Block, ...]:
    """Part the links by their number of groups: matrices at least half full, and small enough for a core's cache."""
    blocks, begin = [], 0
    size_class = np.frexp(members.astype(np.float64))[1]
    for each in np.unique(size_class):
        links = np.flatnonzero(size_class == each)
        width = int(members[links].max())
        together = max(1, _IN_CACHE // (width * max(steps, 1)))
        for some in np.split(links, np.arange(together, links.size, together)):
            blocks.append(_Block(some, members[some], width, begin))
            begin += some.size * (steps * width + 1)
    return tuple(blocks)


def group_slopes(problem: Problem, hull: Index, group: Index) -> Array:
    """Return the slopes of some groups' upgrades, to the bit as they were sorted, ``(., J)``."""
    steepness: Array = -np.diff(problem.width_variance[hull]) / np.diff(problem.width_bytes[hull])
    slopes: Array = steepness * _ratio(problem.group_beta[group], problem.group_s_per_byte[group])[:, None]
    return slopes


def _ratio(weight: Array, cost: Array) -> Array:
    """β saved per second and byte; infinite where a better width costs no time."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(weight > 0, weight / cost, 0.0)


def _running(amounts: Array, base: Array, out: Array) -> None:
    """Write what each state of a link has: its base, and what the upgrades before it add."""
    out[:, 0] = base
    np.cumsum(amounts, axis=1, out=out[:, 1:])
    out[:, 1:] += base[:, None]


@dataclass(frozen=True, eq=False)
class Relaxed:
    """The optimum of the relaxation."""

    seconds: Array
    """``Z_r``, ``(R,)``."""
    least: Array
    """Smallest possible ``Z_r``."""
    most: Array
    """``Z_r`` beyond which nothing is saved."""
    multipliers: Array
    """Of the dual, one a link, summing to the price of a second in each round, ``(L,)``."""


def relax(problem: Problem, ups: Upgrades) -> Relaxed:
    """Find the best Z of every round at once, by bisection on where slopes sum to the price of a second."""
    weight_v, weight_t = problem.weights
    round_of, rounds = problem.link_round, problem.num_rounds
    least, most = problem.round_s(ups.seconds[ups.first]), problem.round_s(ups.seconds[ups.last])

    def worth(state: Index) -> Array:
        """Objective saved per second by one second more in the round, ``(R,)``."""
        slope = ups.slope[state]
        saved = np.bincount(round_of, np.where(np.isfinite(slope), slope, 0.0), minlength=rounds)
        return (weight_v * saved).astype(np.float64)

    low, high = least.copy(), np.maximum(most, least)
    low_state = ups.at(low[round_of])
    high_state = ups.at(high[round_of], low_state)
    # At `low` a second more pays, at `high` it does not; a round that does not even pay at its least stays there.
    stays = worth(low_state) <= weight_t
    high[stays], high_state = low[stays], np.where(stays[round_of], low_state, high_state)
    for _ in range(200):
        open_rounds = (np.bincount(round_of, high_state - low_state, minlength=rounds) > 0) & (high > low)
        middle = low + (high - low) / 2
        open_rounds &= (middle > low) & (middle < high)
        if not open_rounds.any():
            break
        state = ups.at(middle[round_of], low_state, high_state)
        pays = worth(state) > weight_t
        up, down = pays & open_rounds, ~pays & open_rounds
        low, high = np.where(up, middle, low), np.where(down, middle, high)
        low_state = np.where(up[round_of], state, low_state)
        high_state = np.where(down[round_of], state, high_state)
    return Relaxed(
        seconds=high,
        least=least,
        most=most,
        multipliers=_multipliers(problem, ups, low_state, high_state),
    )


def _multipliers(problem: Problem, ups: Upgrades, before: Index, after: Index) -> Array:
    """Mix the slopes on both sides of the best Z so that they sum to the price of a second."""
    weight_v, weight_t = problem.weights
    round_of, rounds = problem.link_round, problem.num_rounds
    left, right = (weight_v * np.where(np.isfinite(s), s, 0.0) for s in (ups.slope[before], ups.slope[after]))
    left_sum, right_sum = (np.bincount(round_of, side, minlength=rounds) for side in (left, right))
    spread = left_sum - right_sum
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(spread > 0, np.clip((weight_t - right_sum) / spread, 0, 1), 0.0)[round_of]
    mixed = share * left + (1 - share) * right
    total = np.bincount(round_of, mixed, minlength=rounds)
    with np.errstate(divide="ignore", invalid="ignore"):
        mixed *= np.where(total > weight_t, weight_t / total, 1.0)[round_of]
    # What is left of the price falls to the link that is slowest anyway.
    slowest = np.lexsort((ups.seconds[after], round_of))[np.cumsum(np.bincount(round_of, minlength=rounds)) - 1]
    mixed[slowest] += np.maximum(weight_t - np.bincount(round_of, mixed, minlength=rounds), 0.0)
    return mixed


def dual_bound(problem: Problem, multipliers: Array) -> Array:
    """Return a lower bound on what each round adds to the objective, whatever the assignment: the Lagrangian, ``(R,)``.

    With multipliers μ >= 0 that sum to the weight of a second in each round, ``w_t Z_r >= Σ_l μ_l T_l``, and the right
    side lets every group choose for itself; one that queues at two links pays at both. The objective is the sum over
    rounds of ``w_v V_r + w_t Z_r``, less what it is at utopia, ``w_v V_utopia + w_t T_utopia``.

    Raises:
        ValueError: if multipliers are negative or sum to another number.
    """
    weight_v, weight_t = problem.weights
    rounds = problem.num_rounds
    prices = np.bincount(problem.link_round, multipliers, minlength=rounds)
    if (multipliers < 0).any() or not np.allclose(prices, weight_t, rtol=1e-9, atol=0):
        raise ValueError(f"multipliers must be at least 0 and sum to {weight_t} in each round, got sums {prices}")
    links = multipliers * problem.link_gamma_s
    group_price = problem.group_price(multipliers)
    for begin in range(0, problem.group_rows.size, _IN_CACHE):
        some = slice(begin, begin + _IN_CACHE)
        link = problem.group_link[some]
        price = group_price[some] * problem.group_s_per_byte[some]
        weight = weight_v * problem.group_beta[some]
        best = np.full(price.size, np.inf)
        for size, variance in zip(problem.width_bytes.tolist(), problem.width_variance.tolist()):
            np.minimum(best, price * size + weight * variance, out=best)
        links += np.bincount(link, best, minlength=links.size)
    sums: Array = np.bincount(problem.link_round, links, minlength=rounds).astype(np.float64)
    return sums
