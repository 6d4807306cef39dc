"""What a link can reach with whole groups: its variance falls in stairs as it is given time.

Every link gives two staircases over a window of times: one that no assignment can be below, and one that an
assignment at hand reaches. Three kinds of links:

* **even**: all groups have the same number of rows, but for one *odd* group (the last of a message is shorter).
  Upgrades then cost whole multiples of one unit, so at each multiple the relaxed knapsack of the even groups bounds
  the true one, once for every width of the odd group. This is far closer than the relaxation of the whole.
* **listed** (:mod:`gnnqlab.bits.assigner.pareto_fronts`): every pair of time and variance that can matter is known: the truth.
* **any other**: upgrades by falling slope, and below them the relaxation at the end of each stair.

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
    """Stairs of some links. After several, the least ``bound`` and the least ``reached`` so far hold."""

    link: Index
    seconds: Array
    """From when on the link can stand here."""
    bound: Array
    """An assignment that takes less than the next stair's seconds leaves at least this variance."""
    reached: Array
    """The assignment of this stair leaves this variance; like the bound on top of what the finest width leaves."""
    state: Index
    """State of the link's upgrades that the assignment starts from; of listed links, the place in the list."""
    odd: Index
    """Steps of the hull that the odd group takes; -1 if it goes by the state."""
    also: Index
    """States whose next upgrade is taken out of turn, or -1, ``(E, J)``."""

    def only(self, these: NDArray[np.bool_]) -> Stairs:
        """Return some of the stairs."""
        return Stairs(*(getattr(self, field.name)[these] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class Window:
    """Times of each link between which its stairs are wanted, ``(L,)``."""

    low: Array
    high: Array


def joined(parts: list[Stairs]) -> Stairs:
    """Return the stairs of several kinds of links together."""
    return Stairs(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Stairs)))


def spans(first: Index, count: Index) -> tuple[Index, Index]:
    """Return the elements of several index ranges, and which range each belongs to.

    Example:
        >>> [each.tolist() for each in spans(np.array([5, 9]), np.array([2, 1]))]
        [[0, 0, 1], [5, 6, 9]]
    """
    owner = np.repeat(np.arange(count.size), count)
    return owner, np.arange(owner.size) + np.repeat(first - (np.cumsum(count) - count), count)


def other_stairs(ups: Upgrades, links: Index, window: Window) -> Stairs:
    """Return the stairs of links of any kind."""
    begin, end = ups.at(window.low)[links], ups.at(window.high)[links]
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
    """Links whose upgrades cost whole multiples of a unit, but for those of one odd group."""

    links: Index
    unit_s: Array
    """Seconds of a unit, one a link."""
    odd: Index
    """The odd group of each link, or -1."""
    step_units: Index
    """Units that each step of the hull costs, ``(J,)``."""
    step_variance: Array
    """What it saves of β, ``(J,)``."""
    odd_s: Array
    """Seconds of the odd group's steps, 0 without one, one row a link, ``(., J)``."""
    odd_v: Array
    """Variance that they save."""


def even_links(problem: Problem, ups: Upgrades, apart_from: list[int]) -> Even:
    """Find the links that are even, but for some. Where a width lies above the hull there are none."""
    links, rows = problem.link_round.size, problem.group_rows
    more_bytes, step_variance = np.diff(problem.width_bytes[ups.hull]), -np.diff(problem.width_variance[ups.hull])
    usual = np.maximum.reduceat(rows if ups.in_order else rows[ups.by_link], ups.start)
    differs = np.flatnonzero(rows != usual[problem.group_link])
    odd = np.full(links, -1)
    odd[problem.group_link[differs]] = differs
    theta = np.zeros(links)
    theta[problem.pair_link] = problem.theta_s_per_byte
    fits = (np.bincount(problem.pair_link, minlength=links) == 1) & (theta > 0)
    fits &= np.bincount(problem.group_link[differs], minlength=links) <= 1
    fits[apart_from] = False
    if ups.hull.size < len(problem.widths) or ups.hull.size < 2:
        fits[:] = False
    some = np.flatnonzero(fits)
    step_bytes = more_bytes.astype(np.int64)
    unit_bytes = int(np.gcd.reduce(step_bytes)) if step_bytes.size else 1
    there = (odd[some] >= 0)[:, None]
    return Even(
        links=some,
        unit_s=(usual * theta)[some] * unit_bytes,
        odd=odd[some],
        step_units=step_bytes // unit_bytes,
        step_variance=step_variance,
        odd_s=np.where(there, problem.group_s_per_byte[odd[some]][:, None] * more_bytes, 0.0),
        odd_v=np.where(there, problem.group_beta[odd[some]][:, None] * step_variance, 0.0),
    )


def even_stairs(problem: Problem, ups: Upgrades, even: Even, window: Window, *, spare: float) -> Stairs:
    """Return the stairs of even links.

    Args:
        problem: what to assign.
        ups: its upgrades.
        even: which links.
        window: times between which stairs are wanted.
        spare: variance that bounds may give away to save work: if odd groups matter less than that all together, the
            bound takes them at their finest and the assignment at their cheapest, in place of every width in turn.
    """
    links = even.links
    margin = np.zeros(problem.link_round.size)
    margin[links] = even.odd_s.sum(axis=1)
    begin = ups.at(window.low - margin)[links]
    end = np.minimum(ups.at(window.high + margin)[links] + 1, ups.last[links])
    owner, state = spans(begin, end - begin + 1)
    group, step = ups.next_upgrade(state, links[owner])
    # Without the states in which the odd group is next, those of the even groups follow each other.
    keep = (group != even.odd[owner]) | (state == end[owner])
    owner, state, group, step = owner[keep], state[keep], group[keep], step[keep]
    final = state == end[owner]

    taken = _odd_steps_taken(problem, ups, even, owner, state)
    seconds = ups.seconds[state] - (even.odd_s[owner] * taken).sum(axis=1)
    variance = ups.variance[state] + (even.odd_v[owner] * taken).sum(axis=1)
    base_s = ups.seconds[ups.first[links]][owner]
    units = np.rint((seconds - base_s) / even.unit_s[owner])
    saves = problem.group_beta[group] * even.step_variance[step]
    filler = _fillers(ups, owner, state, step, final)

    # One stair for every number of units: the state itself, and what is short of its next upgrade by some.
    source, extra = spans(np.zeros(state.size, dtype=np.int64), np.where(final, 1, even.step_units[step]))
    bound = variance[source] - saves[source] * extra / even.step_units[step[source]]
    reached, left = variance[source].copy(), extra.copy()
    also = np.full((source.size, even.step_units.size), -1)
    for each in np.argsort(-even.step_units):
        place = filler[source, each]
        use = np.flatnonzero((place >= 0) & (even.step_units[each] <= left))
        left[use] -= even.step_units[each]
        reached[use] -= saves[place[use]]
        also[use, each] = state[place[use]]

    seconds = base_s[source] + (units[source] + extra) * even.unit_s[owner[source]]
    if even.odd_v.sum() <= spare:
        free = even.odd_v.sum(axis=1)[owner[source]]
        odd = np.where(even.odd >= 0, 0, -1)[owner[source]]
        return Stairs(links[owner[source]], seconds, bound - free, reached, state[source], odd, also)
    return _with_odd(even, owner[source], seconds, bound, reached, state[source], also)


def _with_odd(
    even: Even, owner: Index, seconds: Array, bound: Array, reached: Array, state: Index, also: Index
) -> Stairs:
    """Return the stairs of the even groups once for every width of the odd group."""
    parts = []
    for steps in range(even.step_units.size + 1):
        some = np.flatnonzero(even.odd[owner] >= 0) if steps else np.arange(owner.size)
        which = owner[some]
        more_s, less_v = even.odd_s[which, :steps].sum(axis=1), even.odd_v[which, :steps].sum(axis=1)
        parts.append(
            Stairs(
                link=even.links[which],
                seconds=seconds[some] + more_s,
                bound=bound[some] - less_v,
                reached=reached[some] - less_v,
                state=state[some],
                odd=np.where(even.odd[which] >= 0, steps, -1),
                also=also[some],
            )
        )
    return joined(parts)


def _odd_steps_taken(problem: Problem, ups: Upgrades, even: Even, owner: Index, state: Index) -> NDArray[np.bool_]:
    """Return which steps of the odd group lie before each state, ``(., J)``."""
    links, there = even.links, even.odd >= 0
    place = even.odd.copy()
    if not ups.in_order:
        position = np.empty_like(ups.by_link)
        position[ups.by_link] = np.arange(ups.by_link.size)
        place = np.where(there, position[even.odd], -1)
    place -= ups.start[links]
    slopes = group_slopes(problem, ups.hull, even.odd)
    column = np.arange(slopes.shape[1]) * ups.width[links][:, None] + place[:, None]
    slope = ups.slope[state][:, None]
    before = (slopes[owner] > slope) | ((slopes[owner] == slope) & (column[owner] < ups.column[state][:, None]))
    return before & there[owner][:, None] & (slopes[owner] > 0)


def _fillers(ups: Upgrades, owner: Index, state: Index, step: Index, final: NDArray[np.bool_]) -> Index:
    """Return where, after each state, the next upgrade of each step of the hull is to be had, or -1, ``(., J)``.

    That a group's earlier step was taken before the state can be read off its slope; where it cannot, there is none.
    """
    steps, nowhere = ups.hull.size - 1, state.size
    place = np.arange(state.size)
    steepness = ups.slope[state]
    found = np.full((state.size, steps), -1)
    for each in range(steps):
        candidate = np.where((step == each) & ~final, place, nowhere)
        following = np.minimum.accumulate(candidate[::-1])[::-1]
        following = np.append(following[1:], nowhere)
        there = following < nowhere
        there[there] = owner[following[there]] == owner[there]
        if each:
            # Slopes of one group fall from step to step in a fixed ratio.
            earlier = ups.slope[state[following[there]]] * ups.fall[each - 1]
            there[there] = earlier > steepness[there]
        found[there, each] = following[there]
    return found
