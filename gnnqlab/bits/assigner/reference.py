"""Reference solvers of the bit-width problem: brute force, and a mixed-integer model for HiGHS."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from itertools import product

import numpy as np

from gnnqlab.bits.assigner.problem import Problem, Solution

__all__ = ["Reference", "brute_force", "solve_reference"]


def brute_force(problem: Problem) -> Solution:
    """Find the optimum by trying every assignment, for at most eight groups.

    Raises:
        ValueError: if there are more groups.
    """
    groups = problem.group_rows.size
    if groups > 8:
        raise ValueError(f"brute force tries at most 8 groups, got {groups}; use solve")
    best_choice, best_objective = np.zeros(groups, dtype=np.int64), np.inf
    for indices in product(range(len(problem.widths)), repeat=groups):
        choice = np.array(indices)
        objective = problem.objective(problem.variance(choice), problem.seconds(choice))
        if objective < best_objective:
            best_choice, best_objective = choice, objective
    return problem.solution(best_choice, best_objective)


@dataclass(frozen=True, eq=False)
class Reference:
    """Result of HiGHS."""

    solution: Solution | None
    """Assignment with the lower bound of HiGHS; ``None`` for the relaxation, or if none was found in time."""
    objective: float
    """Normalised objective; for the relaxation a lower bound on every assignment."""
    status: str
    """``optimal``, or the reason for stopping."""
    seconds: float
    """Wall-clock time of building and solving."""


def solve_reference(
    problem: Problem, *, relaxed: bool = False, time_limit_s: float | None = None, relative_gap: float = 1e-4
) -> Reference:
    """Solve the model of Eq. 12 directly: one binary per group and bit-width, one Z per round (cvxpy, HiGHS).

    Args:
        problem: groups and links.
        relaxed: allow fractions in place of binaries: a linear program.
        time_limit_s: time limit of HiGHS, which returns the best assignment so far.
        relative_gap: gap at which HiGHS calls an assignment optimal.

    Raises:
        RuntimeError: if cvxpy or HiGHS is missing.
    """
    try:
        import cvxpy
        import scipy.sparse
    except ImportError as error:
        raise RuntimeError(f"the reference model needs cvxpy and HiGHS ({error}); install gnnqlab[solver]") from error
    start = time.perf_counter()
    groups, widths = problem.group_rows.size, len(problem.widths)
    weight_v, weight_t = problem.weights
    # Times relative to the exchange at nadir, because the solver's tolerances are absolute.
    unit_s = problem.ends[3] or 1.0
    share = cvxpy.Variable((groups, widths), boolean=not relaxed)  # (G, B)
    excess = cvxpy.Variable(problem.num_rounds, nonneg=True)  # (R,), Z above its least, so that utopia is objective 0
    least_s = problem.round_s(problem.link_s(np.full(groups, problem.cheapest))) / unit_s
    seconds = np.outer(problem.group_s_per_byte, problem.width_bytes) / unit_s  # (G, B)
    links = problem.link_round.size
    # Seconds that each choice takes on its link or links, (L, G · B).
    matrix = sum(
        scipy.sparse.csr_array(
            (seconds.ravel(), (np.repeat(link, widths), np.arange(groups * widths))), shape=(links, groups * widths)
        )
        for link in (problem.group_link, problem.group_far_link)
        if link is not None
    )
    cost = weight_v * np.outer(problem.group_beta, problem.width_variance - problem.width_variance[problem.finest])
    constraints = [
        cvxpy.sum(share, axis=1) == 1,  # one bit-width per group
        matrix @ cvxpy.vec(share, order="C") + problem.link_gamma_s / unit_s <= (least_s + excess)[problem.link_round],
    ]
    if relaxed:
        constraints += [share >= 0]
    model = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(cost, share)) + weight_t * unit_s * cvxpy.sum(excess)), constraints
    )
    options: dict[str, float] = {} if relaxed else {"mip_rel_gap": relative_gap}
    if time_limit_s is not None:
        options["time_limit"] = time_limit_s
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cvxpy warns of inaccurate results; `status` has them
        try:
            model.solve(solver=cvxpy.HIGHS, **options)
        except cvxpy.error.SolverError as error:
            return Reference(None, np.inf, f"no assignment: {error}", time.perf_counter() - start)
    if share.value is None:
        return Reference(None, np.inf, model.status, time.perf_counter() - start)
    objective = float(model.value)
    if relaxed:
        return Reference(None, objective, model.status, time.perf_counter() - start)
    choice = np.asarray(share.value).argmax(axis=1)  # (G, B) -> (G,); binaries are 0 or 1 up to a tolerance
    statistics = model.solver_stats.extra_stats
    bound = getattr(statistics, "mip_dual_bound", None)
    solution = problem.solution(choice, -np.inf if bound is None else float(bound))
    return Reference(solution, solution.objective, model.status, time.perf_counter() - start)
