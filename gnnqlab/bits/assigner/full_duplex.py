"""Solver of the bit-width problem for transfers that queue at both ends, with a proved bound on the objective.

A pair then takes time on two links, its sender's and its receiver's, so links cannot be solved one by one. Pairs can:
a pair's upgrades by falling slope give the variance it saves within any time.

1. Relaxation by column generation (Dantzig and Wolfe, 1960): a linear program mixes some states of every pair so that
   all links end in time. Its multipliers price the links, the best state of each pair at these prices is added to the
   program, and so on until no pair has a better one.
2. Whole groups: states within the mix, then upgrades that still fit, by variance saved per price.
3. Groups whose bit-width the reduced costs leave open: all their assignments if there are few (milliseconds, as a
   slider needs), else an integer program.

HiGHS solves the linear and integer programs, but its claims are checked: a bound of the relaxation is evaluated
again from the multipliers (:func:`gnnqlab.bits.assigner.relaxation.dual_bound`), one of the integer program is
lowered by the feasibility tolerance of HiGHS, and the objective of an assignment is always computed by ``Problem``.
All limits count work, none counts seconds, so that the result is identical on a busy machine.

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
"""Share of the longest exchange by which a solution of HiGHS may be late: its tolerance is 1e-6."""
_START_STATES = 9
"""States of each pair in the first linear program, evenly spaced over all states of the pair."""
_TOLERANCE = 1e-8
"""Accepted distance to the optimum of the relaxation, for an objective of at most 1."""
_PROGRAMS = 60
"""Limit of linear programs; five to fifteen usually reach `_TOLERANCE`."""
_BATCH = 4096
"""Upgrades tried one after another before those that still fit are searched for again."""
_MAX_TRIED = 20_000
"""Limit of assignments of the open groups for exhaustive search; an integer program handles more."""
_NODES = 200
"""Limit of nodes in the tree of the integer program."""


def solve_full_duplex(
    problem: Problem, *, tolerance: float = 1e-4, most_open: int = 64, most_tried: int = _MAX_TRIED
) -> Solution:
    """Find a good assignment in milliseconds, with a proved lower bound on every assignment.

    Args:
        problem: groups and links, with transfers that queue at both ends.
        tolerance: a gap above this is narrowed by an integer program.
        most_open: limit of groups with an open bit-width for the integer program; more would take seconds. Above it the
            gap remains that of the relaxation, some per cent: one upgrade less on every link.
        most_tried: limit of assignments of open groups for exhaustive search, in place of an integer program.

    Raises:
        ValueError: if transfers queue at one end only.
    """
    if problem.pair_far_link is None:
        raise ValueError("transfers must queue at both ends, got links at one end only; use solve")
    pairs = problem.pair_link.size
    # Upgrades are sorted per pair, as if every pair had a link of its own.
    by_pair = replace(
        problem, pair_link=np.arange(pairs), pair_far_link=None, link_round=np.zeros(pairs, dtype=np.int64)
    )
    ups = upgrades(by_pair)
    relaxation = _relax(problem, ups)
    weight_v, weight_t = problem.weights
    base = weight_v * problem.ends[0] + weight_t * problem.ends[2]
    # The dual bounds the absolute objective; the normalised one is relative to utopia, `base`.
    proved_bound = max(0.0, float(dual_bound(problem, relaxation.multipliers).sum()) - base)
    best_solution = min(
        (problem.solution(choice, proved_bound) for choice in _whole_choices(problem, ups, relaxation)),
        key=lambda solution: solution.objective,
    )
    if best_solution.gap <= tolerance:
        return best_solution
    return _close_gap(problem, relaxation.multipliers, best_solution, tolerance, most_open, most_tried)


@dataclass(frozen=True, eq=False)
class _Relaxed:
    multipliers: Array
    """Dual multiplier of each link, summing to the price of a second, ``(L,)``."""
    pair_s: Array
    """Seconds of each pair in the best mix, ``(I,)``."""


def _relax(problem: Problem, ups: Upgrades) -> _Relaxed:
    """Find the prices of all links, and the best mix of states at these prices."""
    weight_v, weight_t = problem.weights
    if weight_v == 0 or weight_t == 0:
        return _one_sided(problem, ups)
    steps = (ups.last - ups.first)[:, None] * np.linspace(0, 1, _START_STATES)
    start = ups.first[:, None] + steps.astype(np.int64)  # (I, K per pair)
    owner, state = _unique(np.repeat(np.arange(ups.first.size), _START_STATES), start.ravel())
    best_master, best_bound = None, -np.inf
    # Column generation: solve the restricted master, price all states, add the best ones.
    for _ in range(_PROGRAMS):
        master = _master(problem, ups, owner, state)
        answer = _best_states(ups, weight_v, problem, master.multipliers)
        price = _of_pairs(problem, master.multipliers)  # (I,), a pair's seconds count on both of its links
        cost = weight_v * ups.variance[answer] + price * ups.seconds[answer]
        # The master is restricted, so its optimum is an upper bound; each pair's own best state gives a lower one.
        proved_bound = float(cost.sum())
        if proved_bound > best_bound:  # bounds of successive programs may fall again
            best_master, best_bound = master, proved_bound
        if master.objective - best_bound <= _TOLERANCE:
            break
        # Neighbouring states too: the optimum mixes adjacent states, so fewer programs are needed.
        nearby_states = np.clip(answer[:, None] + np.array([-1, 0, 1]), ups.first[:, None], ups.last[:, None])
        candidates = (
            np.concatenate([owner, np.repeat(np.arange(answer.size), 3)]),
            np.concatenate([state, nearby_states.ravel()]),
        )
        next_states = _unique(*candidates)
        if next_states[1].size == state.size:  # no new state, so the master has the optimum of all states
            break
        owner, state = next_states
    assert best_master is not None
    return _Relaxed(best_master.multipliers, best_master.pair_s)


def _one_sided(problem: Problem, ups: Upgrades) -> _Relaxed:
    """Return the optimum if only time counts, or only variance."""
    _, weight_t = problem.weights
    multipliers = np.zeros(problem.link_round.size)
    # Time is free: each pair takes all upgrades.
    if weight_t == 0:
        return _Relaxed(multipliers, ups.seconds[ups.last])
    cheapest_s = problem.link_s(np.full(problem.group_rows.size, problem.cheapest))
    # Variance is free: the slowest link at the cheapest bit-widths bears the whole price.
    multipliers[cheapest_s.argmax()] = weight_t
    return _Relaxed(multipliers, ups.seconds[ups.first])


@dataclass(frozen=True, eq=False)
class _Master:
    objective: float
    multipliers: Array
    pair_s: Array


def _master(problem: Problem, ups: Upgrades, owner: Index, state: Index) -> _Master:
    """Solve the restricted master program: the mix of these states with the least weighted variance and time."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, hstack

    assert problem.pair_far_link is not None
    weight_v, weight_t = problem.weights
    unit_s = problem.ends[3]  # times relative to the longest exchange, for the solver's absolute tolerances
    columns, links, pairs = np.arange(state.size), problem.link_round.size, ups.first.size
    seconds = ups.seconds[state] / unit_s
    queues = np.concatenate([problem.pair_link[owner], problem.pair_far_link[owner]])
    # One row per link: its time in the mix is at most the last variable, the time of the exchange (in unit_s).
    link_matrix = coo_array((np.tile(seconds, 2), (queues, np.tile(columns, 2))), shape=(links, columns.size))
    pair_matrix = coo_array((np.ones(columns.size), (owner, columns)), shape=(pairs, columns.size))  # shares sum to 1
    result = linprog(
        np.append(weight_v * ups.variance[state], weight_t * unit_s),  # (K + 1,); the last is the time
        A_ub=hstack([link_matrix, coo_array(-np.ones((links, 1)))]).tocsc(),
        b_ub=np.zeros(links),
        A_eq=hstack([pair_matrix, coo_array((pairs, 1))]).tocsc(),
        b_eq=np.ones(pairs),
        method="highs",
    )
    if result.status != 0:
        raise RuntimeError(f"the linear program must have an optimum, got from HiGHS: {result.message}")
    # Clip and rescale the rounding errors of HiGHS, because the dual bound needs μ >= 0 with the exact sum.
    multipliers = np.maximum(-result.ineqlin.marginals / unit_s, 0.0)
    multipliers *= weight_t / multipliers.sum()
    # (K,) shares -> (I,), the mean time of each pair's mix.
    pair_s: Array = np.bincount(owner, result.x[:-1] * ups.seconds[state], minlength=pairs).astype(np.float64)
    return _Master(float(result.fun), multipliers, pair_s)


def _best_states(ups: Upgrades, weight_v: float, problem: Problem, multipliers: Array) -> Index:
    """Return the best state of every pair at these prices: all upgrades that save more than they cost."""
    price = _of_pairs(problem, multipliers)
    low, high = ups.first.copy(), ups.last.copy()
    # Slopes fall along the states of a pair, so bisection finds the last upgrade that pays; all pairs at once.
    while (low < high).any():
        middle = (low + high) >> 1
        is_profitable = (weight_v * ups.slope[middle] > price) & (low < high)
        low, high = np.where(is_profitable, middle + 1, low), np.where(is_profitable, high, np.minimum(middle, high))
    return low


def _of_pairs(problem: Problem, multipliers: Array) -> Array:
    assert problem.pair_far_link is not None
    price: Array = multipliers[problem.pair_link] + multipliers[problem.pair_far_link]
    return price


def _unique(owner: Index, state: Index) -> tuple[Index, Index]:
    """Remove duplicate states; states are numbered pair by pair, so each has one owner."""
    state, index = np.unique(state, return_index=True)
    return owner[index], state


def _whole_choices(problem: Problem, ups: Upgrades, relaxation: _Relaxed) -> list[Index]:
    """Return choices of whole groups near the best mix: within its time, and with the next upgrade of each pair."""
    # With rounding errors a mix of one state may seem a little shorter than the state itself.
    lower_state = ups.last_state_within(relaxation.pair_s * (1 + 1e-12))
    upper_state = np.minimum(lower_state + (ups.seconds[lower_state] < relaxation.pair_s * (1 - 1e-9)), ups.last)
    choices = []
    for state in (lower_state, upper_state):
        levels = ups.steps_taken(state)
        limit = float(problem.link_s(ups.hull[levels]).max())
        for end in {limit, max(limit, _longest(problem, relaxation))}:  # time of these groups, or of the mix
            choices.append(ups.hull[_spend_spare(problem, ups, levels.copy(), relaxation.multipliers, end)])
    return choices


def _longest(problem: Problem, relaxation: _Relaxed) -> float:
    """Return the seconds of the busiest link in the best mix."""
    assert problem.pair_far_link is not None
    links = problem.link_round.size
    sender_s, receiver_s = (
        np.bincount(end, relaxation.pair_s, minlength=links) for end in (problem.pair_link, problem.pair_far_link)
    )
    return float((sender_s + receiver_s).max())


def _spend_spare(problem: Problem, ups: Upgrades, levels: Index, multipliers: Array, limit_s: float) -> Index:
    """Spend the spare time of links up to a limit on upgrades that fit, by variance saved per price."""
    assert problem.group_far_link is not None
    # Per step of the hull, (J,).
    more_bytes, saved_variance = np.diff(problem.width_bytes[ups.hull]), -np.diff(problem.width_variance[ups.hull])
    spare_s = limit_s - problem.link_s(ups.hull[levels])
    price = problem.group_price(multipliers)
    while True:
        open_groups = np.flatnonzero((levels < ups.hull.size - 1) & (problem.group_beta > 0))
        cost = problem.group_s_per_byte[open_groups] * more_bytes[levels[open_groups]]
        near_link, far_link = problem.group_link[open_groups], problem.group_far_link[open_groups]
        has_time = cost <= np.minimum(spare_s[near_link], spare_s[far_link])  # a transfer takes its time on both links
        if not has_time.any():
            return levels
        # A link with spare time has the price 0; a small price everywhere still ranks upgrades by their seconds there.
        # 1e-300 prevents a division by zero for an upgrade without cost.
        total_price = (price[open_groups] + 1e-3 * multipliers.sum() + 1e-300) * cost + 1e-300
        ratio = problem.group_beta[open_groups] * saved_variance[levels[open_groups]] / total_price
        for index in np.flatnonzero(has_time)[np.argsort(-ratio[has_time], kind="stable")[:_BATCH]].tolist():
            ends = [near_link[index], far_link[index]]
            if cost[index] <= spare_s[ends].min():  # upgrades before it may have used the time
                spare_s[ends] -= cost[index]
                levels[open_groups[index]] += 1


def _close_gap(
    problem: Problem, multipliers: Array, known_solution: Solution, tolerance: float, most_open: int, most_tried: int
) -> Solution:
    """Search for a better assignment among the bit-widths that reduced costs allow, and raise the bound."""
    weight_v, _ = problem.weights
    # Reduced cost (G, B): increase of the Lagrangian over the group's best bit-width at these multipliers.
    cost = np.outer(problem.group_price(multipliers) * problem.group_s_per_byte, problem.width_bytes)
    cost += weight_v * np.outer(problem.group_beta, problem.width_variance)
    defaults = cost.argmin(axis=1)  # (G, B) -> (G,)
    cost -= cost.min(axis=1, keepdims=True)
    # A choice with a larger reduced cost is in no assignment better than the known one.
    is_allowed = cost <= known_solution.objective - known_solution.bound + 1e-12
    is_open = is_allowed.sum(axis=1) > 1
    if is_open.sum() > most_open:
        return known_solution
    if not is_open.any():
        # Only this assignment can be better than the known one.
        only_solution = problem.solution(defaults, -np.inf)
        better_solution = min(known_solution, only_solution, key=lambda solution: solution.objective)
        return replace(better_solution, bound=better_solution.objective)
    if is_allowed[is_open].sum(axis=1).astype(float).prod() <= most_tried:  # float: int64 could overflow
        best_solution = problem.solution(_best_of_all(problem, defaults, is_allowed, is_open), -np.inf)
        better_solution = min(known_solution, best_solution, key=lambda solution: solution.objective)
        return replace(better_solution, bound=better_solution.objective)
    choice, bound = _integer(problem, defaults, is_allowed, is_open, tolerance)
    # Only assignments no better than the known one were excluded, so the smaller of both values bounds all of them.
    proved_bound = max(known_solution.bound, min(bound, known_solution.objective))
    candidates = [known_solution] if choice is None else [known_solution, problem.solution(choice, -np.inf)]
    better_solution = min(candidates, key=lambda solution: solution.objective)
    return replace(better_solution, bound=min(proved_bound, better_solution.objective))


def _best_of_all(problem: Problem, defaults: Index, is_allowed: NDArray[np.bool_], is_open: NDArray[np.bool_]) -> Index:
    """Return the best of all choices of the open groups, the others at their usual bit-width."""
    assert problem.group_far_link is not None
    weight_v, weight_t = problem.weights
    groups = np.flatnonzero(is_open)
    grid = np.meshgrid(*(np.flatnonzero(is_allowed[group]) for group in groups), indexing="ij")
    widths = np.stack(grid, axis=-1).reshape(-1, groups.size)  # (assignments, open groups)
    group_fixed_s = np.where(is_open, 0.0, problem.group_s_per_byte * problem.width_bytes[defaults])  # (G,)
    link_s = np.tile(problem.link_gamma_s + problem.by_link(group_fixed_s), (len(widths), 1))  # (assignments, L)
    variance = np.zeros(len(widths))  # (assignments,)
    for column, group in zip(widths.T, groups.tolist()):
        seconds = problem.group_s_per_byte[group] * problem.width_bytes[column]
        for link in (problem.group_link[group], problem.group_far_link[group]):
            link_s[:, link] += seconds
        variance += problem.group_beta[group] * problem.width_variance[column]
    best_index = (weight_v * variance + weight_t * link_s.max(axis=1)).argmin()
    choice = defaults.copy()
    choice[groups] = widths[best_index]
    return choice


def _integer(
    problem: Problem, defaults: Index, is_allowed: NDArray[np.bool_], is_open: NDArray[np.bool_], tolerance: float
) -> tuple[Index | None, float]:
    """Solve Eq. 12 over the open groups, the others at their usual bit-width; return a choice and the bound."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array, hstack

    assert problem.group_far_link is not None
    weight_v, weight_t = problem.weights
    unit_s, links = problem.ends[3], problem.link_round.size
    group, width = np.nonzero(is_allowed & is_open[:, None])  # (K,) each: one binary per choice
    extra_v = problem.width_variance - problem.width_variance[problem.finest]
    group_fixed_s = np.where(is_open, 0.0, problem.group_s_per_byte * problem.width_bytes[defaults])
    fixed_s = (problem.link_gamma_s + problem.by_link(group_fixed_s)) / unit_s
    fixed_v = weight_v * float((problem.group_beta * extra_v[defaults])[~is_open].sum())
    least_s = problem.ends[2] / unit_s

    columns = np.arange(group.size)
    seconds = problem.group_s_per_byte[group] * problem.width_bytes[width] / unit_s
    queues = np.concatenate([problem.group_link[group], problem.group_far_link[group]])
    link_matrix = coo_array((np.tile(seconds, 2), (queues, np.tile(columns, 2))), shape=(links, columns.size))
    group_matrix = coo_array(
        (np.ones(columns.size), (np.cumsum(is_open)[group] - 1, columns)), shape=(int(is_open.sum()), columns.size)
    )
    # The last variable is the time of the exchange above its time at utopia.
    time_limit = LinearConstraint(hstack([link_matrix, coo_array(-np.ones((links, 1)))]).tocsc(), ub=least_s - fixed_s)
    width_sum = LinearConstraint(hstack([group_matrix, coo_array((group_matrix.shape[0], 1))]).tocsc(), lb=1, ub=1)
    result = milp(
        np.append(weight_v * problem.group_beta[group] * extra_v[width], weight_t * unit_s),
        integrality=np.append(np.ones(columns.size), 0),
        bounds=Bounds(0, np.append(np.ones(columns.size), np.inf)),
        constraints=[time_limit, width_sum],
        # With presolve HiGHS prints to standard output whatever its options, and is no faster on such small programs.
        options={"mip_rel_gap": tolerance / 2, "node_limit": _NODES, "presolve": False},
    )
    dual = getattr(result, "mip_dual_bound", None)
    # HiGHS may violate a link's constraint by its tolerance, so the bound is lowered by the price of that time.
    bound = -np.inf if dual is None else float(dual) + fixed_v - _FEASIBLE * weight_t * unit_s
    if result.x is None:
        return None, bound
    choice = defaults.copy()
    share = np.zeros(is_allowed.shape)  # (G, B)
    share[group, width] = result.x[:-1]
    choice[is_open] = share[is_open].argmax(axis=1)  # argmax: binaries are 0 or 1 up to a tolerance
    return choice, bound
