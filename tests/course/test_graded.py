"""What is written in an exercise is graded by running it: right answers pass, wrong ones hear why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

import gnnqlab as gq
from gnnqlab.course.graded import grade_codec, grade_policy
from gnnqlab.message import Codec

GRAPH = "sbm:120,3,6"


@dataclass(frozen=True)
class _CheapLast:
    """The answer of notebook 20: four bits where rows are short, one or two for gradients."""

    choices: ClassVar[tuple[int, ...]] = (1, 2, 4)

    def round(self, epoch: int) -> int:
        return 0

    def widths(self, rows: gq.bits.Rows, epoch: int) -> int | torch.Tensor:
        if rows.layer == 2:
            return 4
        return 2 if rows.direction == "forward" else torch.where(rows.ids % 2 == 0, 1, 2).to(torch.uint8)


def test_one_width_is_not_better_than_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_policy(gq.Fixed(bits=2), graph=GRAPH)
    assert "1.00 times less noise; 1.2 times less is asked for" in capsys.readouterr().out


def test_more_noise_is_said_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_policy(gq.Fixed(bits=1), graph=GRAPH)
    said = capsys.readouterr().out
    assert float(said.split("), ")[1].split(" times as much noise")[0]) > 1


def test_what_is_missing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_policy(None) and not grade_codec(None, 2)
    assert capsys.readouterr().out.count("in place of None and run the cell again.") == 2
    assert not grade_policy(gq.Fixed) and not grade_codec(gq.Spikes, 2)  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert "a policy is a value, Fixed(), got the class Fixed." in said and "Spikes()" in said


def test_a_row_may_not_be_longer_than_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert gq.Stochastic().layout(2, 1, 64).num_bytes == 24
    assert not grade_codec(gq.Stochastic(), 2, most=23)
    assert "a row of 64 takes 24 bytes, 23 at most are asked for" in capsys.readouterr().out
    assert grade_codec(gq.Stochastic(), 2, most=24)


def test_less_noise_in_more_bytes_is_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_policy(gq.Fixed(bits=8), graph=GRAPH)
    assert "more than the" in capsys.readouterr().out


def test_less_noise_in_no_more_bytes_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert grade_policy(_CheapLast(), bits=2)
    said = capsys.readouterr().out
    assert said.startswith("Right: ") and float(said.split()[-4]) > 1.2


@pytest.mark.parametrize(("codec", "bits"), [(gq.Stochastic(), 1), (gq.Rotated(), 2), (gq.Spikes(), 2)])
def test_codes_that_are_right_on_average_pass(codec: Codec, bits: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert grade_codec(codec, bits)
    assert f"in {codec.layout(bits, 6, 128).num_bytes // 6:g}, " in capsys.readouterr().out


@pytest.mark.parametrize(("codec", "bits", "kind"), [(gq.MXFP8(), 8, "normal"), (gq.Rotated(rotations=1), 1, "spiky")])
def test_a_bias_is_found(codec: Codec, bits: int, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not grade_codec(codec, bits)
    assert f"rows that are {kind} come back" in capsys.readouterr().out


def test_zeros_must_stay_zeros(capsys: pytest.CaptureFixture[str]) -> None:
    @dataclass(frozen=True)
    class OneMore(gq.Stochastic):
        def decode(self, segment, layout, out, rows, **rest):  # type: ignore[no-untyped-def]
            super().decode(segment, layout, out, rows, **rest)
            out += 1

    assert not grade_codec(OneMore(), 8, rows=torch.ones(2, 8))
    assert "a row of zeros comes back as something else" in capsys.readouterr().out
