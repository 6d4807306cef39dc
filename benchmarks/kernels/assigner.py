"""Bit-width assignment: the solver used in training, compared with HiGHS on the reference model of the problem.

Instances resemble real messages: pairs of different sizes, groups of 100 rows with a shorter last one, β descending
over four orders of magnitude within a pair, links of different rates; one layer and direction.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

from benchmarks.engine.rows import row

if TYPE_CHECKING:
    from gnnqlab.bits.assigner.problem import Problem

__all__ = ["assigner", "instance"]

# Goals: seconds of a solve, certified gap, and speed-up over HiGHS.
LIMIT_S, LIMIT_GAP, SPEEDUP = 0.050, 1e-4, 100.0
LARGE = (24, 500)
"""Devices, groups per pair."""
SHARED = ((2, 200), (4, 50), (4, 100), (8, 30))
"""Sizes that HiGHS solves too."""
HIGHS_LIMIT_S = 120.0  # seconds; a rival that needs longer is reported as it is
GROUP_SIZE = 100


def assigner(repeats: int = 7) -> list[dict[str, Any]]:
    """Measure time and gap of the solver, and its speed-up over HiGHS.

    Returns:
        Rows as :func:`benchmarks.registry.measure` describes them.
    """
    rows = []
    for transport in ("ring", "direct"):
        rows += _solver_rows(transport, repeats)
    try:
        import cvxpy  # noqa: F401
    except ImportError as error:
        print(f"bench assigner: no rival, cvxpy does not import ({error})", flush=True)
        return rows
    for workers, groups in SHARED:
        rows += _highs_rows(workers, groups, repeats)
    return rows


def instance(workers: int, groups: int, *, lam: float, transport: str = "ring", even: bool = False) -> Problem:
    """Return a problem with ``groups`` groups for every pair (``even``), or 30 to 100 % of that."""
    import numpy as np

    from gnnqlab.bits.assigner.assemble import MessageGroups, assemble
    from gnnqlab.theory.cost import LinkCost

    generator = np.random.default_rng(workers * 1000 + groups)
    samples = {}  # (sender, receiver) -> (bytes, seconds) of simulated transfers
    messages = []
    for sender in range(workers):
        for receiver in range(workers):
            if sender == receiver:
                continue
            # bytes per second and seconds of a link
            rate, latency = generator.uniform(80e6, 125e6), generator.uniform(5e-5, 2e-4)
            # five timed transfers per size, as in a calibration
            samples[sender, receiver] = [(size, latency + size / rate) for size in (2**12, 2**16, 2**20)] * 5
            number = groups if even else max(1, int(groups * generator.uniform(0.3, 1.0)))
            rows = np.full(number, GROUP_SIZE)
            rows[-1] = generator.integers(1, GROUP_SIZE + 1)  # a shorter last group
            # Lognormal β with a factor per pair, descending as the assigner sorts rows, summed by group.
            # first row of each group, for the sum by group
            beta = np.sort(generator.lognormal(0, 2, int(rows.sum())) * generator.lognormal(0, 1))[::-1]
            messages.append(MessageGroups(sender, receiver, rows, np.add.reduceat(beta, np.cumsum(rows) - rows)))
    cost = LinkCost.measured(workers, samples)
    return assemble(messages, cost, columns=256, lam=lam, transport=transport)


def _time_solver(problem: Problem, repeats: int) -> tuple[list[float], Any]:
    """Return the seconds of each solve, without cached results, and the last solution."""
    from dataclasses import replace

    from gnnqlab.bits.assigner.solver import solve

    seconds, solution = [], solve(replace(problem))  # warm-up
    for _ in range(repeats):
        problem_copy = replace(problem)  # a new object has no cached properties
        start = time.perf_counter()
        solution = solve(problem_copy)
        seconds.append(time.perf_counter() - start)
    return seconds, solution


def _solver_rows(transport: str, repeats: int) -> list[dict[str, Any]]:
    workers, groups = LARGE
    rows = []
    for even_groups in (True, False):
        for lam in (0.1, 0.5, 0.9):
            problem = instance(workers, groups, lam=lam, transport=transport, even=even_groups)
            seconds, solution = _time_solver(problem, repeats)  # `replace` in `_time_solver` drops cached properties
            size = f"{groups} groups a pair" if even_groups else f"30 to 100 % of {groups} groups a pair"
            case = f"{workers} devices, {size}, {problem.group_rows.size} groups, {transport}, λ = {lam}"
            time_s = statistics.median(seconds)
            detail = f" ({min(seconds) * 1e3:.3g} to {max(seconds) * 1e3:.3g} ms)"
            rows.append(row(case, "assignment", time_s, "s", "limit", LIMIT_S, LIMIT_S / time_s, 1.0, detail=detail))
            gap = max(solution.gap, 1e-16)  # a gap of exactly zero would divide by zero
            rows.append(row(case, "certified gap", solution.gap, "1", "limit", LIMIT_GAP, LIMIT_GAP / gap, 1.0))
    return rows


def _highs_rows(workers: int, groups: int, repeats: int) -> list[dict[str, Any]]:
    from gnnqlab.bits.assigner.reference import solve_reference

    rows = []
    for lam in (0.1, 0.5, 0.9):
        problem = instance(workers, groups, lam=lam)
        seconds, solution = _time_solver(problem, repeats)
        highs = solve_reference(problem, time_limit_s=HIGHS_LIMIT_S)
        time_s = statistics.median(seconds)
        case = f"{workers} devices, up to {groups} groups a pair, {problem.group_rows.size} groups, ring, λ = {lam}"
        if highs.status != "optimal":  # no proven optimum: its seconds, without a speed-up
            rows.append(row(case, "assignment", time_s, "s", f"HiGHS MILP: {highs.status}", highs.seconds, None))
            continue
        rows.append(
            row(case, "assignment", time_s, "s", "HiGHS MILP by cvxpy", highs.seconds, highs.seconds / time_s, SPEEDUP)
        )
        # above 1: HiGHS found a worse objective
        ratio = highs.objective / solution.objective if solution.objective else 1.0
        rival = ("HiGHS MILP, gap 1e-4", highs.objective, ratio)
        rows.append(row(case, "objective", solution.objective, "1", *rival, detail=f", gap {solution.gap:.1e}"))
    return rows
