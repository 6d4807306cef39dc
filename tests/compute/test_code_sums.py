"""Sums over neighbours of codes of four bits: packed if it is faster, with the same forward sums and gradients."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.compute import Int8Products, codes
from gnnqlab.compute.products import PassRows
from gnnqlab.kernels import native
from gnnqlab.kernels.dense.code_rows import pack_pairs
from gnnqlab.kernels.sparse.adjacency import Adjacency
from tests.cases import each
from tests.kernels.backends import on_native
from tests.kernels.test_aggregate import matrix

NODES, COLUMNS = 60, 65


def _products(**settings):
    products = Int8Products(**settings).build()
    products.begin(PassRows(torch.arange(NODES) + 7, 3, 1))
    return products


def _trained(adjacency: Adjacency, packed: str, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a sum and its gradient."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(NODES, COLUMNS, generator=generator, requires_grad=True)
    products = _products(bits=bits, packed=packed)
    y = products.aggregate(adjacency, x)
    y.backward(torch.randn(y.shape, generator=generator))
    return y.detach(), x.grad


@pytest.fixture
def packings(monkeypatch) -> list[tuple[int, ...]]:
    """Return the list of shapes of packed rows."""
    seen = []
    monkeypatch.setattr(codes, "pack_pairs", lambda rows: (seen.append(tuple(rows.shape)), pack_pairs(rows))[1])
    return seen


@each("bits", [4, 2])
def test_sums_and_gradients_do_not_depend_on_packing(packings: list, bits: int) -> None:
    packings.clear()
    adjacency = matrix(NODES, NODES, 400, seed=1)
    plain = _trained(adjacency, "never", bits)
    assert packings == []
    packed = _trained(adjacency, "always", bits)
    assert packings == [(NODES, COLUMNS)] * 2, "the sum and its gradient"
    assert all(torch.equal(*both) for both in zip(packed, plain, strict=True))
    assert plain[1].any()


def test_the_halo_is_packed_with_the_rows(packings: list) -> None:
    adjacency = matrix(NODES, NODES + 9, 400, seed=2)
    generator = torch.Generator().manual_seed(0)
    x, rows = torch.randn(NODES, COLUMNS, generator=generator), torch.randn(9, COLUMNS, generator=generator)
    sums = []
    for packed in ("never", "always"):
        products = _products(bits=4, packed=packed)
        own = products.operand(x)
        sums.append(products.spmm(adjacency, own, products.halo(rows, own, torch.arange(9)), rows=(3, 50)))
    assert packings == [(NODES, COLUMNS), (9, COLUMNS)]
    assert torch.equal(*sums)


@on_native
def test_packing_is_left_where_it_does_not_pay(backend: str, packings: list, monkeypatch) -> None:
    packings.clear()
    few, many = (matrix(NODES, NODES, edges, seed=3) for edges in (8 * NODES - 1, 8 * NODES))
    with native.use("native", isa=backend), monkeypatch.context() as patch:
        patch.setattr(codes, "_MIN_BYTES", NODES * COLUMNS + 1)
        _trained(many, "auto", 4)
        assert packings == [], "rows that fit into a near cache"
        patch.setattr(codes, "_MIN_BYTES", NODES * COLUMNS)
        _trained(few, "auto", 4)
        _trained(many, "auto", 5)
        assert packings == [], "few edges per row, or more than four bits"
        _trained(many, "auto", 4)
        assert len(packings) == 2
        with native.use("reference"):
            _trained(many, "auto", 4)
        assert len(packings) == 2, "packing does not pay without compiled kernels"


@each("settings", [{}, {"bits": 5}, {"bits": "auto"}])
def test_packed_with_unsupported_bits_raises_value_error(settings: dict) -> None:
    with pytest.raises(ValueError, match=r"packed='always' needs bits among \(2, 3, 4\)"):
        Int8Products(packed="always", **settings)
    with pytest.raises(ValueError, match="packed must be one of"):
        Int8Products(packed="often", **settings)
