"""Guesses: empty at first, kept, compared with the measurement, drawn, and typed into a form."""

from __future__ import annotations

import html
import re

import pytest

from gnnqlab import course
from gnnqlab.course.student import progress
from gnnqlab.course.student.guess_line import guess_line
from gnnqlab.course.student.guesses import guess_form
from gnnqlab.course.student.quantities import QUANTITIES
from tests.cases import each


def test_without_a_guess_the_measurement_is_drawn_with_a_sentence() -> None:
    guess = course.guess("01", fewer_bytes=None, points=None)
    page = guess.compare(fewer_bytes=12.5, points=0.28)
    assert "You have not guessed yet" in str(page) and "guess.make(fewer_bytes=…, points=…)" in str(page)
    assert page.html.count("<circle") == 2 and "<path" not in page.html and "off by" not in page.html


def test_a_guess_stands_in_the_figure_with_its_distance() -> None:
    guess = course.guess("01", fewer_bytes=4, points=1)
    page = guess.compare(fewer_bytes=12.4, points=0.28)
    assert "you were off by 3.1 ×" in str(page) and "you were off by 0.72 points" in str(page)
    assert page.html.count("<path") == page.html.count("<circle") == 2
    assert "not guessed" not in str(page)


def test_cells_with_the_answer_ask_until_there_is_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    guess = course.guess("01", points=1)
    guess.ask()
    assert capsys.readouterr().out == (
        "Your guess first, in the form at the top, or go on: bytes of an epoch in 2 bits (times fewer).\n"
    )
    guess.make(fewer_bytes=4)
    guess.ask()
    assert capsys.readouterr().out == ""


def test_a_guess_is_kept_for_the_next_kernel() -> None:
    course.guess("01", fewer_bytes=4)
    assert course.guess("01", fewer_bytes=None, points=None).values == {"fewer_bytes": 4.0, "points": None}
    course.guess("01").make(fewer_bytes=None)
    assert course.guess("01").values["fewer_bytes"] is None


def test_a_guess_after_the_measurement_is_late() -> None:
    guess = course.guess("02", random=99)
    guess.compare(random=100, metis=21)
    kept = progress.read()["guesses"]["02"]
    assert kept["random"]["is_late"] is False and kept["random"]["measured"] == 100
    assert kept["metis"]["guess"] is None and "at" not in kept["metis"]
    guess.make(metis=21)
    assert progress.read()["guesses"]["02"]["metis"]["is_late"] is True


@each(
    ("value", "measured", "words"),
    [
        (True, True, "measured yes, your guess yes: you were right"),
        ("no", True, "measured yes, your guess no: you were wrong"),
    ],
)
def test_a_yes_or_no_is_right_or_wrong(value: object, measured: bool, words: str) -> None:
    page = course.guess("28", light=value).compare(light=measured)
    assert words in str(page) and "<svg" not in page.html


def test_a_choice_of_numbers_is_read_as_a_number_too() -> None:
    assert course.guess("23", better=0.0).values == {"better": "0"}
    assert "you were wrong" in str(course.guess("23").compare(better=0.1))


def test_values_near_and_far_and_of_both_signs_have_places_on_the_line() -> None:
    for measured, guess in ((12.5, 1e-6), (12.5, 13.0), (-0.5, 1.0), (0.0, 0.0), (0.0, None), (3.0, None)):
        places = [
            float(x)
            for x in re.findall(r'cx="([-\d.]+)"|d="M([-\d.]+)', guess_line(measured, guess, label="a"))[0]
            if x
        ]
        assert all(70 <= place <= 490 for place in places)
    assert guess_line(1.0, None, label="a < b").count("&lt;") == 1


@each(
    ("values", "why"),
    [
        ({"bytes": 1}, "a guess of notebook 01 must be one of fewer_bytes, points, got 'bytes'"),
        ({"points": "many"}, r"points must be a number \(points\), got 'many'"),
        ({"points": float("inf")}, "points must be a number"),
    ],
)
def test_other_guesses_are_refused(values: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        course.guess("01", **values)
    with pytest.raises(ValueError, match="notebook must be one of 01, 02, .*, got '99'"):
        course.guess("99")
    with pytest.raises(ValueError, match="better must be one of 0, 0.1, got 7"):
        course.guess("23", better=7)


def test_the_form_sets_guesses_and_explains_a_wrong_one() -> None:
    guess = course.guess("01", points=1)
    form = guess_form("01", guess.values, guess.make)
    (bytes_field, bytes_reply), (points_field, _) = (row.children for row in form.children[1:])
    assert (bytes_field.value, points_field.value) == ("", "1")
    bytes_field.value = "16"
    assert guess.values["fewer_bytes"] == 16.0 and bytes_reply.value == "times fewer ✓"
    bytes_field.value = "a lot"
    assert guess.values["fewer_bytes"] == 16.0 and 'role="alert"' in bytes_reply.value
    assert "must be a number (times fewer), got 'a lot'" in html.unescape(bytes_reply.value)
    bytes_field.value = " "
    assert guess.values["fewer_bytes"] is None


def test_a_choice_is_a_list_in_the_form() -> None:
    guess = course.guess("28")
    field, _ = guess_form("28", guess.values, guess.make).children[1].children
    assert tuple(field.options) == ("", "no", "yes")
    field.value = "yes"
    assert guess.values["light"] == "yes"


def test_a_notebook_shows_the_form_and_saved_pages_words(monkeypatch: pytest.MonkeyPatch) -> None:
    guess = course.guess("01")
    monkeypatch.setenv("GNNQLAB_STATIC", "0")
    live, _ = guess._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in live
    monkeypatch.setenv("GNNQLAB_STATIC", "1")
    still, _ = guess._repr_mimebundle_()
    assert set(still) == {"text/plain", "text/html"} and "<li>Test accuracy lost: ? points</li>" in still["text/html"]


def test_thirty_seven_quantities_and_more_can_be_guessed() -> None:
    assert sum(map(len, QUANTITIES.values())) >= 37 and list(QUANTITIES) == [f"{number:02}" for number in range(1, 30)]


def test_a_guess_below_zero_is_for_differences_only() -> None:
    guess = course.guess("01", points=-0.5)
    assert guess.values["points"] == -0.5
    with pytest.raises(ValueError, match="fewer_bytes must be at least 0 times fewer, got -3; guess the size alone"):
        guess.make(fewer_bytes=-3)
    with pytest.raises(ValueError, match="must be at least 0 %, got -1"):
        course.guess("02", metis="-1")
    assert guess.values["fewer_bytes"] is None and "fewer_bytes" not in progress.read()["guesses"]["01"]
