"""Progress of a student: one file, its errors, and the map that counts right answers."""

from __future__ import annotations

import pytest

from gnnqlab import course
from gnnqlab.course.exercises import EXERCISES
from gnnqlab.course.student import progress
from gnnqlab.course.student.course_map import PATHS, exercises_of
from tests.pages import ROOT


def test_the_map_has_every_notebook_once_and_links_to_it() -> None:
    books = [book for path in PATHS.values() for book in path]
    there = {file.stem for file in (ROOT / "notebooks").glob("*.ipynb")} - {"00_index"}
    assert sorted(books) == sorted(there)
    page = course.progress()
    assert all(f'<a href="{book}.ipynb"' in page.html for book in books)


def test_the_map_counts_right_answers() -> None:
    right = EXERCISES["06.beta"]
    course.check("06.beta", right.evaluate(right.numbers_of("")))
    course.check("06.time", 1)
    page = course.progress()
    assert "06 who gets the bits (1 of 4)" in str(page) and "Right answers: 1 of 90" in page.html
    assert "✓" not in page.html
    for name in exercises_of("09"):
        course.check(name, EXERCISES[name].evaluate(EXERCISES[name].numbers_of("")))
    assert course.progress().html.count("✓ 3 of 3") == 1


def test_every_exercise_belongs_to_a_notebook_of_the_map() -> None:
    named = {name for path in PATHS.values() for book in path for name in exercises_of(book[:2])}
    assert named >= set(EXERCISES) and len(named) == 90


@pytest.mark.parametrize("text", ["{", '{"format": 99}'])
def test_another_file_in_its_place_is_refused(text: str) -> None:
    progress.path().parent.mkdir(parents=True)
    progress.path().write_text(text)
    with pytest.raises(ValueError, match="must be progress of format 1, got another text; move the file away"):
        course.check("01.payload", 64)


def test_a_disk_that_cannot_be_written_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GNNQLAB_RUNS", "/dev/null/runs")
    with pytest.warns(UserWarning, match="answers and guesses are not kept: .*; set GNNQLAB_RUNS to another folder"):
        course.check("01.payload", 64)
    assert capsys.readouterr().out == "Right: 64.\n"


@pytest.mark.parametrize("name", ["a\nb", "a" * 81])
def test_a_name_is_one_short_line(name: str) -> None:
    with pytest.raises(ValueError, match="a student's name must be one line of at most 80 characters"):
        course.start(name)


@pytest.mark.parametrize("name", ["", "  ", None])
def test_a_start_without_a_name_is_refused(name: str | None) -> None:
    course.start(7)
    with pytest.raises(ValueError, match="a student's name must not be empty, got .*; without course.start exercises"):
        course.start(name)
    assert progress.student() == "7"


def test_a_start_of_another_student_says_what_stays(capsys: pytest.CaptureFixture[str]) -> None:
    course.start("Ada")
    assert "put aside" not in capsys.readouterr().out, "nothing has been done yet"
    course.guess("01", fewer_bytes=4)
    course.start("Ada")
    assert "put aside" not in capsys.readouterr().out
    course.start("Grace")
    said = capsys.readouterr().out
    assert "Answers of 'Ada' are put aside until course.start('Ada'); guesses and graded code stay" in said
    assert progress.read()["guesses"]["01"]["fewer_bytes"]["guess"] == 4
