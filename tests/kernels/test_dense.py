"""Products of bfloat16 matrices: exact values, float32 sums, every memory layout of a matrix."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.kernels import native
from gnnqlab.kernels.dense import dense
from gnnqlab.kernels.dense.dense import bfloat16_mm

SIZES = ((1, 1, 1), (7, 5, 3), (64, 1, 9), (1, 200, 17), (130, 33, 65), (300, 256, 256))


@pytest.fixture(params=("library", "widened"))
def way(request, monkeypatch) -> str:
    """The library's own product, and the fallback without it."""
    if request.param == "widened":
        monkeypatch.setattr(dense, "_gemm", lambda: None)
    elif dense._gemm() is None:
        pytest.skip("the library of linear algebra here has no such product")
    return request.param


def _matrix(rows: int, columns: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)).bfloat16()


def _close(found: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """Products of bfloat16 are exact in float32, so only the order of K float32 sums is free: K 2^-24 |a| |b|."""
    a, b = a.double(), b.double()
    bound = (a.shape[1] + 2) * 2.0**-24 * (a.abs() @ b.abs())
    assert found.dtype == torch.float32
    assert ((found.double() - a @ b).abs() <= bound).all()


@pytest.mark.parametrize("sizes", SIZES)
def test_sums_are_float32_for_every_layout(way: str, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b = _matrix(m, k, 1), _matrix(k, n, 2)
    turned_a, turned_b = _matrix(k, m, 3), _matrix(n, k, 4)
    wide = _matrix(m, k + 3, 5)[:, 1 : k + 1]
    sparse_columns = _matrix(k, 2 * n, 6)[:, ::2]
    for left, right in ((a, b), (turned_a.t(), b), (a, turned_b.t()), (wide, sparse_columns), (wide[::2], b)):
        _close(bfloat16_mm(left, right), left, right)


def test_out_is_written_or_added_to_and_may_be_rows_of_another(way: str) -> None:
    a, b = _matrix(20, 30, 1), _matrix(30, 8, 2)
    whole = torch.full((40, 8), 7.0)
    out = whole[10:30]
    assert bfloat16_mm(a, b, out=out) is out
    plain = bfloat16_mm(a, b)
    assert torch.equal(out, plain)
    bfloat16_mm(a, b, out=out, accumulate=True)
    torch.testing.assert_close(out, 2 * plain)
    assert (whole[:10] == 7).all() and (whole[30:] == 7).all()


def test_product_over_an_empty_dimension_is_zero(way: str) -> None:
    empty = torch.empty(4, 0, dtype=torch.bfloat16)
    out = torch.ones(4, 3)
    assert bfloat16_mm(empty, _matrix(0, 3, 0), out=out, accumulate=True).sum() == 12
    assert bfloat16_mm(empty, _matrix(0, 3, 0), out=out).sum() == 0
    assert bfloat16_mm(_matrix(0, 5, 0), _matrix(5, 3, 1)).shape == (0, 3)


def test_the_reference_backend_widens(monkeypatch) -> None:
    def never() -> None:
        raise AssertionError("the library was asked")

    monkeypatch.setattr(dense, "_gemm", never)
    a, b = _matrix(3, 4, 1), _matrix(4, 5, 2)
    with native.use("reference"):
        _close(bfloat16_mm(a, b), a, b)


@pytest.mark.parametrize(
    ("a", "b", "more", "message"),
    [
        (torch.ones(2, 3), _matrix(3, 2, 0), {}, "must be bfloat16"),
        (_matrix(2, 3, 0), _matrix(2, 3, 0), {}, "a row for each column"),
        (_matrix(2, 3, 0), _matrix(3, 2, 0), {"accumulate": True}, "got out=None"),
        (_matrix(2, 3, 0), _matrix(3, 2, 0), {"out": torch.ones(2, 3)}, "out must be float32"),
        (_matrix(2, 3, 0), _matrix(3, 2, 0), {"out": torch.ones(2, 2).t()}, "by rows"),
    ],
)
def test_refuses(a: torch.Tensor, b: torch.Tensor, more: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bfloat16_mm(a, b, **more)
