"""Hand-ins: written, checked for damage, graded again with the student's numbers, and listed for a class."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gnnqlab import cli, course
from gnnqlab.course.exercises import EXERCISES
from gnnqlab.course.graded import grade_rounding
from gnnqlab.course.student import progress
from gnnqlab.course.student.course_map import choose_exercises
from gnnqlab.course.student.handed_in import checksum
from gnnqlab.course.teacher.grading import grade_file, grade_folder, mistake_table
from gnnqlab.course.teacher.pack import expected_mistakes
from gnnqlab.course.teacher.reports import gradescope_results
from tests.cases import each
from tests.course.test_graded import _stochastic
from tests.slow_down import HANG_S


def _right(name: str, student: str) -> float:
    exercise = EXERCISES[name]
    return exercise.evaluate(exercise.numbers_of(student, name))


def _take(student: str, path: Path, *, names: tuple[str, ...]) -> Path:
    """Hand in right answers to some exercises, one wrong answer, one guess and one rounding rule."""
    progress.path().unlink(missing_ok=True)
    course.start(student)
    course.guess("01", fewer_bytes=4).compare(fewer_bytes=12.5, points=0.3)
    course.guess("01", points=1)
    for name in names:
        course.check(name, _right(name, student))
    course.check("06.time", 1000)
    grade_rounding(_stochastic)
    return course.hand_in(path)


def test_a_hand_in_has_everything_that_was_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _take("Ada", tmp_path / "ada.json", names=("01.payload", "02.halo"))
    assert f"3 of 90 exercises are right; 04.rounding, 2 guesses: {path}" in capsys.readouterr().out
    content = json.loads(path.read_text())
    assert content["student"] == "Ada" and content["checksum"] == checksum(content)
    assert set(content["answers"]) == {"01.payload", "02.halo", "06.time"}
    assert content["answers"]["06.time"]["wrong"][0]["answer"] == 1000
    assert "def _stochastic(" in content["code"]["04.rounding"]["source"]
    assert {"python", "gnnqlab", "torch", "numpy"} == set(content["versions"])
    assert content["started"] <= content["answers"]["01.payload"]["at"] <= content["handed_in"]


def test_answers_are_checked_again_with_the_numbers_of_the_student(tmp_path: Path) -> None:
    path = _take("Ada", tmp_path / "ada.json", names=("01.payload",))
    grade = grade_file(path)
    assert grade.is_intact and grade.right == {"01.payload", "04.rounding"} and grade.points("01") == "1 of 3"
    content = json.loads(path.read_text())
    content["answers"]["01.payload"]["answer"] = 64.0  # right with the numbers of the notebook only
    content["answers"]["02.halo"] = {"right": True, "answer": 1.0, "wrong": []}
    path.write_text(json.dumps(content))
    changed = grade_file(path)
    assert changed.right == {"04.rounding"} and not changed.is_intact


def test_a_class_is_one_table_and_one_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _take("Ada", tmp_path / "class" / "a" / "ada.json", names=("01.payload", "01.ratio", "01.rows"))
    _take("Grace <b>", tmp_path / "class" / "b" / "grace.json", names=())
    (tmp_path / "class" / "notes.json").write_text("{}")
    (tmp_path / "class" / "half.json").write_text('{"format": ')
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        cli.main(["course", "grade", str(tmp_path / "class"), "--out", str(tmp_path / "grades")])
    said, error = capsys.readouterr()
    assert end.value.code == 1 and "2 file(s) could not be read: half.json, notes.json" in error
    assert "Ada (ada.json): 4 of 90, file intact" in said and "must be a file of course.hand_in" in said
    assert "(no name) (half.json): 0 of 90" in said and "cut off or damaged" in said
    rows = list(csv.DictReader((tmp_path / "grades" / "grades.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["student"] for row in rows] == ["(no name)", "(no name)", "Ada", "Grace <b>"]
    ada = rows[2]
    assert ada["right exercises"] == "01.payload 01.ratio 01.rows 04.rounding"
    assert ada["01"] == "3 of 3" and ada["wrong tries"] == "1" and ada["guesses first"] == "1", "one guess came late"
    page = (tmp_path / "grades" / "grades.html").read_text(encoding="utf-8")
    assert "Grace &lt;b&gt;" in page and "Wrong answers of the class" in page and "4, 4" in page
    assert "://" not in page, "the page loads nothing"


def test_a_class_that_has_chosen_exercises_is_graded_on_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "class"
    _take("Ada", folder / "ada.json", names=("01.payload", "02.halo"))
    capsys.readouterr()
    cli.main(["course", "grade", str(folder), "--only", "01,04.rounding", "--json"])
    result = json.loads(capsys.readouterr().out)
    (grade,) = result["grades"]
    assert grade["right"] == "2 of 4" and grade["percent"] == 50.0 and grade["wrong tries"] == 0, (
        "06.time is not chosen"
    )
    assert grade["right exercises"] == "01.payload 04.rounding" and result["unreadable"] == []
    assert grade["01"] == "1 of 3" and grade["04"] == "1 of 1" and "02" not in grade
    assert "06.time" not in (folder / "grades.html").read_text(encoding="utf-8")
    scores = gradescope_results(grade_file(folder / "ada.json"), choose_exercises("01"))["tests"]
    assert [test["name"] for test in scores] == ["01.payload", "01.ratio", "01.rows"]


def test_files_of_one_name_are_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _take("Ada", tmp_path / "class" / "ada.json", names=())
    (path.parent / "ada (1).json").write_bytes(path.read_bytes())
    _take("Grace", path.parent / "grace.json", names=())
    capsys.readouterr()
    cli.main(["course", "grade", str(path.parent)])
    said = capsys.readouterr().out
    assert (
        said.count("file intact; one of 2 files of this name") == 2 and "(grace.json): 1 of 90, file intact\n" in said
    )


def test_a_gradescope_script_writes_its_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _take("Ada", tmp_path / "submission" / "ada.json", names=("01.payload",))
    cli.main(["course", "pack", str(tmp_path / "pack")])
    script = tmp_path / "pack" / "gradescope" / "run_autograder"
    gnnqlab = tmp_path / "gnnqlab"
    gnnqlab.write_text(f'#!/bin/sh\nexec {sys.executable} -m gnnqlab "$@"\n')
    gnnqlab.chmod(0o755)
    environment = {"AUTOGRADER": str(tmp_path), "GNNQLAB": str(gnnqlab), "PATH": "/usr/bin:/bin"}
    subprocess.run([script], env=environment, check=True, timeout=HANG_S, capture_output=True)
    results = json.loads((tmp_path / "results" / "results.json").read_text())
    scores = {test["name"]: test["score"] for test in results["tests"]}
    assert len(scores) == 90 and sum(scores.values()) == 2 and scores["01.payload"] == scores["04.rounding"] == 1
    assert results["output"] == "Student: Ada." and all(test["max_score"] == 1 for test in results["tests"])


def test_two_submissions_are_no_gradescope_submission(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(SystemExit) as end:
        cli.main(["course", "grade", str(tmp_path), "--gradescope", str(tmp_path / "out.json")])
    assert end.value.code == 2 and "Gradescope grades one submission, got 2 .json files" in capsys.readouterr().err


def test_wrong_answers_of_one_kind_are_one_mistake_of_the_class(tmp_path: Path) -> None:
    for student in ("Ada", "Grace"):
        progress.path().unlink(missing_ok=True)
        course.start(student)
        course.check("01.payload", 8 * _right("01.payload", student))
        course.hand_in(tmp_path / f"{student}.json")
    course.check("03.loss", -_right("03.loss", "Grace"))
    course.hand_in(tmp_path / "Grace.json")
    rows = mistake_table(grade_folder(tmp_path)).reset_index().values.tolist()
    assert [row[:3] for row in rows] == [["01.payload", "unit", 2], ["03.loss", "sign", 1]]


@each(
    ("words", "why"),
    [
        (["course", "mark", "there"], "action must be one of grade, pack, got 'mark'"),
        (["course", "grade", "/nowhere"], "the folder to grade must exist, got /nowhere"),
        (["course", "grade", __file__], "name its folder"),
        (["course", "pack", "there", "--out", "here"], "--out, --gradescope, --run-code and --only belong to grade"),
        (["course", "grade", "/tmp", "--only", "01,00"], "notebooks with exercises, such as 01, got '00'"),
        (["course", "grade", "/tmp", "--only", "01.payloat"], "got '01.payloat'; did you mean 01.payload"),
    ],
)
def test_other_commands_are_refused(words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    assert end.value.code == 2 and why in capsys.readouterr().err


def test_a_hand_in_replaces_no_other_file(tmp_path: Path) -> None:
    other = tmp_path / "thesis.json"
    other.write_text('{"chapter": 1}')
    with pytest.raises(ValueError, match="must be a file of course.hand_in"):
        course.hand_in(other)
    with pytest.raises(ValueError, match=r"must end in .json, got 'ada.txt'"):
        course.hand_in(tmp_path / "ada.txt")
    assert other.read_text() == '{"chapter": 1}'
    first = course.hand_in(tmp_path / "ada.json")
    assert course.hand_in(first) == first


@each("damage", ["[]", '{"format": "gnnqlab hand-in 1"}', "\x00"])
def test_a_damaged_file_has_a_reason(damage: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(damage)
    grade = grade_file(tmp_path / "a.json")
    assert grade.error and grade.right == frozenset()


def test_the_pack_has_solutions_and_mistakes_of_every_exercise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["course", "pack", str(tmp_path), "--json"])
    files = json.loads(capsys.readouterr().out.splitlines()[-1])["files"]
    assert {Path(file).name for file in files} == {"solutions.md", "wrong_answers.csv", "setup.sh", "run_autograder"}
    text = (tmp_path / "solutions.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in EXERCISES) and "256 · 2 / 8 = 64" in text
    assert text.count("```python") >= 4, "the folded solutions of graded code"
    rows = list(csv.DictReader((tmp_path / "wrong_answers.csv").read_text(encoding="utf-8").splitlines()))
    assert {row["exercise"] for row in rows} == set(EXERCISES)
    assert ("01.payload", "512", "unit") in {(row["exercise"], row["wrong answer"], row["kind"]) for row in rows}


@each("name", sorted(EXERCISES))
def test_expected_mistakes_are_wrong(name: str) -> None:
    mistakes = list(expected_mistakes(EXERCISES[name]))
    assert mistakes and all(abs(answer - _right(name, "")) > 0 for answer, _, _ in mistakes)
