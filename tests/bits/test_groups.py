"""β and groups: the effect of noise on a row on the sums that use it; rows are neither lost nor counted twice."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.bits.assigner.groups import beta, group, use_of_halo
from gnnqlab.graph import Graph
from gnnqlab.partition.shard import Shard, build_shard
from gnnqlab.theory.variance import decoded_moments
from tests.cases import each


@pytest.fixture(params=[2, 3])
def shards(request) -> list[Shard]:
    generator = torch.Generator().manual_seed(request.param)
    nodes = 40
    edges = torch.randint(nodes, (2, 300), generator=generator)
    graph = make_graph(nodes, edges)
    owner = torch.randint(request.param, (nodes,), generator=generator)
    return [build_shard(graph, owner, rank, request.param) for rank in range(request.param)]


def make_graph(nodes: int, edges: torch.Tensor) -> Graph:
    return Graph.from_edges(
        edges[0], edges[1], num_nodes=nodes, features=torch.zeros(nodes, 2), labels=torch.zeros(nodes, dtype=torch.long)
    )


def dense(shard: Shard, alpha: torch.Tensor) -> torch.Tensor:
    matrix = torch.zeros(shard.num_owned, shard.num_owned + shard.num_halo, dtype=torch.float64)
    rows = torch.repeat_interleave(torch.arange(shard.num_owned), shard.indptr.diff())
    return matrix.index_put_((rows, shard.indices.long()), alpha.double(), accumulate=True)


@each("kind", ["symmetric", "mean", "sum"])
def test_use_of_halo_equals_the_variance_added_to_all_sums(shards, kind):
    for shard in shards:
        alpha = shard.alpha(kind)
        halo = dense(shard, alpha)[:, shard.num_owned :]
        # y = A [x; halo], so unit noise on halo row k has the variance Σ_v A[v, k]^2 in y.
        assert torch.allclose(use_of_halo(shard, alpha), (halo**2).sum(dim=0), rtol=1e-6, atol=0)
        released = use_of_halo(shard, alpha, as_released=True)
        assert torch.allclose(released, halo.sum(dim=0) ** 2, rtol=1e-6, atol=0)
        assert bool((use_of_halo(shard, alpha) > 0).all())


def test_backward_noise_arrives_once(shards):
    shard = shards[0]
    use = use_of_halo(shard, shard.alpha("symmetric"), "backward")
    assert use.tolist() == [1.0] * shard.num_halo


def test_backward_beta_is_the_papers_where_one_neighbour_uses_the_row():
    # 0 and 1 are on worker 0, 2 on worker 1; the only edge between them is 2 -> 0.
    graph = make_graph(3, torch.tensor([[1, 2, 0], [0, 0, 1]]))
    shard = build_shard(graph, torch.tensor([0, 0, 1]), 0, 2)
    alpha = shard.alpha("mean")
    dy = torch.tensor([[1.0, -3.0, 0.5], [2.0, 0.0, 9.0]])  # of the owned rows
    matrix = dense(shard, alpha).float()
    sent = matrix[:, shard.num_owned :].T @ dy
    row = int(matrix[:, shard.num_owned].nonzero())
    span = lambda x: x.amax(dim=1) - x.amin(dim=1)  # noqa: E731
    ours = beta(use_of_halo(shard, alpha, "backward"), span(sent), 3)
    papers = beta(matrix[row, shard.num_owned].square()[None], span(dy[row : row + 1]), 3)
    assert torch.allclose(ours, papers)


@each("bits", [1, 2, 4, 8])
def test_beta_is_the_variance_that_theorem_1_gives_a_row(bits):
    rows = torch.randn(20, 7, generator=torch.Generator().manual_seed(0))
    use = torch.linspace(0.1, 3.0, 20)
    weighed = beta(use, rows.amax(1) - rows.amin(1), 7) / (2**bits - 1) ** 2
    torch.testing.assert_close(weighed, use * decoded_moments(rows, bits).average, rtol=1e-6, atol=0)


@each(("n", "size"), [(0, 4), (1, 4), (4, 4), (5, 4), (1003, 100), (7, 1)])
def test_groups_hold_every_row_once(n, size):
    values = torch.rand(n, generator=torch.Generator().manual_seed(n)).double()
    groups = group(values, size)
    assert groups.order.sort().values.tolist() == list(range(n))
    assert int(groups.rows.sum()) == n and groups.rows.numel() == -(-n // size)
    assert bool((groups.rows[:-1] == size).all()) and bool((groups.rows > 0).all())
    assert float(groups.beta.sum()) == pytest.approx(float(values.sum()))
    assert bool((values[groups.order].diff() <= 0).all())
    widths = groups.widths(torch.arange(groups.rows.numel()) % 200)
    assert widths.dtype == torch.uint8 and widths.shape == (n,)
    assert widths[groups.order].tolist() == [index // size % 200 for index in range(n)]


def test_equal_rows_keep_their_order():
    assert group(torch.ones(6), 4).order.tolist() == list(range(6))


@each(
    ("make", "text"),
    [
        (lambda: group(torch.ones(3), 0), "group size must be at least 1 row, got 0"),
        (
            lambda: group(torch.ones(3), 2).widths(torch.tensor([2])),
            r"bit-width for each of 2 groups, got shape \(1,\)",
        ),
        (lambda: beta(torch.ones(2), torch.ones(3), 4), r"got shapes \(2,\) and \(3,\)"),
        (lambda: beta(torch.ones(1), torch.tensor([float("nan")]), 4), "β must be finite"),
        (lambda: beta(torch.ones(1), torch.tensor([-1.0]), 4), "β must be finite and not negative"),
    ],
)
def test_bad_input_is_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_bad_weights_and_directions_are_refused(shards):
    with pytest.raises(ValueError, match="alpha must have one value for each of"):
        use_of_halo(shards[0], torch.ones(1))
    with pytest.raises(ValueError, match="direction must be 'forward' or 'backward', got 'up'"):
        use_of_halo(shards[0], shards[0].alpha("sum"), "up")
