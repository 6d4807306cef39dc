"""Functions that are written in an exercise are graded by running them: right ones pass, wrong ones hear why."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from gnnqlab.course.graded_rows import _least_variance, grade_rounding, grade_widths
from tests.cases import each


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
    assert said.startswith("Right: on average rows come back as they were, with ")
    assert [float(each) for each in re.findall(r"\d\.\d\d", said)] == pytest.approx([1.0, 1.0], abs=0.1)


@each(
    ("wrong", "why"),
    [
        (lambda row, bits, u: _stochastic(row, bits, torch.full_like(u, 0.5)), "does not cancel"),
        (lambda row, bits, u: _stochastic(row, bits, u) + 1, "0 to 3 can be said"),
        (lambda row, bits, u: _stochastic(row, bits, u) + 0.5, "no whole numbers"),
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
    """The smallest value or the largest: right on average, and as wrong as can be."""
    span = (row.max() - row.min()).clamp(min=1e-30)
    return 3.0 * (u < (row - row.min()) / span)


def test_the_next_bytes_go_where_they_take_most(capsys: pytest.CaptureFixture[str]) -> None:
    assert grade_widths(_greedy)
    assert capsys.readouterr().out.startswith("Right: 1.00, 1.0")


@each(
    ("wrong", "why"),
    [
        (lambda beta, columns, most: [8] * len(beta), "Which rows can do with fewer bits?"),
        (lambda beta, columns, most: [2] * len(beta), "times the variance of the best widths"),
        (lambda beta, columns, most: [3] * len(beta), "a width of (2, 4, 8) for each of 60 rows"),
        (lambda beta, columns, most: [2], "got 1: [2]"),
        (lambda beta, columns, most: _greedy(beta[::-1], columns, most), "rows that weigh a little differently have"),
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


def test_what_is_missing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_rounding(None) and not grade_widths(None)
    assert capsys.readouterr().out.count("Put your function in place of None and run the cell again.") == 2
    assert not grade_widths(4)  # type: ignore[arg-type]
    assert "a function is asked for, got 4." in capsys.readouterr().out
