"""The benchmarks of aggregation and of attention have the common format, and their graph has the stated degrees."""

from __future__ import annotations

import pytest
import torch

from benchmarks.kernels import sddmm, sparse_rivals, spmm
from benchmarks.kernels.sparse_rivals import CSR, SUM
from tests.benchmarks.answers import FIELDS, here


def test_graph_falls_by_a_power_law() -> None:
    adj = spmm.power_law(2000, 40_000)
    degrees = adj.indptr.diff().sort(descending=True).values.double()
    assert 0.8 * 40_000 < adj.num_edges <= 40_000  # repeated edges are dropped
    # degree ~ rank ** -1/2: a quarter of the rank has twice the degree
    for rank in (10, 40, 160):
        near = degrees[rank // 2 : rank * 2].mean() / degrees[rank * 2 : rank * 8].mean()
        assert 1.6 < near < 2.4
    assert spmm.power_law(2000, 40_000).indices.equal(adj.indices)


@pytest.mark.filterwarnings("ignore")  # warnings of the frameworks
def test_sums_beside_their_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    small = (300, 3000)
    monkeypatch.setattr(spmm, "LARGE", small)
    monkeypatch.setattr(spmm, "SMALL", (200, 3000))
    monkeypatch.setattr(spmm, "NARROW_GOALS", {small: {"bfloat16": 1.25, "int8": 1.6}, (200, 3000): {"int8": 3.0}})
    monkeypatch.setattr(spmm, "FEATURES", (50, 40, 200))
    monkeypatch.setattr(spmm, "SHARDS", {4: (400, 6400)})
    rows = here(spmm.spmm)(repeats=1)
    assert all(set(row) == FIELDS and row["value"] > 0 for row in rows)
    assert all((row["reached"] is None) == (row["goal"] is None) for row in rows)
    assert {CSR, SUM, "own float32"} <= {row["rival"] for row in rows}
    memory = [row["ratio"] for row in rows if row["metric"] == "halo memory"]
    assert memory == [512 / (bits + 24) for bits in (32, 64)] + [1024 / (bits + 24) for bits in (64, 128)]
    assert {f"D = {columns}" for columns in spmm.WIDTHS} <= {row["case"].split(", ")[3] for row in rows}


@pytest.mark.filterwarnings("ignore")
def test_a_rival_with_another_result_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sparse_rivals._RIVALS, SUM, lambda adj, x: lambda: torch.zeros(adj.num_rows, x.shape[1]))
    with pytest.raises(ValueError, match=r"the product of torch.sparse.mm.* must be ours, got .* 1$"):
        sparse_rivals.sparse_rivals(spmm.power_law(100, 900), torch.ones(100, 8))


@pytest.mark.filterwarnings("ignore")
def test_attention_beside_its_rival(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sddmm, "GRAPH", (300, 3000))
    rows = here(sddmm.sddmm)(repeats=1)
    assert len(rows) == 3 and all(set(row) == FIELDS and row["value"] > 0 for row in rows)


def test_rivals_compute_the_same() -> None:
    pytest.importorskip("dgl")
    from gnnqlab.kernels.sparse.aggregate import Adjacency
    from gnnqlab.kernels.sparse.aggregate import spmm as product
    from gnnqlab.kernels.sparse.attention import attend

    adj = spmm.power_law(100, 900)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100, 8, generator=generator)
    plain = Adjacency(adj.indptr, adj.indices, num_columns=100)
    torch.testing.assert_close(spmm._dgl_sum(adj, x)(), product(plain, x))
    values, source, target = (torch.randn(100, 2, *more, generator=generator) for more in ((4,), (), ()))
    got = sddmm._dgl_attend(spmm.dgl_graph(adj), values, source, target)
    torch.testing.assert_close(got, attend(adj, values, source, target))
