"""Random plans over one to four ranks, forward, backward and differentiated twice, compared with one process."""

from __future__ import annotations

import torch
import torch.distributed as dist

from gnnqlab.halo import HaloPlan, all_gather_rows, exchange_rows, reduce_rows, start_exchange
from tests.cases import each
from tests.halo.random_plans import Case, edge_weights, energy, random_case
from tests.ranks import run_ranks

CASES = 200
WORKERS = 3


def plan_of(case: Case, rank: int, seed: int) -> tuple[HaloPlan, torch.Tensor]:
    """Return a plan of the case, from all edges or from own ones, and the edges passed."""
    edges, targets = case.edges, case.owner if case.target_owner is None else case.target_owner
    if seed % 2:
        edges = edges[:, targets[edges[1]] == rank]
    plan = HaloPlan.from_edges(
        edges, case.owner, target_owner=case.target_owner, hops=case.hops, name=f"case {seed}",
        transport=("direct", "ring", "all-to-all")[seed % 3],
    )  # fmt: skip
    return plan, edges


def differentiated(x, rows, edge_index, weights):
    """Return the gradient of an energy, and that of the squared gradient."""
    (force,) = torch.autograd.grad(energy(rows, edge_index, weights), x, create_graph=True)
    (second,) = torch.autograd.grad(force.square().sum(), x)
    return force.detach(), second


def on_ranks(rank, workers, cases):
    results = []
    for seed in range(cases):
        case = random_case(seed, workers)
        plan, edges = plan_of(case, rank, seed)
        own = plan.edges.own_ids
        x = case.x[own].requires_grad_()
        if seed % 2:
            received = exchange_rows(x, plan)
        else:
            pending = start_exchange(x, plan)
            received = pending.wait()
        rows = torch.cat([x, received])
        mine = plan.edges.ranks == rank  # an edge is computed by the rank of its target
        local = plan.edges.edge_index[:, mine]
        assert torch.equal(torch.cat([own, plan.halo_ids])[local[0]], edges[0, plan.edges.positions[mine]])
        assert torch.equal(plan.edges.target_ids[local[1]], edges[1, plan.edges.positions[mine]])
        outcome = differentiated(x, rows, local, edge_weights(edges[:, plan.edges.positions[mine]]))
        # The transpose adds at each owner the rows of all ranks that have it in their halo; here also its number.
        copies = reduce_rows(torch.ones(plan.num_halo, 1), plan, layer=1)
        partial = (received.detach() + rank).requires_grad_()
        totals = reduce_rows(partial, plan, layer=2)
        (by_partial,) = torch.autograd.grad((totals * x.detach()).sum(), partial)
        assert torch.equal(by_partial, received.detach()), "the gradient of a sum is the owner's"
        every = all_gather_rows(x, plan)
        (by_x,) = torch.autograd.grad((every * (1 + rank)).sum(), x)
        assert torch.equal(by_x, torch.full_like(by_x, sum(range(workers + 1))))
        boundary = copies[:, 0].nonzero().flatten()
        assert torch.equal(boundary, plan.boundary_rows)
        results.append(
            (own, *outcome, received.detach(), plan.halo_ids, copies, every.detach(), totals.detach(), plan.edges)
        )
    return [[*parts[:-1], parts[-1].edge_index, parts[-1].target_ids] for parts in results]


@each(("workers", "cases"), [(1, 20), (2, 40), (WORKERS, CASES), (4, 40)])
def test_random_plans_equal_one_process(workers, cases):
    by_rank = run_ranks(on_ranks, workers, cases)
    num_halo = 0
    for seed in range(cases):
        case = random_case(seed, workers)
        x = case.x.clone().requires_grad_()
        weights = edge_weights(case.edges)
        force, second = differentiated(x, x, case.edges, weights)
        parts = [results[seed] for results in by_rank]
        own = torch.cat([part[0] for part in parts])
        assert torch.equal(own.sort().values, torch.arange(len(case.x))), seed
        for name, position, exact in (("gradient", 1, force), ("second", 2, second)):
            found = torch.cat([part[position] for part in parts])
            # A gradient is rounded to float32 once, 6e-8 of it, and up to two are added.
            assert (found - exact[own]).abs().max() <= 1e-6 * max(1.0, exact.abs().max()), (seed, name)
        copies, totals = torch.zeros(len(case.x), 1), torch.zeros_like(case.x)
        for rank, part in enumerate(parts):
            rows, halo_ids, every = part[3], part[4], part[6]
            assert torch.equal(rows, case.x[halo_ids]), seed
            assert torch.equal(every, case.x[own]), seed
            copies[halo_ids] += 1
            totals[halo_ids] += rows + rank
            num_halo += len(halo_ids)
            if case.hops > 1:
                assert_two_hops(case, part)
        assert torch.equal(torch.cat([part[5] for part in parts]), copies[own]), seed
        assert (torch.cat([part[7] for part in parts]) - totals[own]).abs().max() <= 1e-6 * 9, seed
    assert num_halo >= {1: 0, 2: 30, 3: 400, 4: 60}[workers], "the cases have halos"


def assert_two_hops(case: Case, part: list) -> None:
    """Compare two sums over neighbours, computed on one rank after one exchange, with those of the whole graph."""
    own, rows, edge_index = part[0], part[3], part[8]
    whole, local = case.x, torch.cat([case.x[own], rows])
    for _ in range(2):
        whole = torch.zeros_like(whole).index_add(0, case.edges[1], whole[case.edges[0]])
        local = torch.zeros_like(local).index_add(0, edge_index[1], local[edge_index[0]])
    torch.testing.assert_close(local[: len(own)], whole[own])


def test_ranks_of_the_cases_differ():
    cases = [random_case(seed, WORKERS) for seed in range(CASES)]
    assert any(len(set(case.owner.tolist())) < WORKERS for case in cases), "empty ranks"
    assert any(len(case.x) < WORKERS for case in cases), "fewer nodes than ranks"
    assert sum(case.target_owner is not None for case in cases) >= 40
    assert sum(case.hops == 2 for case in cases) >= 15
    assert not dist.is_initialized()
