"""Rows with separate spikes: unbiased, exact if constant, bytes, the law of the variance, every width."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.errors import NonFiniteRow
from gnnqlab.message import Spikes, Stochastic
from gnnqlab.message.codecs.spikes import split_spikes
from gnnqlab.systems.replaced import parts_in, words_of
from tests.cases import each
from tests.message.sending import of_one_row, off_by_errors, send

DRAWS = 800
SURE = 5.0
"""Standard errors; of some thousand elements in all, none is so far off by chance in a thousand runs of the tests."""


def spiky(count: int, columns: int, seed: int = 0) -> torch.Tensor:
    """Small normal elements, and in each row two spikes at random columns."""
    generator = torch.Generator().manual_seed(100 * columns + seed)
    x = torch.randn(count, columns, generator=generator) * 0.05
    places = torch.rand(count, columns, generator=generator).argsort(1)[:, : min(2, columns)]
    return x.scatter(1, places, torch.tensor([[1.0003, -2.7]])[:, : places.shape[1]].expand(count, -1))


@each("bits", [1, 2, 8, 16])
@each("scale", [1.0, 3e-9, 1e9])
def test_rows_with_spikes_are_unbiased_despite_float16_rounding(bits, scale):
    """Also gradients far below the range of float16, and spikes between two of its numbers."""
    row = spiky(1, 20)[0] * scale
    draws = of_one_row(Spikes(count=3), row, bits, DRAWS)
    assert off_by_errors(draws, row) < SURE
    assert draws.std(0).max() > 0, "the noise has an effect"


@each("columns", [1, 2, 3, 5])
def test_rows_with_hardly_more_columns_than_spikes_are_unbiased(columns):
    row = spiky(1, columns)[0]
    assert off_by_errors(of_one_row(Spikes(count=4), row, 2, DRAWS), row) < SURE


def test_rest_and_spikes_sum_to_the_original_row():
    x = spiky(50, 33)
    rest, units, places, values = split_spikes(x.clone(), 2)
    assert torch.equal(x.abs().topk(2, 1).indices.sort(1).values, places.sort(1).values)
    again = rest.scatter_add(1, places, values.float() * units[:, None])
    assert torch.allclose(again, x, rtol=0.0, atol=2.0**-22), "sums of two float32 numbers"
    mantissas = torch.frexp(units).mantissa
    assert bool((mantissas == 0.5).all()), "U is a power of two, so nothing is rounded by it"
    others = torch.ones_like(x, dtype=torch.bool).scatter(1, places, False)
    assert torch.equal(rest[others], x[others])
    assert (rest.amax(1) - rest.amin(1) < 0.6).all(), "spikes are outside the range"


@each("columns", [1, 3, 40])
def test_constant_rows_are_exact_and_have_no_variance(columns):
    x = torch.tensor([2.7, -1e-3, 0.0, 3e-38, 0.1]).repeat_interleave(columns).view(5, columns)
    for bits in (1, 2, 4, 8, 16, 32):
        out, noted, _ = send(Spikes(), x, bits)
        assert torch.equal(out, x), bits
        assert torch.equal(noted, torch.zeros(5)), bits


def test_single_float16_spike_in_a_constant_row_is_exact():
    x = torch.zeros(3, 12)
    x[torch.arange(3), torch.tensor([0, 5, 11])] = torch.tensor([1.5, -96.0, 2.0**-70])
    assert torch.equal(send(Spikes(count=1), x, 1)[0], x)


@each("columns", [1, 2, 5, 47, 64])
def test_rows_of_every_width_in_one_message(columns):
    widths, x, codec = torch.tensor([1, 2, 4, 8, 16, 32] * 5, dtype=torch.uint8), spiky(30, columns), Spikes(count=3)
    out, noted, layout = send(codec, x, widths)
    beside = 12 + 4 * min(3, columns - 1)
    assert layout.num_bytes == sum(-(-columns * b // 8) + (beside if b < 32 else 0) for b in widths.tolist())
    of_row = widths.flip(0)  # rows are encoded in reverse order
    assert torch.equal(out[of_row == 32], x[of_row == 32])
    for width in (1, 2, 4, 8, 16):
        alone, noted_alone, _ = send(codec, x, width)
        assert torch.equal(out[of_row == width], alone[of_row == width]), width
        assert torch.equal(noted, noted_alone), "the recorded facts of a row do not depend on its width"
    twice, _, _ = send(codec, x, widths, out=out.clone(), accumulate=True)
    assert torch.allclose(twice, 2 * out, atol=1e-6)


@each("bits", [1, 2, 4, 8])
def test_the_variance_is_that_of_the_rest(bits):
    """``D range^2 / 6 / (2^b - 1)^2`` if fractions of a step are uniform, and far below that of whole rows."""
    generator = torch.Generator().manual_seed(bits)
    x = torch.rand(400, 50, generator=generator)
    x[:, 7], x[:, 11] = 20.0 + x[:, 7], -30.0 - x[:, 11]
    codec, found = Spikes(count=2), []
    for one in (codec, Stochastic()):
        errors = [(send(one, x, bits, epoch=epoch)[0] - x).double().square().sum() for epoch in range(4)]
        found.append(float(sum(errors)) / 4)
    predicted = float(codec.row_variance(50).evaluate(send(codec, x, bits)[1], bits).sum())
    assert predicted == pytest.approx(found[0], rel=0.08)
    assert found[0] < found[1] / 50


@each("value", [math.nan, math.inf])
def test_a_row_that_cannot_be_encoded_is_refused(value):
    x = spiky(4, 20)
    x[2, 18] = value
    for bits in (1, 8, 16, 32):
        with pytest.raises(NonFiniteRow) as refused:
            send(Spikes(), x, bits)
        assert refused.value.position == 1, "rows are encoded in reverse order"
    x[2] = 0.0
    x[2, 3], x[2, 4] = 3e38, -3e38
    out = send(Spikes(count=2), x, 8)[0][2]
    assert float((out - x[2]).abs().max()) < 3e38 * 2**-11, "the range of the rest does not overflow"


def test_wrong_settings_and_rows_are_refused():
    with pytest.raises(ValueError, match=r"count must lie in \[1, 64\], got 0"):
        Spikes(count=0)
    with pytest.raises(ValueError, match="at most 65536 columns, got 65537"):
        Spikes().layout(2, 1, 65537)


def test_a_training_takes_spikes_by_name_in_a_pair_and_for_assigned_widths():
    system = gq.systems.adaqp()
    assert words_of("codec", Spikes(count=8)) == "codec=spikes:count=8"
    assert parts_in("codec=spikes:count=8") == {"codec": Spikes(count=8)}
    pair = replace(system, codec=(Stochastic(), Spikes(count=2)))
    assert gq.System.from_json(pair.to_json()) == pair
    assert replace(system, codec=Spikes()).codec.row_variance(6).spreads == ("rest",)
