"""Eight-bit floats by block: the nearest numbers by hand, unbiased with noise, biased without it, bytes,
every width, the law of the variance."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.errors import NonFiniteRow
from gnnqlab.message import FP8, MXFP8
from gnnqlab.message.codecs.codec import Codec
from gnnqlab.systems.replaced import parts_in
from tests.cases import each
from tests.message.sending import of_one_row, off_by_errors, send

DRAWS = 800
SURE = 5.0
"""Standard errors; of some hundred elements in all, none is so far off by chance in a thousand runs of the tests."""
SMALLEST = {"e4m3": 2.0**-9, "e5m2": 2.0**-16}
HIGHEST = {"e4m3": 8, "e5m2": 15}


def numbers(elements: str) -> torch.Tensor:
    """Every finite number that is not negative, ascending: by the definition, sign, exponent, mantissa."""
    mantissa, lowest = (3, -6) if elements == "e4m3" else (2, -14)
    exponents = range(1, HIGHEST[elements] - lowest + 2)
    found = [n * 2.0 ** (lowest - mantissa) for n in range(2**mantissa)]
    found += [(1 + n / 2**mantissa) * 2.0 ** (e - 1 + lowest) for e in exponents for n in range(2**mantissa)]
    return torch.tensor(found[:-1] if elements == "e4m3" else found)  # the last one of E4M3 is NaN


def uneven(count: int, columns: int) -> torch.Tensor:
    """Elements of many binades, two blocks of very different size."""
    generator = torch.Generator().manual_seed(columns)
    x = torch.randn(count, columns, generator=generator) * torch.logspace(-3, 0, columns)
    x[:, columns // 2 :] *= 1e-6
    return x


@each("elements", ["e4m3", "e5m2"])
def test_elements_are_rounded_to_the_nearest_scaled_value_of_the_format(elements):
    """By every number of the format: MXFP8's scale by the formula of the specification, FP8's by the largest."""
    x, known = uneven(30, 70), numbers(elements)
    mx, fp = (send(codec(elements=elements), x, 8)[0] for codec in (MXFP8, FP8))
    for first in range(0, 70, 32):
        block = x[:, first : first + 32]
        scale = 2.0 ** (block.abs().amax(1).double().log2().floor() - HIGHEST[elements])[:, None]
        wanted = nearest(block / scale, known) * scale
        assert torch.allclose(mx[:, first : first + 32].double(), wanted, rtol=0, atol=0)
    scale = x.abs().amax(1, keepdim=True) / float(known[-1])
    off = (fp - x).abs() / scale
    best = (nearest(x / scale, known) - x / scale).abs()
    assert (off <= best + 1e-5 * float(known[-1])).all()


def nearest(v: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    distance = (v.abs().double()[..., None] - known.double()).abs()
    return torch.copysign(known.double()[distance.argmin(-1)], v.double())


CODECS = [codec(elements=elements, rounding="stochastic") for codec in (FP8, MXFP8) for elements in SMALLEST]


@each("codec", CODECS)
@each("columns", [1, 33])
def test_rounding_by_noise_is_unbiased(codec: Codec, columns: int):
    """Also for the largest element, which the specification's scale would clamp, and for blocks with tiny ones."""
    row = uneven(1, columns)[0]
    row[0] = 1.97
    draws = of_one_row(codec, row, 8, DRAWS)
    assert off_by_errors(draws, row) < SURE
    assert draws.std(0).max() > 0 or columns == 1, "the noise has an effect"


def test_rounding_to_the_nearest_is_biased_and_the_clamp_too():
    row = torch.full((32,), 0.3)
    row[3] = 1.97
    draws = of_one_row(MXFP8(), row, 8, 5)
    assert (draws.std(0) == 0).all()
    assert draws[0, 3] == 1.75 and draws[0, 0] == 0.3125


@each("codec", [FP8(block=32), FP8(block=5), MXFP8(), *CODECS])
@each("columns", [1, 31, 32, 47])
def test_rows_of_both_widths_in_one_message(codec: Codec, columns: int):
    widths, x = torch.tensor([8, 32, 8] * 5, dtype=torch.uint8), uneven(15, columns)
    out, noted, layout = send(codec, x, widths)
    blocks = -(-columns // (codec.block if codec.param_bytes(8, 1) == 4 else 32))
    assert layout.num_bytes == 10 * (columns + blocks * codec.param_bytes(8, 1)) + 5 * 4 * columns
    exact = widths.flip(0) == 32  # rows are encoded in reverse order
    assert torch.equal(out[exact], x[exact])
    alone, noted_alone, _ = send(codec, x, 8)
    assert torch.equal(out[~exact], alone[~exact]) and torch.equal(noted, noted_alone)
    assert torch.allclose(noted, x.norm(dim=1), rtol=1e-6)
    twice, _, _ = send(codec, x, widths, out=out.clone(), accumulate=True)
    assert torch.allclose(twice, 2 * out, rtol=1e-6)


@each("codec", CODECS)
def test_the_variance_is_that_of_elements_of_any_scale(codec: Codec):
    """Normal rows, of random sizes, are within a sixth of it."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(400, 64, generator=generator) * 2 ** torch.rand(400, 1, generator=generator)
    error = sum(float((send(codec, x, 8, epoch=epoch)[0] - x).double().square().sum()) for epoch in range(4)) / 4
    predicted = float(codec.row_variance(64).evaluate(send(codec, x, 8)[1], 8).sum())
    assert predicted == pytest.approx(error, rel=1 / 6)


def test_constant_rows_and_zeros():
    x = torch.tensor([0.0, 0.1, -7e-9, 3e30])[:, None].expand(4, 40).contiguous()
    for rounding in ("nearest", "stochastic"):
        assert torch.allclose(send(FP8(rounding=rounding), x, 8)[0], x, rtol=2.0**-22)
        mx = send(MXFP8(rounding=rounding), x, 8)[0]
        assert torch.equal(mx[0], x[0]) and torch.allclose(mx, x, rtol=1 / 8)
    tiny = torch.full((1, 4), 2.0**-140)
    assert torch.equal(send(MXFP8(), tiny, 8)[0], torch.zeros(1, 4))
    assert torch.equal(send(FP8(), tiny, 8)[0], torch.zeros(1, 4))
    largest = torch.full((1, 4), 2.0**127)
    for codec in (FP8(), MXFP8(), *CODECS):
        assert torch.allclose(send(codec, largest, 8)[0], largest)


@each("value", [math.nan, math.inf, 3e38])
def test_a_row_that_cannot_be_encoded_is_refused(value):
    x = uneven(4, 20)
    x[2, 18] = value
    for codec in (FP8(), MXFP8()):
        for widths in (8, torch.tensor([32, 8, 8, 32], dtype=torch.uint8)):
            with pytest.raises(NonFiniteRow) as refused:
                send(codec, x, widths)
            order = codec.layout(widths, 4, 20).to_wire_order(torch.arange(4).flip(0))
            assert int(order[refused.value.position]) == 2


def test_fp8_codecs_reject_invalid_settings_and_biased_rounding():
    assert parts_in("codec=mxfp8:elements=e5m2:rounding=stochastic")["codec"] == CODECS[3]
    with pytest.raises(ValueError, match="elements must be 'e4m3' or 'e5m2', got 'e3m4'"):
        MXFP8(elements="e3m4")
    with pytest.raises(ValueError, match="block must be at least 1 column, got 0"):
        FP8(block=0)
    with pytest.raises(ValueError, match=r"FP8 writes \[8, 32\], got \[4\]"):
        replace(gq.systems.fixed_bits(bits=4), codec=FP8())
    adaqp = gq.systems.adaqp(bit_widths=(8, 32))
    unbiased = replace(adaqp, codec=FP8(rounding="stochastic"))
    assert gq.System.from_json(unbiased.to_json()) == unbiased
    for codec in (MXFP8(), (MXFP8(rounding="stochastic"), MXFP8())):
        with pytest.raises(ValueError, match="codec MXFP8 cannot work in this system: rounding to the nearest is bias"):
            replace(adaqp, codec=codec)
    assert replace(gq.systems.fixed_bits(bits=8), codec=MXFP8()).codec == MXFP8()
