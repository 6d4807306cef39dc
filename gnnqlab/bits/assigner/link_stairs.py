"""Variance of a link with whole groups as a function of time: staircases.

Every link has two staircases over a window of times: a lower bound on every assignment, and the variance of a known
assignment. Three kinds of links:

* **even**: all groups have the same number of rows, except one *odd* group (the last of a message is shorter).
  Upgrades then cost integer multiples of one unit. At each multiple the relaxed knapsack of the even groups bounds
  the true one, separately for every bit-width of the odd group. This is much tighter than the full relaxation.
* **listed** (:mod:`gnnqlab.bits.assigner.pareto_fronts`): every pair of time and variance that can matter is
  known; exact.
* **any other**: upgrades by falling slope, with the relaxation at the end of each stair as the bound.

Letters: G groups, L links, E stairs, J steps of the hull.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from gnnqlab.bits.assigner.problem import Problem
from gnnqlab.bits.assigner.relaxation import Upgrades, group_slopes

__all__ = ["Even", "Stairs", "Window", "even_links", "even_stairs", "joined", "other_stairs", "spans"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stairs:
    """Stairs of some links. At any time the smallest ``bound`` and ``reached`` of all earlier stairs apply."""

    link: Index
    seconds: Array
    """Time of the link from which this stair applies."""
    bound: Array
    """Lower bound on the variance of an assignment that takes less time than the next stair."""
    reached: Array
    """Variance of the assignment of this stair; like the bound, above that of the finest bit-width."""
    state: Index
    """State of the link's upgrades at which the assignment starts; for listed links, the list index."""
    odd: Index
    """Steps of the hull that the odd group takes; -1 if the state decides."""
    also: Index
    """States whose next upgrade is taken in addition, before its turn, or -1, ``(E, J)``."""

    def only(self, these: NDArray[np.bool_]) -> Stairs:
        """Return the stairs that a mask selects."""
        return Stairs(*(getattr(self, field.name)[these] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class Window:
    """Range of times of each link for which stairs are computed, ``(L,)``."""

    low: Array
    high: Array


def joined(parts: list[Stairs]) -> Stairs:
    """Concatenate the stairs of several kinds of links."""
    return Stairs(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Stairs)))


def spans(first: Index, count: Index) -> tuple[Index, Index]:
    """Concatenate index ranges; return the range of each element, and the elements.

    Example:
        >>> [each.tolist() for each in spans(np.array([5, 9]), np.array([2, 1]))]
        [[0, 0, 1], [5, 6, 9]]
    """
    owner = np.repeat(np.arange(count.size), count)
    # A running index, shifted in each range by the range's first element minus its position in the result.
    return owner, np.arange(owner.size) + np.repeat(first - (np.cumsum(count) - count), count)


def other_stairs(ups: Upgrades, links: Index, window: Window) -> Stairs:
    """Return the stairs of links of any kind, one per state in the window."""
    begin, end = ups.last_state_within(window.low)[links], ups.last_state_within(window.high)[links]
    owner, state = spans(begin, end - begin + 1)
    link = links[owner]
    return Stairs(
        link=link,
        seconds=ups.seconds[state],
        bound=ups.variance[np.minimum(state + 1, ups.last[link])],
        reached=ups.variance[state],
        state=state,
        odd=np.full(state.size, -1),
        also=np.full((state.size, ups.hull.size - 1), -1),
    )


@dataclass(frozen=True, eq=False)
class Even:
    """Links whose upgrades cost integer multiples of a unit, except those of one odd group."""

    links: Index
    unit_s: Array
    """Seconds of a unit of each link."""
    odd: Index
    """The odd group of each link, or -1."""
    step_units: Index
    """Units that each step of the hull costs, ``(J,)``."""
    step_variance: Array
    """Share of β that each step of the hull saves, ``(J,)``."""
    odd_s: Array
    """Seconds of the odd group's steps, one row per link, 0 without an odd group, ``(., J)``."""
    odd_v: Array
    """Variance saved by the odd group's steps, ``(., J)``."""


def even_links(problem: Problem, ups: Upgrades, apart_from: list[int]) -> Even:
    """Find the even links, without those in ``apart_from``; none if a bit-width lies above the hull."""
    links, rows = problem.link_round.size, problem.group_rows
    more_bytes, step_variance = np.diff(problem.width_bytes[ups.hull]), -np.diff(problem.width_variance[ups.hull])
    usual_rows = np.maximum.reduceat(rows if ups.in_order else rows[ups.by_link], ups.start)  # (L,)
    odd_groups = np.flatnonzero(rows != usual_rows[problem.group_link])
    odd_of_link = np.full(links, -1)
    odd_of_link[problem.group_link[odd_groups]] = odd_groups
    # One pair per link, so that all bytes of the link have the same θ.
    theta = np.zeros(links)
    theta[problem.pair_link] = problem.theta_s_per_byte
    is_even = (np.bincount(problem.pair_link, minlength=links) == 1) & (theta > 0)
    is_even &= np.bincount(problem.group_link[odd_groups], minlength=links) <= 1  # at most one odd group
    is_even[apart_from] = False
    if ups.hull.size < len(problem.widths) or ups.hull.size < 2:
        is_even[:] = False
    link_index = np.flatnonzero(is_even)
    step_bytes = more_bytes.astype(np.int64)
    unit_bytes = int(np.gcd.reduce(step_bytes)) if step_bytes.size else 1  # every step is a multiple of it
    has_odd = (odd_of_link[link_index] >= 0)[:, None]
    # Index -1 (no odd group) selects some group's values, which `has_odd` replaces by 0.
    return Even(
        links=link_index,
        unit_s=(usual_rows * theta)[link_index] * unit_bytes,
        odd=odd_of_link[link_index],
        step_units=step_bytes // unit_bytes,
        step_variance=step_variance,
        odd_s=np.where(has_odd, problem.group_s_per_byte[odd_of_link[link_index]][:, None] * more_bytes, 0.0),
        odd_v=np.where(has_odd, problem.group_beta[odd_of_link[link_index]][:, None] * step_variance, 0.0),
    )


def even_stairs(problem: Problem, ups: Upgrades, even: Even, window: Window, *, spare: float) -> Stairs:
    """Return the stairs of even links.

    Args:
        problem: groups and links.
        ups: its upgrades.
        even: the even links.
        window: range of times for the stairs.
        spare: variance by which bounds may be looser to save work: if all odd groups together matter less, the bound
            uses their finest bit-width and the assignment their cheapest, in place of every bit-width in turn.
    """
    links = even.links
    # States count the odd group's steps too, so the window is larger by all of them on both sides.
    margin = np.zeros(problem.link_round.size)
    margin[links] = even.odd_s.sum(axis=1)
    begin = ups.last_state_within(window.low - margin)[links]
    end = np.minimum(ups.last_state_within(window.high + margin)[links] + 1, ups.last[links])
    owner, state = spans(begin, end - begin + 1)
    group, step = ups.next_upgrade(state, links[owner])
    # Drop the states in which the odd group is next; the rest are the states of the even groups, in order.
    is_even_group = (group != even.odd[owner]) | (state == end[owner])
    owner, state, group, step = owner[is_even_group], state[is_even_group], group[is_even_group], step[is_even_group]
    is_final = state == end[owner]

    odd_steps = _odd_steps_taken(problem, ups, even, owner, state)  # (states, J)
    seconds = ups.seconds[state] - (even.odd_s[owner] * odd_steps).sum(axis=1)
    variance = ups.variance[state] + (even.odd_v[owner] * odd_steps).sum(axis=1)
    base_s = ups.seconds[ups.first[links]][owner]
    units = np.rint((seconds - base_s) / even.unit_s[owner])  # whole up to rounding errors of the sums
    saved_variance = problem.group_beta[group] * even.step_variance[step]
    filler = _fillers(ups, owner, state, step, is_final)

    # One stair for every number of units: each state, then one per unit until its next upgrade can be paid.
    source, extra_units = spans(np.zeros(state.size, dtype=np.int64), np.where(is_final, 1, even.step_units[step]))
    # Relaxed knapsack: between two states the bound falls in proportion to the units paid.
    bound = variance[source] - saved_variance[source] * extra_units / even.step_units[step[source]]
    reached_v, remaining_units = variance[source].copy(), extra_units.copy()
    added_states = np.full((source.size, even.step_units.size), -1)
    # Fill the units in between with smaller upgrades from later states, the largest first.
    for hull_step in np.argsort(-even.step_units):
        index = filler[source, hull_step]
        use = np.flatnonzero((index >= 0) & (even.step_units[hull_step] <= remaining_units))
        remaining_units[use] -= even.step_units[hull_step]
        reached_v[use] -= saved_variance[index[use]]
        added_states[use, hull_step] = state[index[use]]

    seconds = base_s[source] + (units[source] + extra_units) * even.unit_s[owner[source]]
    if even.odd_v.sum() <= spare:
        odd_v = even.odd_v.sum(axis=1)[owner[source]]
        odd_level = np.where(even.odd >= 0, 0, -1)[owner[source]]
        return Stairs(links[owner[source]], seconds, bound - odd_v, reached_v, state[source], odd_level, added_states)
    return _repeat_for_odd(even, owner[source], seconds, bound, reached_v, state[source], added_states)


def _repeat_for_odd(
    even: Even, owner: Index, seconds: Array, bound: Array, reached_v: Array, state: Index, added_states: Index
) -> Stairs:
    """Repeat the stairs of the even groups for every bit-width of the odd group."""
    parts = []
    for steps in range(even.step_units.size + 1):
        # Links without an odd group have no copies but the one without steps.
        stair_index = np.flatnonzero(even.odd[owner] >= 0) if steps else np.arange(owner.size)
        stair_owner = owner[stair_index]
        more_s, less_v = even.odd_s[stair_owner, :steps].sum(axis=1), even.odd_v[stair_owner, :steps].sum(axis=1)
        parts.append(
            Stairs(
                link=even.links[stair_owner],
                seconds=seconds[stair_index] + more_s,
                bound=bound[stair_index] - less_v,
                reached=reached_v[stair_index] - less_v,
                state=state[stair_index],
                odd=np.where(even.odd[stair_owner] >= 0, steps, -1),
                also=added_states[stair_index],
            )
        )
    return joined(parts)


def _odd_steps_taken(problem: Problem, ups: Upgrades, even: Even, owner: Index, state: Index) -> NDArray[np.bool_]:
    """Return a mask of the odd group's steps that lie before each state, ``(., J)``."""
    links, has_odd = even.links, even.odd >= 0
    index = even.odd.copy()
    if not ups.in_order:
        position = np.empty_like(ups.by_link)
        position[ups.by_link] = np.arange(ups.by_link.size)  # inverse permutation: group -> place by link
        index = np.where(has_odd, position[even.odd], -1)
    index -= ups.start[links]
    slopes = group_slopes(problem, ups.hull, even.odd)
    column = np.arange(slopes.shape[1]) * ups.width[links][:, None] + index[:, None]  # (links, J)
    # The order of `upgrades`: by falling slope, then by column.
    slope = ups.slope[state][:, None]
    is_before = (slopes[owner] > slope) | ((slopes[owner] == slope) & (column[owner] < ups.column[state][:, None]))
    return is_before & has_odd[owner][:, None] & (slopes[owner] > 0)


def _fillers(ups: Upgrades, owner: Index, state: Index, step: Index, is_final: NDArray[np.bool_]) -> Index:
    """Return the index of the next upgrade after each state for each step of the hull, or -1, ``(., J)``.

    An upgrade counts only if its group's earlier step was certainly taken before the state, by its slope.
    """
    steps, end = ups.hull.size - 1, state.size
    index = np.arange(state.size)
    steepness = ups.slope[state]
    fillers = np.full((state.size, steps), -1)
    for hull_step in range(steps):
        candidate = np.where((step == hull_step) & ~is_final, index, end)
        next_index = np.minimum.accumulate(candidate[::-1])[::-1]  # first candidate at or after each index
        next_index = np.append(next_index[1:], end)
        has_filler = next_index < end
        has_filler[has_filler] = owner[next_index[has_filler]] == owner[has_filler]
        if hull_step:
            # The ratio of a group's slopes in consecutive steps is the same for all groups.
            earlier_slope = ups.slope[state[next_index[has_filler]]] * ups.fall[hull_step - 1]
            has_filler[has_filler] = earlier_slope > steepness[has_filler]
        fillers[has_filler, hull_step] = next_index[has_filler]
    return fillers
