"""Errors of rows: every instruction set records those of the reference, which are the variance of the codes."""

from __future__ import annotations

import math

import pytest
import torch

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.kernels.codec.row_errors import ERROR_WIDTHS, NOTED, row_errors
from gnnqlab.kernels.codec.rows import decode_rows, encode_rows
from tests.cases import each
from tests.kernels.backends import AVAILABLE, EVERY, use
from tests.kernels.test_rotate import rows_of


def noted_of(x: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
    rows = torch.arange(x.shape[0]) if rows is None else rows
    noted = torch.full((rows.numel(), NOTED), 7.0)
    row_errors(x, rows, noted)
    return noted


@each("columns", [1, 2, 3, 7, 8, 16, 31, 40, 64, 100, 130, 256, 602])
def test_numbers_are_the_same_everywhere(columns):
    x, rows = rows_of(columns), torch.arange(24).flip(0)
    with native.use("reference"):
        expected = noted_of(x, rows)
    gaps = torch.cat([x, torch.full((24, 3), math.nan)], dim=1)[:, :columns]
    for isa in AVAILABLE:
        with use(isa):
            assert torch.equal(noted_of(x, rows), expected) and torch.equal(noted_of(gaps, rows), expected), isa


@each("bits", ERROR_WIDTHS)
def test_errors_are_those_of_codes_in_the_parameters_that_travel(bits):
    """Two thousand roundings of a row determine its squared error to some per cent; fractions are not uniform."""
    draws, generator = 2000, torch.Generator().manual_seed(bits)
    x = torch.stack([torch.randn(24, generator=generator).relu(), torch.rand(24, generator=generator) + 5.0])
    for row, noted in zip(x, noted_of(x), strict=True):
        many, every = row.expand(draws, -1).contiguous(), torch.arange(draws)
        payload, out = torch.zeros(draws * 3 * bits, dtype=torch.uint8), torch.empty(draws, 24)
        params = torch.zeros(draws, 2, dtype=torch.bfloat16)
        encode_rows(many, every, every, bits, None, payload, params, seed=1, epoch=0, stream=0)
        decode_rows(payload, params, bits, None, out, None)
        squared = float((out - row).double().square().sum()) / draws
        assert float(noted[ERROR_WIDTHS.index(bits)]) ** 2 == pytest.approx(squared, rel=0.06)
        assert float(noted[3]) == pytest.approx(float(row.double().norm()))
        assert float(noted[4]) == float(row.max() - row.min())


def test_a_scale_beyond_bfloat16_is_an_infinite_error_and_no_refusal():
    x = torch.zeros(1, 8)
    x[0, 3] = 3.4e38
    for backend in EVERY:
        with use(backend):
            noted = noted_of(x)[0]
            assert math.isinf(noted[0]) and math.isfinite(noted[1]) and math.isfinite(noted[3])


def test_rows_and_shapes_that_do_not_fit_are_refused():
    for backend in EVERY:
        with use(backend):
            for value in (math.nan, -math.inf, 3e38):
                x = rows_of(48)
                x[8, 47], x[8, 5] = value, -value
                with pytest.raises(NonFiniteRow) as refused:
                    noted_of(x, torch.arange(24).flip(0))
                assert refused.value.position == 24 - 1 - 8
            with pytest.raises(ValueError, match=r"rows must be in \[0, 24\), got 24 to 24"):
                noted_of(rows_of(8), torch.tensor([24]))
    with pytest.raises(ValueError, match=r"noted \(1, 5\), got .* and \(1, 4\)"):
        row_errors(torch.zeros(1, 4), torch.tensor([0]), torch.zeros(1, 4))
    for shape in ((0, 4), (3, 0)):
        assert torch.equal(noted_of(torch.zeros(shape)), torch.zeros(shape[0], NOTED))
