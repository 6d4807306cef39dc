"""The matrices of a sampled product, compared with the dense matrix with columns of zeros, and their reuse."""

from __future__ import annotations

import torch

from gnnqlab.exchange.halo.sampled_matrices import first_columns, select_columns
from gnnqlab.exchange.halo.sampling import Sampling
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.aggregate import spmm
from gnnqlab.message import BoundarySampling
from gnnqlab.partition import Random, build_shard
from tests.cases import each
from tests.exchange.dense import dense_of
from tests.exchange.test_halo import worker_graph
from tests.graphs import random_graph
from tests.kernels.backends import EVERY, use
from tests.ranks import run_ranks

# Sums of at most some tens of float32 products in two orders: a few roundings of 6e-8 of the largest value.
TOLERANCE = 1e-5


def assert_close(found, expected):
    assert (found - expected).abs().max() <= TOLERANCE * expected.abs().max().clamp(min=1.0)


def sampled(shard, p, *, seed=0, lag=0):
    plans = {direction: shard.plan(direction) for direction in ("forward", "backward")}
    sizes = {"num_owned": shard.num_owned, "num_central": shard.num_central, "num_halo": shard.num_halo}
    return Sampling(BoundarySampling(p=p), plans, **sizes, seed=seed, lag=lag)


@each("backend", EVERY)
@each("alpha", ["sum", "mean", "symmetric"])
@each("p", [0.0, 0.1, 0.5, 0.99])
def test_both_products_are_those_of_the_dense_matrix(alpha, p, backend):
    with use(backend):
        for seed in range(4):
            graph = random_graph(80, 400, seed=seed, directed=seed % 2 == 1, isolated=5)
            shard = build_shard(graph, Random(seed=seed).assign(graph, 3), 0, 3)
            owned, central = shard.num_owned, shard.num_central
            whole = Adjacency(
                shard.indptr, shard.indices, shard.alpha(alpha), num_columns=shard.num_owned + shard.num_halo
            )
            sampling, epoch = sampled(shard, p, seed=seed), seed + 1
            rows = sampling.rows(epoch)
            dense = dense_of(whole)
            dense[:, owned:] *= torch.zeros(shard.num_halo).index_fill(0, rows, sampling.factor)

            generator = torch.Generator().manual_seed(seed)
            x, halo, gradient = (torch.randn(n, 5, generator=generator) for n in (owned, shard.num_halo, owned))
            y = torch.empty(owned, 5)
            spmm(whole, x, rows=(0, central), out=y[:central])
            spmm(sampling.owned_columns(whole), x, out=y[central:])
            spmm(sampling.sampled_columns(whole, epoch), halo[rows], out=y[central:], accumulate=True)
            assert_close(y, dense @ torch.cat([x, halo]))

            home = spmm(sampling.sampled_columns(whole, epoch), gradient[central:], transposed=True)
            assert home.shape == (rows.numel(), 5)
            if p:
                assert_close(home, (dense.T @ gradient)[owned:][rows])


def test_matrix_of_selected_columns_has_only_their_edges():
    graph = random_graph(80, 400)
    shard = build_shard(graph, Random(seed=1).assign(graph, 2), 0, 2)
    whole = Adjacency(shard.indptr, shard.indices, num_columns=shard.num_owned + shard.num_halo)
    columns = torch.arange(shard.num_owned, whole.num_columns, 2)
    kept = select_columns(whole, shard.num_central, columns, 3.0)
    assert kept.num_edges == torch.isin(whole.indices, columns.int()).sum()
    assert set(kept.weights.tolist()) == {3.0}
    again = Adjacency(*kept.csr, num_columns=kept.num_columns)  # the checks of any matrix, and its transpose
    for one, other in zip(kept.transposed.csr, again.transposed.csr, strict=True):
        assert torch.equal(one, other)
    own = first_columns(whole, shard.num_central, shard.num_owned)
    Adjacency(*own.csr, num_columns=own.num_columns)
    assert own.num_edges == (whole.indices[int(whole.indptr[shard.num_central]) :] < shard.num_owned).sum()


def test_a_matrix_is_made_once_an_epoch_and_held_while_rows_under_way_need_it():
    graph = random_graph(80, 400)
    shard = build_shard(graph, Random(seed=1).assign(graph, 2), 0, 2)
    whole = Adjacency(shard.indptr, shard.indices, num_columns=shard.num_owned + shard.num_halo)
    sampling = sampled(shard, 0.5, lag=1)  # pipelined
    first = sampling.sampled_columns(whole, 0)
    second = sampling.sampled_columns(whole, 1)
    assert (
        sampling.sampled_columns(whole, 0) is first
        and sampling.sampled_columns(whole, 1) is second
        and first is not second
    )
    sampling.sampled_columns(whole, 2)
    assert sampling.sampled_columns(whole, 1) is second
    assert sampling.sampled_columns(whole, 0) is not first
    assert torch.equal(sampling.sampled_columns(whole, 0).indices, first.indices)


def halo_bytes(rank, workers, graph, owner, sampler):
    shard, exchange, worker = worker_graph(rank, workers, graph, owner, sampler=sampler)
    x = graph.features[shard.owned].clone().requires_grad_()
    for epoch in range(4):
        worker.open_pass(epoch, training=True).aggregate(x).sum().backward()
        worker.open_pass(epoch, training=False).aggregate(x.detach())
    most = max(exchange.boundary.sampling.num_rows(epoch) for epoch in range(4))
    return exchange.boundary.halo_bytes, most * x.shape[1] * 4, shard.num_halo * x.shape[1] * 4


def test_halo_buffers_have_the_size_of_the_sampled_rows():
    graph = random_graph(400, 1600)
    owner = Random(seed=1).assign(graph, 2)
    for held, kept, whole in run_ranks(halo_bytes, 2, graph, owner, BoundarySampling(p=0.1)):
        assert kept <= held <= kept * 17 / 16  # a sixteenth is spare, for a larger sample
        assert held < whole / 4
    for held, kept, whole in run_ranks(halo_bytes, 2, graph, owner, BoundarySampling(p=1.0)):
        assert held == kept == whole
