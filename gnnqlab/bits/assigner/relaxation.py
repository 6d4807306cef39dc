"""Exact solution of the linear relaxation of the bit-width problem, and its dual bound.

For fixed ``Z_r`` the links of a round are independent, and each is a knapsack: seconds to spend on upgrades of groups.
All groups share one convex hull of (bytes, variance) over the bit-widths. So upgrades by falling *slope*, variance
saved per second, are the exact optimum of the relaxed knapsack, and the remaining variance is convex in Z. At the best
Z of a round the slopes of its links sum to the price of a second. These slopes are the multipliers of the dual, and
:func:`dual_bound` evaluates them independently of how they were found.

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
"""Upgrades sorted at a time: allocating memory for all of them at once would cost more than the sorting."""


def lower_hull(problem: Problem) -> Index:
    """Return the bit-widths on the lower convex hull of (bytes, variance), as indices from cheapest to finest.

    A mix of two others is better than any bit-width off the hull.
    """
    x, y = problem.width_bytes, problem.width_variance
    hull: list[int] = []
    # Monotone chain over rising bytes; the cross product decides if the last point lies on or above the new edge.
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
    """Links with similar numbers of groups, sorted together as the rows of one matrix."""

    links: Index
    members: Index
    """Number of groups on each link."""
    width: int
    """Most groups on one link; step j of the link's i-th group is column ``j · width + i`` before sorting."""
    begin: int
    """First state of the first link; a row has ``J · width + 1`` states."""


@dataclass(frozen=True, eq=False)
class Upgrades:
    """Upgrades of every link by falling slope, as states: in state ``first[l] + p`` link l has its first p upgrades.

    Flat arrays over all states; those beyond ``last[l]`` are never used.
    """

    hull: Index
    by_link: Index
    """Groups sorted by link, ``(G,)``."""
    in_order: bool
    """True if the groups of the problem are already sorted by link."""
    start: Index
    """Index of each link's first group in ``by_link``, ``(L,)``."""
    width: Index
    """Width of each link's block, ``(L,)``."""
    blocks: tuple[_Block, ...]
    fall: Array
    """Ratio of the slopes of each step of the hull and the next, ``(J - 1,)``."""
    first: Index
    """State without upgrades, ``(L,)``."""
    last: Index
    """State with every upgrade that saves variance, ``(L,)``."""
    seconds: Array
    """Time of the link in each state."""
    variance: Array
    """Variance of the link's groups in each state, above that of the finest bit-width."""
    slope: Array
    """Variance saved per second by the next upgrade; 0 if no further upgrade saves variance."""
    column: NDArray[np.int32]
    """Column of the next upgrade before sorting; of equal slopes the lower column comes first."""

    def next_upgrade(self, state: Index, link: Index) -> tuple[Index, Index]:
        """Return the group and the step of the hull of the next upgrade, for these states of these links.

        The result is meaningless from a link's last state on, because no further upgrade is useful.
        """
        step, index = np.divmod(self.column[state], self.width[link])
        return self.by_link[np.minimum(self.start[link] + index, self.by_link.size - 1)], step

    def last_state_within(self, seconds_L: Array, low: Index | None = None, high: Index | None = None) -> Index:
        """Return each link's last state with a time of at most ``seconds_L``, by bisection from ``low`` to ``high``."""
        low = self.first.copy() if low is None else low.copy()
        high = self.last.copy() if high is None else high.copy()
        while (low < high).any():
            middle = (low + high + 1) >> 1  # rounded up: `low = middle` always shortens the interval
            is_within = self.seconds[middle] <= seconds_L
            low = np.where(is_within, middle, low)
            high = np.where(is_within, high, middle - 1)
        return low

    def relaxed_variance(self, seconds_L: Array) -> Array:
        """Return the least variance of each link within a time if fractions of upgrades are allowed, ``(L,)``."""
        state = self.last_state_within(seconds_L)
        saved_variance = np.zeros_like(seconds_L)
        part = self.slope[state] > 0
        # A fraction of the next upgrade, in proportion to the rest of the time.
        saved_variance[part] = self.slope[state[part]] * (seconds_L[part] - self.seconds[state[part]])
        return self.variance[state] - saved_variance

    def steps_taken(self, state_L: Index) -> Index:
        """Count the steps of the hull that each group has taken in these states, ``(L,)`` to ``(G,)``."""
        levels = np.zeros(self.by_link.size, dtype=np.int64)
        steps = self.hull.size - 1
        for block in self.blocks:
            rows, columns = block.links.size, steps * block.width
            mask = np.zeros((rows, columns), dtype=bool)
            number = (state_L - self.first)[block.links][:, None]
            limit = int(number.max())
            # Undo the sorting: mark the columns of each link's first `number` upgrades.
            np.put_along_axis(mask, self.rows(self.column, block)[:, :limit], np.arange(limit) < number, axis=1)
            index = np.arange(block.width)
            is_member = index < block.members[:, None]
            group = self.by_link[(self.start[block.links][:, None] + index)[is_member]]
            levels[group] = mask.reshape(rows, steps, block.width).sum(axis=1)[is_member]
        return levels

    def rows(self, flat: NDArray[Any], block: _Block) -> NDArray[Any]:
        """Return a view of a flat array with one row per link of the block and one column per state."""
        states = (self.hull.size - 1) * block.width + 1
        return flat[block.begin : block.begin + block.links.size * states].reshape(-1, states)


def upgrades(problem: Problem) -> Upgrades:
    """Sort the upgrades of every link by falling slope."""
    hull = lower_hull(problem)
    links, steps = problem.link_round.size, hull.size - 1
    more_bytes = np.diff(problem.width_bytes[hull])  # (J,)
    less_variance = -np.diff(problem.width_variance[hull])
    cost, weight, link = problem.group_s_per_byte, problem.group_beta, problem.group_link
    base_s = problem.link_gamma_s + problem.link_s_per_byte * problem.width_bytes[hull[0]]  # (L,)
    base_v = problem.link_beta * less_variance.sum()  # (L,), above the finest bit-width
    by_link, in_order = np.arange(link.size), problem.in_order
    if not in_order:
        by_link = np.argsort(link, kind="stable")
        cost, weight = cost[by_link], weight[by_link]
    ratio = _ratio(weight, cost)  # (G,), β per second of a byte in each row
    members = np.bincount(link, minlength=links)
    start = np.cumsum(members) - members
    blocks = _blocks(members, steps)
    size = sum(block.links.size * (steps * block.width + 1) for block in blocks)
    first_state, last_state, width = (np.zeros(links, dtype=np.int64) for _ in range(3))
    seconds, variance, slope = np.empty(size), np.empty(size), np.empty(size)
    column = np.empty(size, dtype=np.int32)
    steepness = less_variance / more_bytes
    fall = steepness[:-1] / steepness[1:]
    ups = Upgrades(
        hull, by_link, in_order, start, width, blocks, fall, first_state, last_state, seconds, variance, slope, column
    )
    # Slopes fall along the hull, so the sorting keeps the steps of each group in their order.
    for block in blocks:
        is_member = np.arange(block.width) < block.members[:, None]
        # (links, width) indices; the padding repeats the last group.
        group = start[block.links][:, None] + np.minimum(np.arange(block.width), block.members[:, None] - 1)
        ratios, costs = ratio[group], cost[group]
        if not is_member.all():
            ratios[~is_member] = costs[~is_member] = 0.0  # padding: a slope of 0 sorts last
        slopes = (steepness[:, None] * ratios[:, None]).reshape(block.links.size, -1)  # (links, J · width)
        order = np.argsort(-slopes, axis=1, kind="stable")
        slopes = np.take_along_axis(slopes, order, axis=1)
        spent_s = np.take_along_axis((more_bytes[:, None] * costs[:, None]).reshape(slopes.shape), order, axis=1)
        if np.isinf(slopes[:, :1]).any():
            # An upgrade without cost in time has an infinite slope, and inf · 0 is NaN: sort its savings instead.
            weights = np.where(is_member, weight[group], 0.0)
            saved_variance = (less_variance[:, None] * weights[:, None]).reshape(slopes.shape)
            saved_variance = np.take_along_axis(saved_variance, order, axis=1)
        else:
            saved_variance = slopes * spent_s
        ups.rows(column, block)[:, :-1] = order
        ups.rows(column, block)[:, -1] = 0  # no upgrade follows the last state
        ups.rows(slope, block)[:, :-1] = slopes
        ups.rows(slope, block)[:, -1] = 0.0
        _write_sums(spent_s, base_s[block.links], ups.rows(seconds, block))
        _write_sums(-saved_variance, base_v[block.links], ups.rows(variance, block))
        first_state[block.links] = block.begin + np.arange(block.links.size) * (slopes.shape[1] + 1)
        last_state[block.links] = first_state[block.links] + np.count_nonzero(slopes > 0, axis=1)
        width[block.links] = block.width
    return ups


def _blocks(members: Index, steps: int) -> tuple[_Block, ...]:
    """Partition the links by number of groups: matrices at least half full, and small enough for a core's cache."""
    blocks, begin = [], 0
    # A matrix is padded to its longest link, so links of similar size share one.
    size_class = np.frexp(members.astype(np.float64))[1]  # binary exponent: sizes in a class differ by less than 2x
    for class_exponent in np.unique(size_class):
        links = np.flatnonzero(size_class == class_exponent)
        width = int(members[links].max())
        per_block = max(1, _IN_CACHE // (width * max(steps, 1)))
        for block_links in np.split(links, np.arange(per_block, links.size, per_block)):
            blocks.append(_Block(block_links, members[block_links], width, begin))
            begin += block_links.size * (steps * width + 1)
    return tuple(blocks)


def group_slopes(problem: Problem, hull: Index, group: Index) -> Array:
    """Return the slopes of some groups' upgrades, bitwise equal to the sorted ones, ``(., J)``."""
    steepness: Array = -np.diff(problem.width_variance[hull]) / np.diff(problem.width_bytes[hull])
    slopes: Array = steepness * _ratio(problem.group_beta[group], problem.group_s_per_byte[group])[:, None]
    return slopes


def _ratio(weight: Array, cost: Array) -> Array:
    """Return β per second and byte; infinite if a larger bit-width costs no time."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(weight > 0, weight / cost, 0.0)


def _write_sums(amounts: Array, base: Array, sums: Array) -> None:
    """Write the value of each state of a link: its base plus the amounts of all upgrades before the state."""
    sums[:, 0] = base
    np.cumsum(amounts, axis=1, out=sums[:, 1:])  # into the result, without a temporary matrix
    sums[:, 1:] += base[:, None]


@dataclass(frozen=True, eq=False)
class Relaxed:
    """Optimum of the relaxation."""

    seconds: Array
    """``Z_r``, ``(R,)``."""
    least: Array
    """Smallest possible ``Z_r``."""
    most: Array
    """``Z_r`` beyond which no variance is saved."""
    multipliers: Array
    """Dual multiplier of each link, summing to the price of a second in each round, ``(L,)``."""


def relax(problem: Problem, ups: Upgrades) -> Relaxed:
    """Find the best Z of all rounds at once: by bisection, the Z at which slopes sum to the price of a second."""
    weight_v, weight_t = problem.weights
    round_of, rounds = problem.link_round, problem.num_rounds
    least_s, most_s = problem.round_s(ups.seconds[ups.first]), problem.round_s(ups.seconds[ups.last])

    def worth(state: Index) -> Array:
        """Return the objective saved per additional second of the round, ``(L,)`` to ``(R,)``."""
        slope = ups.slope[state]
        # Upgrades without cost in time are always taken, so their infinite slopes must not count.
        saved_variance = np.bincount(round_of, np.where(np.isfinite(slope), slope, 0.0), minlength=rounds)
        return (weight_v * saved_variance).astype(np.float64)

    low, high = least_s.copy(), np.maximum(most_s, least_s)
    low_state = ups.last_state_within(low[round_of])
    high_state = ups.last_state_within(high[round_of], low_state)
    # Invariant: an additional second pays at `low` and not at `high`. A round where it never pays stays at its least Z.
    is_fixed = worth(low_state) <= weight_t
    high[is_fixed], high_state = low[is_fixed], np.where(is_fixed[round_of], low_state, high_state)
    # Ends when no state or no float lies between; 200 halvings exceed the precision of a float64.
    for _ in range(200):
        open_rounds = (np.bincount(round_of, high_state - low_state, minlength=rounds) > 0) & (high > low)
        middle = low + (high - low) / 2
        open_rounds &= (middle > low) & (middle < high)
        if not open_rounds.any():
            break
        state = ups.last_state_within(middle[round_of], low_state, high_state)
        is_profitable = worth(state) > weight_t
        is_raised, is_lowered = is_profitable & open_rounds, ~is_profitable & open_rounds
        low, high = np.where(is_raised, middle, low), np.where(is_lowered, middle, high)
        low_state = np.where(is_raised[round_of], state, low_state)
        high_state = np.where(is_lowered[round_of], state, high_state)
    return Relaxed(
        seconds=high,
        least=least_s,
        most=most_s,
        multipliers=_multipliers(problem, ups, low_state, high_state),
    )


def _multipliers(problem: Problem, ups: Upgrades, low_state: Index, high_state: Index) -> Array:
    """Mix the slopes on both sides of the best Z so that they sum to the price of a second, ``(L,)``."""
    weight_v, weight_t = problem.weights
    round_of, rounds = problem.link_round, problem.num_rounds
    left, right = (weight_v * np.where(np.isfinite(s), s, 0.0) for s in (ups.slope[low_state], ups.slope[high_state]))
    left_sum, right_sum = (np.bincount(round_of, side, minlength=rounds) for side in (left, right))
    spread = left_sum - right_sum
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(spread > 0, np.clip((weight_t - right_sum) / spread, 0, 1), 0.0)[round_of]
    multipliers = share * left + (1 - share) * right
    total = np.bincount(round_of, multipliers, minlength=rounds)
    with np.errstate(divide="ignore", invalid="ignore"):
        multipliers *= np.where(total > weight_t, weight_t / total, 1.0)[round_of]
    # The rest of the price goes to the slowest link of the round, so that multipliers sum to it exactly.
    slow_link = np.lexsort((ups.seconds[high_state], round_of))[np.cumsum(np.bincount(round_of, minlength=rounds)) - 1]
    multipliers[slow_link] += np.maximum(weight_t - np.bincount(round_of, multipliers, minlength=rounds), 0.0)
    return multipliers


def dual_bound(problem: Problem, multipliers: Array) -> Array:
    """Return the Lagrangian of each round, ``(R,)``: a lower bound on its part of the objective for any assignment.

    With multipliers μ >= 0 that sum to the weight of a second in each round, ``w_t Z_r >= Σ_l μ_l T_l``, and on the
    right side every group has its own minimum; a group with two links pays for both. The objective is the sum over
    rounds of ``w_v V_r + w_t Z_r`` minus its value at utopia, ``w_v V_utopia + w_t T_utopia``.

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
    for begin in range(0, problem.group_rows.size, _IN_CACHE):  # blocks that fit a core's cache
        block = slice(begin, begin + _IN_CACHE)
        link = problem.group_link[block]
        price = group_price[block] * problem.group_s_per_byte[block]
        weight = weight_v * problem.group_beta[block]
        costs = np.full(price.size, np.inf)
        for size, variance in zip(problem.width_bytes.tolist(), problem.width_variance.tolist()):
            np.minimum(costs, price * size + weight * variance, out=costs)  # (some groups,), least over bit-widths
        links += np.bincount(link, costs, minlength=links.size)
    sums: Array = np.bincount(problem.link_round, links, minlength=rounds).astype(np.float64)
    return sums
