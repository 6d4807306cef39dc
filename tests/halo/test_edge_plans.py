"""Plans from edges: refusals on every rank, updates without leaks, partitions of other frameworks, straight-through."""

from __future__ import annotations

import gc
import resource
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
import torch.distributed as dist

from gnnqlab.errors import UnexpectedMessage
from gnnqlab.halo import (
    HaloPlan,
    exchange_rows,
    from_gp_context,
    from_halo_info,
    owner_of_dgl,
    owner_of_pyg,
    owner_of_sizes,
    reduce_rows,
    start_exchange,
)
from tests.ranks import run_ranks

NUM_NODES = 12
OWNER = torch.arange(NUM_NODES) % 2
EDGES = torch.tensor([[0, 1, 2, 3, 5, 7], [1, 0, 4, 5, 0, 3]])


def refusals(rank, workers):
    own = EDGES[:, OWNER[EDGES[1]] == rank]
    other = 1 - rank
    for edges, settings, text in [
        (
            EDGES if rank else EDGES.float(),
            {},
            r"rank 0: edge_index must be integers \(2, E\), got torch.float32 \(2, 6\)",
        ),
        (EDGES if rank == 0 else EDGES[0], {}, r"rank 1: edge_index must be integers \(2, E\), got torch.int64 \(6,\)"),
        (EDGES + 6 * rank, {}, r"rank 1: sources of edge_index must be node ids in \[0, 12\), got 13"),
        (EDGES - rank, {}, r"rank 1: sources of edge_index must be node ids in \[0, 12\), got -1"),
        (EDGES, {"owner": OWNER + 1}, r"rank 0: owner must have ranks in \[0, 2\), got 2; use one part for each rank"),
        (
            EDGES,
            {"owner": OWNER.float()},
            r"rank 0: owner must be the rank of each node, integers \(V,\), got",
        ),
        (EDGES, {"hops": 0}, "rank 0: hops must be at least 1, and 1 with target_owner, got 0"),
        (EDGES, {"hops": 2, "target_owner": OWNER}, "hops must be at least 1, and 1 with target_owner, got 2"),
        (EDGES, {"seed": rank}, "hops, seed, transport and name must be the same on all ranks, got others on rank 1"),
        (EDGES, {"owner": OWNER.roll(rank)}, "owner, target_owner, hops, .* must be the same on all ranks"),
        (
            EDGES[:, : 5 + rank],
            {},
            "rank 0: edge_index must have all edges on every rank, or .*, got 2 of 5 edges to targets of other ranks",
        ),
        (
            torch.cat([own, torch.tensor([[0], [other]])], 1),
            {},
            "rank 0: edge_index must have all .*, got 1 of 4",
        ),
    ]:
        given = {"owner": OWNER, **settings}
        with pytest.raises(ValueError, match=text):
            HaloPlan.from_edges(edges, **given)
    listed = HaloPlan([torch.empty(0, dtype=torch.int64)] * 2, [0, 0], name="lists")
    with pytest.raises(RuntimeError, match=r"update needs a plan of HaloPlan.from_edges, got plan lists of lists"):
        listed.update(EDGES)
    with pytest.raises(RuntimeError, match=r"edges needs a plan of HaloPlan.from_edges"):
        _ = listed.edges
    plan = HaloPlan.from_edges(own, OWNER, name="graph")
    pending = start_exchange(torch.ones(6, 1), plan)
    with pytest.raises(RuntimeError, match=r"no exchange in flight when it is updated, got 1 in plan graph; call wait"):
        plan.update(own)
    pending.wait()
    halo = plan.halo_ids.clone()
    with pytest.raises(ValueError, match="rank 1: sources of edge_index must be node ids"):
        plan.update(own + 20 * rank)
    assert torch.equal(plan.halo_ids, halo), "the plan keeps its edges"
    return True


def random_edges(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(NUM_NODES, (2, 30), generator=generator)


def tensors():
    gc.collect()
    return sum(isinstance(item, torch.Tensor) for item in gc.get_objects())


def held_bytes():
    """Return the bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def many_updates(plan, x):
    """Update a plan ten thousand times, with an exchange after every ninetieth update."""
    lists = [random_edges(seed) for seed in range(90)]
    alive, held = [], []
    for step in range(10_000):
        plan.update(lists[step % 90])
        if step % 90 == 0:
            exchange_rows(x, plan, bits=(32, 8), epoch=step).sum().backward()
        if step in (1_800, 9_990):  # the same edges, after an exchange
            alive.append(tensors())
            held.append(held_bytes())
    assert alive[0] == alive[1], alive
    assert held[1] - held[0] < 4_000_000, "500 bytes an update, which tensors without Python objects would hold"


def updated(rank, workers):
    x = (torch.arange(float(NUM_NODES))[OWNER == rank][:, None] * torch.ones(1, 4)).requires_grad_()
    plan, addresses = HaloPlan.from_edges(random_edges(0), OWNER), set()
    for step in range(150):
        edges = random_edges(step % 90)
        with mock.patch.object(dist, "all_gather", wraps=dist.all_gather) as gathers:
            with mock.patch.object(dist, "all_to_all_single", wraps=dist.all_to_all_single) as swaps:
                plan.update(edges)
                # Ids of as many halo nodes as before are gathered with the numbers of the ranks.
                assert (gathers.call_count, swaps.call_count) in ({(1, 0)} if step >= 90 else {(1, 0), (1, 1)})
                if step == 1:
                    before = plan._lists
                    plan.update(edges)
                    assert plan._lists is before, "equal halos keep their lists"
        rows = exchange_rows(x, plan, bits=(32, 8), epoch=step)
        assert torch.equal(rows[:, 0], plan.halo_ids.float())
        rows.sum().backward()
        if step >= 90:
            buffers = [buffer for channel in plan._channels._channels.values() for buffer in channel.buffers]
            addresses.add(tuple(sorted(buffer.data_ptr() for buffer in buffers)))
        if step % 60 == 0:
            with mock.patch.object(dist, "all_gather", wraps=dist.all_gather) as gathers:
                with mock.patch.object(dist, "all_to_all_single", wraps=dist.all_to_all_single) as swaps:
                    fresh = HaloPlan.from_edges(edges, OWNER)
            assert (gathers.call_count, swaps.call_count) == (1, 1), "a new plan exchanges numbers, then ids"
            assert torch.equal(fresh.edges.edge_index, plan.edges.edge_index)
            assert torch.equal(fresh.halo_ids, plan.halo_ids) and torch.equal(fresh.boundary_rows, plan.boundary_rows)
            del fresh
    assert len(addresses) == 1, "the largest buffers of the first 90 graphs serve all others"
    many_updates(plan, x)
    # A rank that does not know of an update gets an error and no wrong rows.
    changed = HaloPlan.from_edges(EDGES, OWNER)
    if rank == 0:
        changed._updates += 1  # as after an update that only this rank made
    changed.update(random_edges(1))
    with pytest.raises(UnexpectedMessage, match="run must be"):
        exchange_rows(x, changed)
    return True


def lists_of(plan):
    """Return the lists of a plan as the frameworks store them."""
    sent = plan._lists.send
    counts = [rows.numel() for rows in sent]
    received = [ids.numel() for ids in plan._lists.receive_ids]
    info = SimpleNamespace(num_local_src_nodes=plan.num_rows, send_indices=tuple(sent), recv_counts=tuple(received))
    context = SimpleNamespace(
        total_local_atoms=plan.num_rows, send_indices=torch.cat(list(sent)), send_counts=torch.tensor(counts),
        recv_counts=received,
    )  # fmt: skip
    return info, context


class Book:
    def num_partitions(self):
        return 2

    def partid2nids(self, partid, ntype=None):
        return (partid == OWNER).nonzero().flatten()


def adapted(rank, workers):
    plan = HaloPlan.from_edges(EDGES, OWNER, seed=3)
    info, context = lists_of(plan)
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(rank))
    expected = exchange_rows(x, plan)
    for other in (from_halo_info(info), from_gp_context(context, name="atoms")):
        assert torch.equal(exchange_rows(x, other), expected)
    # Grid to mesh and back: source and target nodes have owners of their own.
    grid, mesh = owner_of_sizes([3, 1]), owner_of_sizes([0, 2])
    to_mesh = torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]])
    encoder = HaloPlan.from_edges(to_mesh, grid, target_owner=mesh)
    decoder = HaloPlan.from_edges(to_mesh.flip(0), mesh, target_owner=grid)
    field = torch.arange(4.0)[grid == rank][:, None]
    rows = torch.cat([field, exchange_rows(field, encoder)])
    source, target = encoder.edges.edge_index
    on_mesh = torch.zeros(int((mesh == rank).sum()), 1).index_add(0, target, rows[source])
    back = torch.cat([on_mesh, exchange_rows(on_mesh, decoder)])
    source, target = decoder.edges.edge_index
    on_grid = torch.zeros(len(field), 1).index_add(0, target, back[source])
    return on_mesh.flatten().tolist(), on_grid.flatten().tolist()


BITS, DRAWS = 4, 200


def straight_through(rank, workers):
    """Return second derivatives and reductions in few bits, of many epochs."""
    owner = torch.arange(8) % 2
    edges = torch.stack([torch.arange(8), (torch.arange(8) + 1) % 8])
    plan = HaloPlan.from_edges(edges, owner, seed=1)
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(rank)).requires_grad_()
    seconds, forces, sums, decoded = [], [], [], []
    for epoch in range(DRAWS):
        halo = exchange_rows(x, plan, bits=(BITS, 32), epoch=epoch)
        (force,) = torch.autograd.grad(halo.square().sum() / 2, x, create_graph=True)
        forces.append(force.detach())
        seconds.append(torch.autograd.grad(force, x, grad_outputs=x.detach())[0])
        decoded.append(halo.detach())
        sums.append(reduce_rows(x.detach(), plan, bits=BITS, epoch=epoch, layer=1))
    results = [torch.stack(each) for each in (seconds, forces, sums, decoded)]
    return x.detach(), *results, plan.halo_ids, plan.edges.own_ids


def both(rank, workers):
    return refusals(rank, workers), updated(rank, workers), adapted(rank, workers), straight_through(rank, workers)


@pytest.fixture(scope="module")
def outcomes():
    return run_ranks(both, 2)


def test_edges_and_owners_that_do_not_fit_are_refused_on_every_rank(outcomes):
    assert [outcome[0] for outcome in outcomes] == [True, True]


def test_updates_reuse_buffers_and_leave_nothing(outcomes):
    assert [outcome[1] for outcome in outcomes] == [True, True]


def test_encoder_and_decoder_exchange_between_grid_and_mesh(outcomes):
    (mesh_0, grid_0), (mesh_1, grid_1) = (outcome[2] for outcome in outcomes)
    assert mesh_0 == [] and mesh_1 == [1.0, 5.0]
    assert grid_0 == [1.0, 1.0, 5.0] and grid_1 == [5.0]


def test_owners_of_other_frameworks():
    assert torch.equal(owner_of_dgl(Book()), OWNER)
    order = OWNER.argsort(stable=True)
    partition = SimpleNamespace(partptr=torch.tensor([0, 6, 12]), node_perm=order)
    assert torch.equal(owner_of_pyg(partition), OWNER)


def test_derivatives_in_few_bits_are_straight_through(outcomes):
    x = torch.empty(8, 6)
    for own, *_, own_ids in (outcome[3] for outcome in outcomes):
        x[own_ids] = own
    decoded = {}
    for outcome in outcomes:
        _, _, _, _, halo, halo_ids, _ = outcome[3]
        decoded |= {int(node): halo[:, row] for row, node in enumerate(halo_ids)}
    for outcome in outcomes:
        own, seconds, forces, sums, _, _, own_ids = outcome[3]
        for row, node in enumerate(own_ids.tolist()):
            # The force on a row is that on its decoded copy, without a derivative of the rounding.
            assert torch.equal(forces[:, row], decoded[node])
            spread = own[row].max() - own[row].min()
            error = 5 * spread / (2**BITS - 1) / 2 / DRAWS**0.5
            # Rows of the second derivative are rounded independently of the first ones, and without bias.
            assert not torch.equal(seconds[:, row], decoded[node])
            assert ((seconds[:, row].mean(0) - own[row]).abs() <= error).all()
            pairs = (seconds[:, row] - own[row]) * (decoded[node] - own[row])
            assert pairs.sum(1).mean().abs() <= 5 * 6**0.5 * (spread / (2**BITS - 1)) ** 2 / 4 / DRAWS**0.5
            # One rank has the row in its halo, and returns its own row with the same position: rounded, without bias.
            assert sums[:, row].std(0).max() > 0, "reductions are rounded, too"
            sent = outcomes[1 - int(node) % 2][3][0][outcomes[1 - int(node) % 2][3][5].tolist().index(node)]
            spread = sent.max() - sent.min()
            assert ((sums[:, row].mean(0) - sent).abs() <= 5 * spread / (2**BITS - 1) / 2 / DRAWS**0.5).all()
