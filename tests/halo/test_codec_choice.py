"""The choice of a codec: errors that can be computed by hand, the cheapest within the limit, refusals."""

from __future__ import annotations

import math

import pytest
import torch

from gnnqlab.halo import choose_codec
from gnnqlab.message import Codec, Float32, LowRank, Rotated, Stochastic
from tests.cases import each


def rows(outliers: bool = False) -> torch.Tensor:
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(1))
    if outliers:
        x[:, 3] *= 60
    return x


class Whole(Codec):
    """Whole parts in one byte; noise of the first draw adds nothing."""

    def encode_rows(self, rows, bits, noise):
        return rows.trunc().to(torch.int8)

    def decode_rows(self, encoded, bits, noise):
        return encoded.view(torch.int8).float()


def test_measured_errors_are_those_of_the_formula():
    samples = [torch.tensor([[0.5, 1.5], [3.0, 2.0]]), torch.tensor([[2.25, -4.0, 0.0]])]
    choice = choose_codec(samples, max_relative_error=0.2, codecs=[Whole()])
    (measured,) = [row for row in choice.table if isinstance(row.codec, Whole)]
    assert isinstance(choice.codec, Whole) and choice.bits == 8 and measured.bytes_per_row == 7 / 3
    squares = 0.25 + 2.25 + 9 + 4 + 2.25**2 + 16
    assert math.isclose(measured.relative_error, math.sqrt((0.25 + 0.25 + 0.0625) / squares), rel_tol=1e-6)
    assert choose_codec(samples, max_relative_error=0.1, codecs=[Whole()]).bits == 32


def test_the_cheapest_within_the_limit_is_chosen():
    x = rows()
    costs = []
    for limit in (0.0, 0.005, 0.05, 0.5, 2.0):
        choice = choose_codec([x[:20], x[20:]], max_relative_error=limit)
        holding = [row for row in choice.table if row.relative_error <= limit]
        (chosen,) = [row for row in choice.table if (row.codec, row.bits) == (choice.codec, choice.bits)]
        assert chosen.relative_error <= limit and chosen.bytes_per_row == min(row.bytes_per_row for row in holding)
        costs.append(chosen.bytes_per_row)
        marked = [line for line in str(choice).splitlines() if line.startswith("*")]
        assert len(marked) == 1 and repr(choice.codec) in marked[0]
    assert costs == sorted(costs, reverse=True) and costs[0] == 256 and costs[-1] < 40


def test_outliers_favour_rotation():
    candidates = [Stochastic(), Rotated()]
    choice = choose_codec(rows(outliers=True), max_relative_error=0.15, codecs=candidates)
    errors = {(type(row.codec), row.bits): row.relative_error for row in choice.table}
    assert errors[Rotated, 4] < errors[Stochastic, 4]
    assert {type(row.codec) for row in choice.table} == {Stochastic, Rotated, Float32}


@each(
    ("samples", "limit", "text"),
    [
        (torch.ones(3), 0.1, r"samples must be finite rows \(n, D\) of a floating type, got torch.float32 \(3,\)"),
        (torch.tensor([[math.nan]]), 0.1, "samples must be finite rows"),
        ([], 0.1, "samples must have at least one row, got none"),
        ([torch.empty(0, 4)], 0.1, "samples must have at least one row"),
        (torch.ones(2, 2), -1, "max_relative_error must be at least 0, got -1"),
        (torch.ones(2, 2), math.nan, "max_relative_error must be at least 0, got nan"),
    ],
)
def test_samples_and_limits_that_do_not_fit_are_refused(samples, limit, text):
    with pytest.raises(ValueError, match=text):
        choose_codec(samples, max_relative_error=limit)


def test_a_codec_with_the_state_of_a_training_is_refused():
    with pytest.raises(ValueError, match="a codec of an exchange must have no state, got LowRank"):
        choose_codec(torch.ones(2, 2), max_relative_error=0.1, codecs=[LowRank()])
