"""Dense products of codes: integers are exact, odd sizes, every layout of codes, sums that reach 32 bits."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.kernels import native
from gnnqlab.kernels.dense.int8_mm import MAX_TERMS, int8_mm, int8_mm_scaled, int8_mm_transposed
from tests.kernels.backends import EVERY, use
from tests.kernels.test_gpu_int8 import codes_of

SIZES = ((1, 1, 1), (7, 5, 3), (50, 66, 17), (13, 4, 64), (130, 257, 130), (48, 64, 65), (300, 128, 1))


def _of(found: torch.Tensor, exact: torch.Tensor, size: torch.Tensor) -> None:
    """Integers are exact; to float32, times a scale, plus a base: four roundings of 2^-24 of the rounded value."""
    assert found.dtype == torch.float32
    assert ((found.double() - exact).abs() <= 4 * 2.0**-24 * size).all()


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("sizes", SIZES)
def test_product_writes_its_largest_magnitude(backend: str, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    generator = torch.Generator().manual_seed(4)
    a, b, scales = codes_of(m, k, 1), codes_of(k, n, 2), torch.rand(m, generator=generator)
    bias, base = torch.randn(n, generator=generator), torch.randn(m, n, generator=generator)
    largest = torch.full((), 1e30)
    with use(backend):
        for how in ({}, {"bias": bias}, {"out": base, "accumulate": True, "bias": bias}):
            product = int8_mm(a, scales, b, 0.25, largest=largest, **how)
            assert largest == (product.abs().amax() if product.numel() else 0.0)
        if m and n:
            scales[m // 2] = torch.nan
            int8_mm(a, scales, b, 0.25, largest=largest)
            assert largest.isnan()  # the caller that quantizes finds the row


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("sizes", SIZES)
def test_rows_by_a_matrix(backend: str, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b, scales = codes_of(m, k, 1), codes_of(k, n, 2), torch.rand(m, generator=torch.Generator().manual_seed(3))
    bias, base = torch.randn(n), torch.randn(m, n)
    exact = a.double() @ b.double() * scales.double().unsqueeze(1) * 0.25
    size = exact.abs() + bias.abs() + base.abs() + 1e-30
    with use(backend):
        _of(int8_mm(a, scales, b, 0.25), exact, size)
        _of(int8_mm(a, scales, b.t().contiguous(), 0.25, transposed=True, bias=bias), exact + bias.double(), size)
        whole = torch.full((m + 2, n + 3), 7.0)
        out = whole[1:-1, 1 : n + 1]
        out.copy_(base)
        _of(int8_mm(a, scales, b, 0.25, bias=bias, out=out, accumulate=True), exact + bias + base.double(), 2 * size)
        assert (whole[0] == 7.0).all() and (whole[-1] == 7.0).all() and (whole[:, n + 1 :] == 7.0).all()
        wide = torch.zeros(m, 2 * k + 1, dtype=torch.int8)
        wide[:, 1::2] = a
        _of(int8_mm(wide[:, 1::2], scales, b, 0.25), exact, size)
        padded = torch.full((m, k + 5), 99, dtype=torch.int8)
        padded[:, :k] = a
        _of(int8_mm(padded[:, :k], scales, b, 0.25), exact, size)


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("sizes", [*SIZES, (3, 700, 66)])
def test_sums_over_rows(backend: str, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b = codes_of(k, m, 1), codes_of(k, n, 2)
    exact = a.double().t() @ b.double() * 0.25
    base = torch.randn(m, n)
    with use(backend):
        _of(int8_mm_transposed(a, b, 0.25), exact, exact.abs())
        out = base.clone()
        int8_mm_transposed(a, b, 0.25, out=out, accumulate=True)
        _of(out, exact + base.double(), exact.abs() + base.abs())


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("sizes", [*SIZES, (3, 700, 66)])
def test_sums_over_rows_of_different_scales(backend: str, sizes: tuple[int, int, int]) -> None:
    """Off by the order of K float32 sums, and three roundings each."""
    m, k, n = sizes
    a, b, scales = codes_of(k, m, 1), codes_of(k, n, 2), torch.rand(k, generator=torch.Generator().manual_seed(3))
    scales[k // 2] = 0.0
    terms = a.double().t(), b.double() * scales.double().unsqueeze(1)
    bound = (k + 4) * 2.0**-24 * (terms[0].abs() @ terms[1].abs() + 1.0)
    with use(backend):
        found = int8_mm_scaled(a, b, scales)
        assert ((found.double() - terms[0] @ terms[1]).abs() <= bound).all()
        twice = int8_mm_scaled(a, b, scales, out=found.clone(), accumulate=True)
        assert ((twice.double() - 2 * terms[0] @ terms[1]).abs() <= 3 * bound).all()


@pytest.mark.parametrize("backend", EVERY)
def test_the_largest_sums_do_not_overflow(backend: str) -> None:
    """As many terms of codes of 127 as 32 bits hold; over rows twice as many, which 64 bits hold."""
    with use(backend):
        most = torch.full((2, MAX_TERMS - 1), 127, dtype=torch.int8)
        product = int8_mm(most, torch.ones(2), most, 1.0, transposed=True)
        assert (product == torch.tensor(127.0 * 127.0 * (MAX_TERMS - 1)).item()).all()
        many = torch.full((200_000, 3), 127, dtype=torch.int8)
        expected = torch.tensor(127.0 * 127.0 * 200_000).item()
        assert (int8_mm_transposed(many, -many, 1.0) == -expected).all()


@pytest.mark.parametrize("backend", EVERY)
def test_products_of_empty_operands_are_empty_zero_or_the_bias(backend: str) -> None:
    none = torch.zeros(0, 3, dtype=torch.int8)
    some = torch.zeros(3, 4, dtype=torch.int8)
    with use(backend):
        assert int8_mm(none, torch.ones(0), some, 1.0).shape == (0, 4)
        assert not int8_mm(some[:, :0], torch.ones(3), some[:0], 1.0, bias=torch.zeros(4)).any()
        assert int8_mm(some[:, :0], torch.ones(3), some[:0], 1.0, bias=torch.ones(4)).sum() == 12.0
        assert not int8_mm_transposed(none, none, 1.0).any()


def test_products_do_not_depend_on_the_number_of_threads() -> None:
    a, b, scales = codes_of(5000, 70, 1), codes_of(5000, 66, 2), torch.rand(5000)
    found = int8_mm(a, scales, b[:70], 0.3), int8_mm_transposed(a, b, 0.3)
    before = native.threads()
    torch.set_num_threads(1)
    try:
        alone = int8_mm(a, scales, b[:70], 0.3), int8_mm_transposed(a, b, 0.3)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, two) for one, two in zip(found, alone, strict=True))


def test_mismatched_operands_raise_value_error() -> None:
    a, scales = codes_of(4, 6, 1), torch.ones(4)
    for call, text in (
        (lambda: int8_mm(a, scales, a, 1.0), "terms per sum"),
        (lambda: int8_mm(a.float(), scales, a, 1.0), "codes must be int8"),
        (lambda: int8_mm(a, scales, a, 1.0, transposed=True, accumulate=True), "accumulate adds to out"),
        (lambda: int8_mm(a, scales, a, 1.0, transposed=True, out=torch.zeros(4, 5)), "out must be float32"),
        (lambda: int8_mm_transposed(a, a[:3], 1.0), "as many rows"),
        (lambda: int8_mm_scaled(a, a, torch.ones(3)), "as many rows"),
        (lambda: int8_mm(torch.zeros(1, MAX_TERMS, dtype=torch.int8), scales[:1], a, 1.0), "terms"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
