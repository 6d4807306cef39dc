"""Solves the bit-width problem where every transfer queues at both of its ends, and proves how good the answer is.

A pair then spends time of two links, its sender's and its receiver's, so links cannot be looked at one by one, but
pairs can: a pair's upgrades by falling slope say what it saves in any time that it is given.

1. The relaxation, by columns (Dantzig and Wolfe, 1960): a linear program mixes some states of every pair so that all
   links end in time; its multipliers price the links, each pair answers with its best state at these prices, and that
   state joins the program, until no pair has a better one.
2. Whole groups: states within the mix, and then upgrades that still fit, by what they save for their price.
3. What no reduced cost rules out: every assignment of the groups whose width is then still open, tried where there are
   few (an answer in milliseconds, as a slider needs it), else an integer program.

Linear and integer programs are solved by HiGHS. It is trusted for less than it says: a bound of the relaxation is
evaluated anew from the multipliers (:func:`gnnqlab.bits.assigner.relaxation.dual_bound`), one of the integer program is
lowered by what HiGHS calls feasible, and what an assignment is worth is always the problem's own arithmetic. All limits
count work, none counts seconds, so that the answer is the same on a busy machine.

Letters: G groups, I device pairs, L links, K columns, B widths.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gnnqlab.bits.assigner.problem import Problem, Solution
from gnnqlab.bits.assigner.relaxation import Upgrades, dual_bound, upgrades

__all__ = ["solve_full_duplex"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_FEASIBLE = 2e-6
"""Share of the longest exchange by which an answer of HiGHS may be late: it calls 1e-6 feasible."""
_SPREAD = 9
"""States of each pair, evenly over all it has, that the first linear program mixes."""
_CLOSE = 1e-8
"""Of an objective that is at most 1: prices this close to the best ones are good enough."""
_PROGRAMS = 60
"""Linear programs at most; prices are known to `_CLOSE` after some five to fifteen."""
_TOGETHER = 4096
"""Upgrades that are tried one after another before all that still fit are looked for anew."""
_TRIED = 20_000
"""Assignments of the open groups that are tried one and all; more are left to an integer program."""
_NODES = 200
"""Nodes of the integer program's tree at most."""


def solve_full_duplex(
    problem: Problem, *, tolerance: float = 1e-4, most_open: int = 64, most_tried: int = _TRIED
) -> Solution:
    """Return the best assignment that can be found fast, with a proved lower bound on every assignment.

    Args:
        problem: what to assign, its transfers queueing at both ends.
        tolerance: a gap above this is narrowed by an integer program.
        most_open: at most so many groups whose width is then still open; more would take seconds. Where there are more
            the gap stays that of the relaxation, some per cent: one upgrade less on every link.
        most_tried: assignments of open groups that are tried one and all, in place of an integer program.

    Raises:
        ValueError: if transfers queue at one end only.
    """
    if problem.pair_far_link is None:
        raise ValueError("transfers must queue at both ends, got links at one end only; use solve")
    pairs = problem.pair_link.size
    alone = replace(problem, pair_link=np.arange(pairs), pair_far_link=None, link_round=np.zeros(pairs, dtype=np.int64))
    ups = upgrades(alone)
    relaxed = _relax(problem, ups)
    weight_v, weight_t = problem.weights
    base = weight_v * problem.ends[0] + weight_t * problem.ends[2]
    proved = max(0.0, float(dual_bound(problem, relaxed.multipliers).sum()) - base)
    found = min(
        (problem.solution(choice, proved) for choice in _rounded(problem, ups, relaxed)), key=lambda one: one.objective
    )
    if found.gap <= tolerance:
        return found
    return _closed(problem, relaxed.multipliers, found, tolerance, most_open, most_tried)


@dataclass(frozen=True, eq=False)
class _Relaxed:
    multipliers: Array
    """Of the dual, one a link, summing to the price of a second, ``(L,)``."""
    pair_s: Array
    """Seconds of each pair in the best mix, ``(I,)``."""


def _relax(problem: Problem, ups: Upgrades) -> _Relaxed:
    """Find the prices of all links, and the mix of states that is best at them."""
    weight_v, weight_t = problem.weights
    if weight_v == 0 or weight_t == 0:
        return _one_sided(problem, ups)
    steps = (ups.last - ups.first)[:, None] * np.linspace(0, 1, _SPREAD)
    known = ups.first[:, None] + steps.astype(np.int64)
    owner, state = _unique(np.repeat(np.arange(ups.first.size), _SPREAD), known.ravel())
    best, best_proved = None, -np.inf
    for _ in range(_PROGRAMS):
        master = _master(problem, ups, owner, state)
        answer = _priced(ups, weight_v, problem, master.multipliers)
        price = _of_pairs(problem, master.multipliers)
        worth = weight_v * ups.variance[answer] + price * ups.seconds[answer]
        # The master's optimum is the sum of what pairs are worth in it; the true one is between both sums.
        proved = float(worth.sum())
        if proved > best_proved:
            best, best_proved = master, proved
        if master.objective - best_proved <= _CLOSE:
            break
        beside = np.clip(answer[:, None] + np.array([-1, 0, 1]), ups.first[:, None], ups.last[:, None])
        both = np.concatenate([owner, np.repeat(np.arange(answer.size), 3)]), np.concatenate([state, beside.ravel()])
        wider = _unique(*both)
        if wider[1].size == state.size:
            break
        owner, state = wider
    assert best is not None
    return _Relaxed(best.multipliers, best.pair_s)


def _one_sided(problem: Problem, ups: Upgrades) -> _Relaxed:
    """Return the optimum where only time counts, or only variance."""
    _, weight_t = problem.weights
    multipliers = np.zeros(problem.link_round.size)
    if weight_t == 0:
        return _Relaxed(multipliers, ups.seconds[ups.last])
    cheapest = problem.link_s(np.full(problem.group_rows.size, problem.cheapest))
    multipliers[cheapest.argmax()] = weight_t
    return _Relaxed(multipliers, ups.seconds[ups.first])


@dataclass(frozen=True, eq=False)
class _Master:
    objective: float
    multipliers: Array
    pair_s: Array


def _master(problem: Problem, ups: Upgrades, owner: Index, state: Index) -> _Master:
    """Mix these states of these pairs at the least variance and time together."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, hstack

    assert problem.pair_far_link is not None
    weight_v, weight_t = problem.weights
    unit_s = problem.ends[3]  # so that the solver's absolute tolerances mean something
    columns, links, pairs = np.arange(state.size), problem.link_round.size, ups.first.size
    seconds = ups.seconds[state] / unit_s
    queues = np.concatenate([problem.pair_link[owner], problem.pair_far_link[owner]])
    on_link = coo_array((np.tile(seconds, 2), (queues, np.tile(columns, 2))), shape=(links, columns.size))
    of_pair = coo_array((np.ones(columns.size), (owner, columns)), shape=(pairs, columns.size))
    found = linprog(
        np.append(weight_v * ups.variance[state], weight_t * unit_s),
        A_ub=hstack([on_link, coo_array(-np.ones((links, 1)))]).tocsc(),
        b_ub=np.zeros(links),
        A_eq=hstack([of_pair, coo_array((pairs, 1))]).tocsc(),
        b_eq=np.ones(pairs),
        method="highs",
    )
    if found.status != 0:
        raise RuntimeError(f"a mix of states must have a best one, got from HiGHS: {found.message}")
    multipliers = np.maximum(-found.ineqlin.marginals / unit_s, 0.0)
    multipliers *= weight_t / multipliers.sum()
    pair_s: Array = np.bincount(owner, found.x[:-1] * ups.seconds[state], minlength=pairs).astype(np.float64)
    return _Master(float(found.fun), multipliers, pair_s)


def _priced(ups: Upgrades, weight_v: float, problem: Problem, multipliers: Array) -> Index:
    """Return the best state of every pair at these prices: all upgrades that save more than they cost."""
    price = _of_pairs(problem, multipliers)
    low, high = ups.first.copy(), ups.last.copy()
    while (low < high).any():
        middle = (low + high) >> 1
        pays = (weight_v * ups.slope[middle] > price) & (low < high)
        low, high = np.where(pays, middle + 1, low), np.where(pays, high, np.minimum(middle, high))
    return low


def _of_pairs(problem: Problem, multipliers: Array) -> Array:
    assert problem.pair_far_link is not None
    price: Array = multipliers[problem.pair_link] + multipliers[problem.pair_far_link]
    return price


def _unique(owner: Index, state: Index) -> tuple[Index, Index]:
    """States lie pair by pair, so that a state has one owner."""
    state, place = np.unique(state, return_index=True)
    return owner[place], state


def _rounded(problem: Problem, ups: Upgrades, relaxed: _Relaxed) -> list[Index]:
    """Return choices of whole groups near the best mix: within its time, and with the next upgrade of each pair."""
    within = ups.at(relaxed.pair_s * (1 + 1e-12))
    beyond = np.minimum(within + (ups.seconds[within] < relaxed.pair_s * (1 - 1e-9)), ups.last)
    found = []
    for state in (within, beyond):
        levels = ups.steps_taken(state)
        limit = float(problem.link_s(ups.hull[levels]).max())
        for end in {limit, max(limit, _longest(problem, relaxed))}:
            found.append(ups.hull[_filled(problem, ups, levels.copy(), relaxed.multipliers, end)])
    return found


def _longest(problem: Problem, relaxed: _Relaxed) -> float:
    """The seconds of the busiest link in the best mix."""
    assert problem.pair_far_link is not None
    links = problem.link_round.size
    leaving, entering = (
        np.bincount(end, relaxed.pair_s, minlength=links) for end in (problem.pair_link, problem.pair_far_link)
    )
    return float((leaving + entering).max())


def _filled(problem: Problem, ups: Upgrades, levels: Index, multipliers: Array, limit_s: float) -> Index:
    """Spend what links have left up to a time on upgrades that fit, by variance saved for their price."""
    assert problem.group_far_link is not None
    more_bytes, saves = np.diff(problem.width_bytes[ups.hull]), -np.diff(problem.width_variance[ups.hull])
    spare_s = limit_s - problem.link_s(ups.hull[levels])
    price = problem.group_price(multipliers)
    while True:
        open_groups = np.flatnonzero((levels < ups.hull.size - 1) & (problem.group_beta > 0))
        cost = problem.group_s_per_byte[open_groups] * more_bytes[levels[open_groups]]
        near, far = problem.group_link[open_groups], problem.group_far_link[open_groups]
        fits = cost <= np.minimum(spare_s[near], spare_s[far])
        if not fits.any():
            return levels
        # Price alone would be 0 on links that have time to spare: seconds count a little everywhere.
        paid = (price[open_groups] + 1e-3 * multipliers.sum() + 1e-300) * cost + 1e-300
        worth = problem.group_beta[open_groups] * saves[levels[open_groups]] / paid
        for place in np.flatnonzero(fits)[np.argsort(-worth[fits], kind="stable")[:_TOGETHER]].tolist():
            ends = [near[place], far[place]]
            if cost[place] <= spare_s[ends].min():
                spare_s[ends] -= cost[place]
                levels[open_groups[place]] += 1


def _closed(
    problem: Problem, multipliers: Array, known: Solution, tolerance: float, most_open: int, most_tried: int
) -> Solution:
    """Look for something better among the widths that can be part of it, and raise the bound."""
    weight_v, _ = problem.weights
    cost = np.outer(problem.group_price(multipliers) * problem.group_s_per_byte, problem.width_bytes)
    cost += weight_v * np.outer(problem.group_beta, problem.width_variance)
    usual = cost.argmin(axis=1)
    cost -= cost.min(axis=1, keepdims=True)
    allowed = cost <= known.objective - known.bound + 1e-12
    is_open = allowed.sum(axis=1) > 1
    if is_open.sum() > most_open:
        return known
    if not is_open.any():
        # Whatever is better than what is known is this one assignment.
        only = problem.solution(usual, -np.inf)
        better = min(known, only, key=lambda one: one.objective)
        return replace(better, bound=better.objective)
    if allowed[is_open].sum(axis=1).astype(float).prod() <= most_tried:
        tried = problem.solution(_tried(problem, usual, allowed, is_open), -np.inf)
        better = min(known, tried, key=lambda one: one.objective)
        return replace(better, bound=better.objective)
    choice, bound = _integer(problem, usual, allowed, is_open, tolerance)
    # Nothing better than what is known was ruled out, so all there is lies above the lesser of both.
    proved = max(known.bound, min(bound, known.objective))
    candidates = [known] if choice is None else [known, problem.solution(choice, -np.inf)]
    better = min(candidates, key=lambda one: one.objective)
    return replace(better, bound=min(proved, better.objective))


def _tried(problem: Problem, usual: Index, allowed: NDArray[np.bool_], is_open: NDArray[np.bool_]) -> Index:
    """Return the best of all choices of the open groups, the others at their usual width."""
    assert problem.group_far_link is not None
    weight_v, weight_t = problem.weights
    groups = np.flatnonzero(is_open)
    grid = np.meshgrid(*(np.flatnonzero(allowed[group]) for group in groups), indexing="ij")
    widths = np.stack(grid, axis=-1).reshape(-1, groups.size)
    fixed = np.where(is_open, 0.0, problem.group_s_per_byte * problem.width_bytes[usual])
    link_s = np.tile(problem.link_gamma_s + problem.by_link(fixed), (len(widths), 1))
    variance = np.zeros(len(widths))
    for column, group in zip(widths.T, groups.tolist()):
        taken = problem.group_s_per_byte[group] * problem.width_bytes[column]
        for link in (problem.group_link[group], problem.group_far_link[group]):
            link_s[:, link] += taken
        variance += problem.group_beta[group] * problem.width_variance[column]
    best = (weight_v * variance + weight_t * link_s.max(axis=1)).argmin()
    choice = usual.copy()
    choice[groups] = widths[best]
    return choice


def _integer(
    problem: Problem, usual: Index, allowed: NDArray[np.bool_], is_open: NDArray[np.bool_], tolerance: float
) -> tuple[Index | None, float]:
    """Solve Eq. 12 over the open groups, the others at their usual width; return a choice and the bound."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array, hstack

    assert problem.group_far_link is not None
    weight_v, weight_t = problem.weights
    unit_s, links = problem.ends[3], problem.link_round.size
    group, width = np.nonzero(allowed & is_open[:, None])
    extra_v = problem.width_variance - problem.width_variance[problem.finest]
    fixed = np.where(is_open, 0.0, problem.group_s_per_byte * problem.width_bytes[usual])
    fixed_s = (problem.link_gamma_s + problem.by_link(fixed)) / unit_s
    fixed_v = weight_v * float((problem.group_beta * extra_v[usual])[~is_open].sum())
    least_s = problem.ends[2] / unit_s

    columns = np.arange(group.size)
    seconds = problem.group_s_per_byte[group] * problem.width_bytes[width] / unit_s
    queues = np.concatenate([problem.group_link[group], problem.group_far_link[group]])
    on_link = coo_array((np.tile(seconds, 2), (queues, np.tile(columns, 2))), shape=(links, columns.size))
    of_group = coo_array(
        (np.ones(columns.size), (np.cumsum(is_open)[group] - 1, columns)), shape=(int(is_open.sum()), columns.size)
    )
    # The last variable is how much longer than at utopia the exchange takes.
    in_time = LinearConstraint(hstack([on_link, coo_array(-np.ones((links, 1)))]).tocsc(), ub=least_s - fixed_s)
    one_width = LinearConstraint(hstack([of_group, coo_array((of_group.shape[0], 1))]).tocsc(), lb=1, ub=1)
    found = milp(
        np.append(weight_v * problem.group_beta[group] * extra_v[width], weight_t * unit_s),
        integrality=np.append(np.ones(columns.size), 0),
        bounds=Bounds(0, np.append(np.ones(columns.size), np.inf)),
        constraints=[in_time, one_width],
        # With presolve HiGHS writes to standard output whatever it is told, and is no quicker on programs this small.
        options={"mip_rel_gap": tolerance / 2, "node_limit": _NODES, "presolve": False},
    )
    dual = getattr(found, "mip_dual_bound", None)
    bound = -np.inf if dual is None else float(dual) + fixed_v - _FEASIBLE * weight_t * unit_s
    if found.x is None:
        return None, bound
    choice = usual.copy()
    share = np.zeros(allowed.shape)
    share[group, width] = found.x[:-1]
    choice[is_open] = share[is_open].argmax(axis=1)
    return choice, bound
