"""Code written in an exercise is graded by running it: right answers pass, wrong ones get a reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import gnnqlab as gq
from gnnqlab.course.graded import _least_variance, grade_codec, grade_policy, grade_rounding, grade_widths
from gnnqlab.message import Codec
from tests.cases import each

GRAPH = "sbm:120,3,6"


@dataclass(frozen=True)
class _CheapLast:
    """The answer of notebook 20: four bits if rows are short, one or two for gradients."""

    choices: ClassVar[tuple[int, ...]] = (1, 2, 4)

    def version(self, epoch: int) -> int:
        return 0

    def widths(self, rows: gq.bits.Rows, epoch: int) -> int | torch.Tensor:
        if rows.layer == 2:
            return 4
        return 2 if rows.direction == "forward" else torch.where(rows.ids % 2 == 0, 1, 2).to(torch.uint8)


def test_one_width_is_not_better_than_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_policy(gq.bits.Fixed(bits=2), graph=GRAPH)
    assert "1.00 times less noise; the goal is 1.2 times less" in capsys.readouterr().out


def test_grade_of_a_noisier_policy_reports_the_noise_factor(capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_policy(gq.bits.Fixed(bits=1), graph=GRAPH)
    said = capsys.readouterr().out
    assert float(said.split("), ")[1].split(" times as much noise")[0]) > 1


def test_grading_none_or_a_class_explains_the_missing_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_policy(None) and not grade_codec(None, 2)
    assert capsys.readouterr().out.count("in place of None and run the cell again.") == 2
    assert not grade_policy(gq.bits.Fixed) and not grade_codec(gq.codecs.Spikes, 2)  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert "a policy is a value, Fixed(), got the class Fixed." in said and "Spikes()" in said


def test_codec_row_longer_than_the_limit_fails_the_grade(capsys: pytest.CaptureFixture[str]) -> None:
    assert gq.codecs.Stochastic().layout(2, 1, 64).num_bytes == 24
    assert not grade_codec(gq.codecs.Stochastic(), 2, most=23)
    assert "a row of 64 elements takes 24 bytes, and 23 are allowed" in capsys.readouterr().out
    assert grade_codec(gq.codecs.Stochastic(), 2, most=24)


def test_less_noise_in_more_bytes_is_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_policy(gq.bits.Fixed(bits=8), graph=GRAPH)
    assert "more than the" in capsys.readouterr().out


def test_less_noise_in_no_more_bytes_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert grade_policy(_CheapLast(), bits=2)
    said = capsys.readouterr().out
    assert said.startswith("Right: ") and float(said.split()[-4]) > 1.2


@pytest.mark.parametrize(
    ("codec", "bits"), [(gq.codecs.Stochastic(), 1), (gq.codecs.Rotated(), 2), (gq.codecs.Spikes(), 2)]
)
def test_codes_that_are_right_on_average_pass(codec: Codec, bits: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert grade_codec(codec, bits)
    assert f"in {codec.layout(bits, 6, 128).num_bytes // 6:g}, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("codec", "bits", "kind"), [(gq.codecs.MXFP8(), 8, "normal"), (gq.codecs.Rotated(rotations=1), 1, "spiky")]
)
def test_a_bias_is_found(codec: Codec, bits: int, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_codec(codec, bits)
    assert f"rows that are {kind} have a bias of" in capsys.readouterr().out


def test_zeros_must_stay_zeros(capsys: pytest.CaptureFixture[str]) -> None:
    @dataclass(frozen=True)
    class OneMore(gq.codecs.Stochastic):
        def decode(self, segment, layout, out, rows, **rest):  # type: ignore[no-untyped-def]
            super().decode(segment, layout, out, rows, **rest)
            out += 1

    assert not grade_codec(OneMore(), 8, rows=torch.ones(2, 8))
    assert "a row of zeros is not decoded as zeros" in capsys.readouterr().out


def _stochastic(row: torch.Tensor, bits: int, u: torch.Tensor) -> torch.Tensor:
    step = (row.max() - row.min()) / (2**bits - 1)
    return ((row - row.min()) / step.clamp(min=1e-30) + u).floor().clamp(max=2**bits - 1)


def _greedy(beta: Sequence[float], columns: int, most: int) -> list[int]:
    widths = [2] * len(beta)
    left = most - len(beta) * (columns * 2 // 8 + 8)
    steps = [(b * (1 / 9 - 1 / 225) / 2, 2, row, 4) for row, b in enumerate(beta)]
    steps += [(b * (1 / 225 - 1 / 65025) / 4, 4, row, 8) for row, b in enumerate(beta)]
    for _, old, row, width in sorted(steps, reverse=True):
        if widths[row] == old and columns * (width - old) // 8 <= left:
            left -= columns * (width - old) // 8
            widths[row] = width
    return widths


@each("bits", [1, 2, 4])
def test_rounding_by_a_coin_is_right(bits: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert grade_rounding(_stochastic, bits=bits)
    said = capsys.readouterr().out
    assert said.startswith("Right: rows are decoded without bias, with ")
    assert [float(each) for each in re.findall(r"\d\.\d\d", said)] == pytest.approx([1.0, 1.0], abs=0.1)


@each(
    ("wrong", "why"),
    [
        (lambda row, bits, u: _stochastic(row, bits, torch.full_like(u, 0.5)), "does not cancel"),
        (lambda row, bits, u: _stochastic(row, bits, u) + 1, "codes are 0 to 3"),
        (lambda row, bits, u: _stochastic(row, bits, u) + 0.5, "no integers"),
        (lambda row, bits, u: _stochastic(row, bits, u)[:2], "no tensor of its shape, (128,): got (2,)"),
        (lambda row, bits, u: [0] * 128, "got list"),
        (lambda row, bits, u: ((row - row.min()) / (row.max() - row.min()) * 3 + u).floor(), "What does it divide by?"),
        (lambda row, bits, u: _ends(row, u), "times the variance of Theorem 1"),
    ],
)  # fmt: skip
def test_other_rounding_hears_why_not(wrong: Callable[..., Any], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_rounding(wrong)
    said = capsys.readouterr().out
    assert said.startswith(("Not yet: a", "Not yet: the mean of 256 messages"))
    assert why in said


def _ends(row: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """Decode each element to the smallest value or to the largest: without bias, with the largest error."""
    span = (row.max() - row.min()).clamp(min=1e-30)
    return 3.0 * (u < (row - row.min()) / span)


def test_the_next_bytes_go_where_they_take_most(capsys: pytest.CaptureFixture[str]) -> None:
    assert grade_widths(_greedy)
    assert capsys.readouterr().out.startswith("Right: 1.00, 1.0")


@each(
    ("wrong", "why"),
    [
        (lambda beta, columns, most: [8] * len(beta), "Which rows can do with fewer bits?"),
        (lambda beta, columns, most: [2] * len(beta), "times the least variance possible"),
        (lambda beta, columns, most: [3] * len(beta), "a bit-width of (2, 4, 8) for each of 60 rows"),
        (lambda beta, columns, most: [2], "got 1: [2]"),
        (lambda beta, columns, most: _greedy(beta[::-1], columns, most), "rows of slightly different weights have"),
    ],
)
def test_other_widths_hear_why_not(wrong: Callable[..., Any], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_widths(wrong)
    assert why in capsys.readouterr().out


def test_the_best_widths_are_those_of_brute_force() -> None:
    beta = np.array([3.0, 0.5, 1.0, 40.0])
    for most in (4 * 24, 4 * 24 + 16, 4 * 24 + 32, 4 * 24 + 100, 4 * 72):
        tried = [
            sum(b / (2.0**w - 1) ** 2 for b, w in zip(beta, widths))
            for widths in product((2, 4, 8), repeat=4)
            if sum(64 * w // 8 + 8 for w in widths) <= most
        ]
        assert _least_variance(beta, most) == pytest.approx(min(tried))


def test_a_missing_function_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_rounding(None) and not grade_widths(None)
    assert capsys.readouterr().out.count("Put your function in place of None and run the cell again.") == 2
    assert not grade_widths(4)  # type: ignore[arg-type]
    assert "the answer must be a function, got 4." in capsys.readouterr().out
