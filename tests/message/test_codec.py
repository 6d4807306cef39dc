"""Codecs: every width in one message, parameters that are sent as they were used, and codecs without parameters."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnqlab.errors import NonFiniteRow
from gnnqlab.message.codecs.codec import Noise, Stochastic
from tests.cases import each

pytestmark = pytest.mark.core

WIDTHS = [1, 2, 4, 8, 16, 32]


def rows(count: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, columns, generator=torch.Generator().manual_seed(seed))


def through(x, widths, codec=None, *, epoch=0, accumulate=False, out=None):
    """Encode rows in reverse and decode them; return the decoded rows, the ranges, and the layout."""
    codec = codec or Stochastic()
    number = x.shape[0]
    layout = codec.layout(widths, number, x.shape[1])
    segment = torch.empty(layout.num_bytes, dtype=torch.uint8)
    order = layout.to_wire_order(torch.arange(number).flip(0))
    ranges = codec.encode(x, order, order + 100, layout, segment, Noise(3, epoch, 5))
    out = torch.full_like(x, float("nan")) if out is None else out
    codec.decode(segment, layout, out, order, accumulate=accumulate)
    by_row = torch.empty(number).index_copy_(0, order, ranges)
    return out, by_row, layout


@settings(max_examples=60, deadline=None)
@given(
    widths=st.lists(st.sampled_from(WIDTHS), min_size=1, max_size=30),
    columns=st.integers(1, 70),
    parameters=st.sampled_from(["float32", "bfloat16"]),
)
def test_rows_of_every_width_in_one_message_err_by_less_than_a_step(widths, columns, parameters):
    x = rows(len(widths), columns, seed=columns)
    out, ranges, layout = through(x, torch.tensor(widths, dtype=torch.uint8), Stochastic(parameters=parameters))
    assert torch.equal(ranges, x.amax(1) - x.amin(1))
    size = 4 if parameters == "float32" else 2
    of_row = torch.tensor(widths[::-1])  # rows are encoded in reverse order
    assert layout.num_bytes == sum(-(-columns * b // 8) + (0 if b == 32 else 2 * size) for b in widths)
    assert torch.equal(out[of_row == 32], x[of_row == 32])
    steps = ranges / (2.0 ** of_row.clamp(max=16) - 1)
    # bfloat16: Z falls by at most 2^-7 |Z|, the range grows by that, S is rounded up by 2^-7; float32: two roundings
    slack = (
        2.0**-6 * (steps + x.abs().amax(1) / (2.0 ** of_row.clamp(max=16) - 1)) if size == 2 else 1e-6 * x.abs().amax(1)
    )
    assert ((out - x).abs().amax(1) <= steps + slack + 1e-6 * x.abs().amax(1)).all()


def test_encoding_of_a_row_does_not_depend_on_other_rows():
    x = rows(6, 33)
    mixed, _, _ = through(x, torch.tensor([16, 2, 32, 2, 16, 8], dtype=torch.uint8))
    for width, of in ((2, [4, 2]), (8, [0]), (16, [5, 1]), (32, [3])):
        alone, _, _ = through(x, width)
        assert torch.equal(mixed[of], alone[of]), width


def test_16_bits_are_unbiased_and_as_fine_as_promised():
    # A row of thirds of a step between the ends of the range: 10.33, 10.67 are never exactly a code.
    x = torch.cat([torch.tensor([0.0, 65535.0]), torch.full((30_000,), 10 + 1 / 3)])[None]
    out, _, _ = through(x, 16)
    middle = out[0, 2:]
    assert set(middle.tolist()) == {10.0, 11.0}
    # Bernoulli(1/3) over 30 000 draws: five standard errors
    assert abs(float(middle.mean()) - 10 - 1 / 3) < 5 * (2 / 9 / 30_000) ** 0.5


def test_the_ends_of_a_row_stay_in_16_bits():
    x = rows(200, 64, seed=4) * 1e3
    for parameters in ("float32", "bfloat16"):
        for epoch in range(3):
            out, ranges, _ = through(x, 16, Stochastic(parameters=parameters), epoch=epoch)
            assert ((out - x).abs().amax(1) <= ranges / 65535 * 1.05 + 4e-4).all()


def test_constant_rows_decode_exactly_at_every_width():
    x = torch.full((6, 9), 0.1)
    out, ranges, _ = through(x, torch.tensor(WIDTHS, dtype=torch.uint8))
    assert torch.equal(out, x) and not ranges.any()


def test_rows_of_every_width_can_be_added():
    x = rows(6, 21)
    widths = torch.tensor(WIDTHS, dtype=torch.uint8)
    once, _, _ = through(x, widths)
    added, _, _ = through(x, widths, out=torch.ones(6, 21), accumulate=True)
    assert torch.allclose(added, once + 1, atol=1e-6)


@each("width", WIDTHS)
@each("value", [float("nan"), float("inf"), 3e38])
def test_a_row_that_is_not_finite_is_found_among_all(width, value):
    x = rows(7, 5)
    x[4, 1], x[4, 3] = value, -value  # 3e38 alone is finite, but the range is not
    widths = torch.tensor([*WIDTHS, 2], dtype=torch.uint8)
    position = int((torch.tensor(WIDTHS) == width).nonzero())
    order = torch.arange(7)
    order[[4, position]] = order[[position, 4]]
    layout = Stochastic().layout(widths, 7, 5)
    segment = torch.empty(layout.num_bytes, dtype=torch.uint8)
    wire = layout.to_wire_order(order)
    with pytest.raises(NonFiniteRow) as caught:
        Stochastic().encode(x, wire, wire, layout, segment, Noise(0, 0, 0))
    assert int(wire[caught.value.position]) == 4


def test_no_rows_and_no_columns_are_no_trouble():
    for width in WIDTHS:
        assert through(torch.empty(0, 4), width)[0].shape == (0, 4)
        assert through(torch.empty(3, 0), width)[0].shape == (3, 0)


@each(("parameters", "biased"), [("bfloat16", False), ("bfloat16-after", True)])
@each("bits", [8, 16])
def test_parameters_rounded_after_encoding_bias_the_decoded_rows(parameters, biased, bits):
    x = rows(16, 64)
    errors = torch.stack(
        [through(x, bits, Stochastic(parameters=parameters), epoch=epoch)[0].double() - x for epoch in range(200)]
    )
    # Without bias the mean of all elements' errors has this standard error; computed by row, as each has one Z and S.
    standard_errors = errors.mean(dim=(0, 2)).abs() / (errors.mean(2).std(0) / 200**0.5)
    assert (float(standard_errors.median()) > 5) == biased
    assert (float(standard_errors.max()) > 5) == biased


def test_both_kinds_of_bfloat16_take_the_same_bytes():
    before, after = Stochastic(parameters="bfloat16"), Stochastic(parameters="bfloat16-after")
    assert before.layout(2, 9, 5).num_bytes == after.layout(2, 9, 5).num_bytes == 9 * (2 + 4)
