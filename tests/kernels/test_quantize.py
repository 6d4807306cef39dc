"""Symmetric codes: the same from every backend, unbiased, in their range; zeros, odd sizes and non-finite values."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.kernels.codec.quantize import NoiseCounter, quantize
from gnnqlab.kernels.noise import stream
from tests.kernels.backends import EVERY, on_native, use

SIZES = ((1, 1), (7, 5), (3, 8), (50, 66), (130, 257), (2, 1030))


def _rows(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    x *= torch.logspace(-3, 3, rows).unsqueeze(1)
    x[rows // 2] = 0.0
    x[-1, ::3] = 0.0
    return x


def _noise(rows: int, epoch: int = 2) -> NoiseCounter:
    ids = torch.randperm(rows + 3, generator=torch.Generator().manual_seed(1))[:rows]
    return NoiseCounter(ids, 5, epoch, stream("operand", 3))


@on_native
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("scale", ["row", "tensor"])
def test_codes_and_scales_are_those_of_the_reference(backend: str, sizes: tuple[int, int], scale: str) -> None:
    x = _rows(*sizes)
    for noise in (None, _noise(sizes[0])):
        for bits in (2, 4, 6, 8):
            with use(backend):
                found = quantize(x, bits=bits, scale=scale, noise=noise)
            with use("reference"):
                truth = quantize(x, bits=bits, scale=scale, noise=noise)
            assert torch.equal(found.codes, truth.codes) and torch.equal(found.scales, truth.scales)


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("scale", ["row", "tensor"])
def test_an_element_is_off_by_less_than_a_step_and_codes_stay_in_their_range(backend: str, scale: str) -> None:
    x = _rows(50, 66)
    for bits in (2, 5, 8):
        for noise, most in ((None, 0.5), (_noise(50), 1.0)):
            with use(backend):
                found = quantize(x, bits=bits, scale=scale, noise=noise)
            assert int(found.codes.abs().max()) == 2 ** (bits - 1) - 1
            steps = (found.codes * found.scales.unsqueeze(1) - x).abs() / found.scales.clamp(min=1e-30).unsqueeze(1)
            assert float(steps.max()) <= most + 2.0**-8  # sixteen fractional bits, and float32 of 127 steps
            assert (found.codes[x == 0.0] == 0).all(), "a zero has changed"


def test_noise_makes_it_unbiased_and_nearest_is_not() -> None:
    """The mean of 4000 roundings is within five standard errors: one has a variance of s^2 / 4 at most."""
    x = torch.tensor([0.3, -0.26, 0.49, 1.0]).repeat(4000, 1)
    found = quantize(x, bits=4, noise=_noise(4000))
    error = (found.codes * found.scales.unsqueeze(1) - x).mean(0).abs()
    assert float(error.max()) < 5 * float(found.scales[0]) / 2 / 4000**0.5
    nearest = quantize(x, bits=4)
    assert float((nearest.codes * nearest.scales.unsqueeze(1) - x).mean(0).abs().max()) > 0.05


def test_noise_is_of_the_node_and_not_of_its_place() -> None:
    x = _rows(20, 40)
    noise = _noise(20)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(3))
    whole = quantize(x, noise=noise)
    there = quantize(x[order], noise=NoiseCounter(noise.ids[order].int(), 5, 2, noise.stream))
    assert torch.equal(there.codes, whole.codes[order])
    assert not torch.equal(quantize(x, noise=_noise(20, epoch=3)).codes, whole.codes)


@pytest.mark.parametrize("backend", EVERY)
def test_zero_and_empty_rows_quantize_to_zero_and_empty_codes(backend: str) -> None:
    with use(backend):
        for scale in ("row", "tensor"):
            for x in (torch.zeros(3, 9), torch.full((3, 9), 1e-38)):
                found = quantize(x, scale=scale, noise=_noise(3))
                assert not found.codes.any() and not found.scales.any()
            assert quantize(torch.zeros(0, 4), scale=scale).codes.shape == (0, 4)
            assert quantize(torch.zeros(4, 0), scale=scale).codes.shape == (4, 0)


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_non_finite_value_raises_an_error_with_its_row(backend: str, value: float) -> None:
    x = _rows(9, 20)
    x[6, 13] = value
    for scale in ("row", "tensor"):
        for noise in (None, _noise(9)):
            with use(backend), pytest.raises(NonFiniteRow, match="row 6"):
                quantize(x, scale=scale, noise=noise)


def test_codes_do_not_depend_on_threads_or_strides() -> None:
    x = _rows(300, 170)
    noise = _noise(300)
    whole = quantize(x, noise=noise)
    before = native.threads()
    torch.set_num_threads(1)
    try:
        assert torch.equal(quantize(x, noise=noise).codes, whole.codes)
    finally:
        torch.set_num_threads(before)
    wide = torch.zeros(300, 200)
    wide[:, 7:177] = x
    assert torch.equal(quantize(wide[:, 7:177], noise=noise).codes, whole.codes)
    assert torch.equal(quantize(x.t().contiguous().t(), noise=noise).codes, whole.codes)


def test_settings_that_cannot_be_are_refused() -> None:
    x = torch.ones(2, 2)
    for settings, text in (
        ({"bits": 1}, "bits must be one of"),
        ({"scale": "column"}, "scale must be one of"),
        ({"noise": _noise(3)}, "an id for each of 2 rows"),
    ):
        with pytest.raises(ValueError, match=text):
            quantize(x, **settings)
    with pytest.raises(ValueError, match="must be float32"):
        quantize(x.double())


def test_a_part_is_rounded_as_in_the_whole() -> None:
    x = torch.randn(9, 5, generator=torch.Generator().manual_seed(0))
    x[7, 2] = -6.0
    noise = NoiseCounter(torch.arange(9), 1, 2, 3)
    whole = quantize(x, scale="tensor", noise=noise)
    for first, last in ((0, 4), (4, 9), (3, 3)):
        of_part = NoiseCounter(noise.ids[first:last], 1, 2, 3)
        part = quantize(x[first:last], scale="tensor", noise=of_part, largest=6.0)
        assert torch.equal(part.codes, whole.codes[first:last])
        assert torch.equal(part.scales, whole.scales[first:last])
    with pytest.raises(ValueError, match="largest must be"):
        quantize(x, largest=6.0)
