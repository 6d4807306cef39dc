"""Code of a student: its errors are explained with the message first, and its source is kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gnnqlab as gq
from gnnqlab.course.graded import grade_codec, grade_policy, grade_rounding, grade_widths
from gnnqlab.course.student import progress
from gnnqlab.course.student.code import CODE, source_of
from tests.course.test_graded import _greedy, _stochastic


def _crash(row: torch.Tensor, bits: int, noise: torch.Tensor) -> torch.Tensor:
    return row / undefined  # type: ignore[name-defined] # noqa: F821


def test_an_error_is_explained_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_rounding(_crash)
    said = capsys.readouterr().out
    assert said.startswith(
        "Not yet: your code raised NameError: name 'undefined' is not defined. It was raised in line "
    )
    assert "of _crash(): return row / undefined" in said and "It is called as my_codes(row, bits, noise)" in said


def test_a_function_of_other_parameters_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    def two(row: Any, bits: Any) -> Any:
        return row

    assert not grade_rounding(two)  # type: ignore[arg-type]
    assert "takes 2 positional arguments but 3 were given. It is called as my_codes(" in capsys.readouterr().out
    assert not grade_widths(lambda beta: beta)  # type: ignore[misc,arg-type]
    assert "It is called as my_widths(beta, columns, most_bytes)" in capsys.readouterr().out


def test_a_value_without_the_methods_of_its_axis_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_policy(7, graph="sbm:40,2,4")  # type: ignore[arg-type]
    assert not grade_codec(7, 2)  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert said.count("Not yet: your code raised AttributeError: 'int' object has no attribute") == 2


def test_an_error_of_the_caller_stays_an_error() -> None:
    with pytest.raises(ValueError, match="a graph must be a known name"):
        grade_policy(gq.bits.Fixed(bits=2), graph="no such graph")


def test_source_and_result_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_rounding(_crash) and not grade_rounding(None)
    assert progress.read()["code"]["04.rounding"]["passed"] is False
    assert grade_rounding(_stochastic) and grade_widths(_greedy)
    kept = progress.read()["code"]
    assert kept["04.rounding"]["passed"] and "def _stochastic(" in kept["04.rounding"]["source"]
    assert kept["06.widths"]["passed"] and set(kept) <= set(CODE)


def test_only_the_exercise_itself_is_kept_not_the_examples_of_its_notebook() -> None:
    assert grade_codec(gq.codecs.Stochastic(), 2)
    assert "20.codec" not in progress.read()["code"]
    grade_codec(gq.codecs.Stochastic(), 2, most=20)
    assert "class Stochastic" in progress.read()["code"]["20.codec"]["source"]


def test_source_of_code_without_a_file_is_empty() -> None:
    assert source_of(print) == "" and source_of(eval("lambda: 1")) == ""
