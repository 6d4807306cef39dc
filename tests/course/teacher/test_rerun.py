"""Code that was handed in is run once more, in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gnnqlab import course
from gnnqlab.course.graded import grade_rounding
from gnnqlab.course.teacher.grading import grade_file
from gnnqlab.course.teacher.rerun import main, rerun
from tests.cases import each
from tests.course.test_graded import _stochastic

RIGHT = """def my_codes(row, bits, u):
    step = (row.max() - row.min()) / (2**bits - 1)
    return ((row - row.min()) / step.clamp(min=1e-30) + u).floor().clamp(max=2**bits - 1)
"""


def test_right_code_passes_again_in_its_own_process() -> None:
    passed, reply = rerun("04.rounding", RIGHT)
    assert passed and reply.startswith("Right: rows are decoded without bias")


@each(
    ("source", "reply"),
    [
        (RIGHT.replace("+ u", "+ 0.5"), "Not yet: the mean of"),
        ("answer = 7", "Not yet: the source defines no function"),
    ],
)
def test_other_code_fails_with_the_reply_of_the_grader(
    source: str, reply: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main("04.rounding", source) == 1
    assert capsys.readouterr().out.startswith(reply)


def test_code_that_does_not_end_is_ended() -> None:
    assert rerun("04.rounding", "while True: pass", limit_s=0.01) == (False, "ended after 0.01 s")


def test_a_claim_to_have_passed_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grade_rounding(_stochastic)
    path = course.hand_in(tmp_path / "a.json")
    assert grade_file(path, run_code=True).right == {"04.rounding"}
    content = json.loads(path.read_text())
    content["code"]["04.rounding"]["source"] = "def my_codes(row, bits, u): return row"
    path.write_text(json.dumps(content))
    assert grade_file(path).right == {"04.rounding"} and grade_file(path, run_code=True).right == set()


def test_a_class_is_graded_as_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    source = "@dataclass(frozen=True)\nclass Mine(gq.codecs.Stochastic):\n    pass\n"
    assert main("20.codec", source) == 1
    assert "takes 24 bytes, and 20 are allowed" in capsys.readouterr().out
