"""Kinds of mistakes: a hundred planted wrong answers get the hint of their kind."""

from __future__ import annotations

import itertools

import pytest

from gnnqlab.course.exercises import EXERCISES
from gnnqlab.course.numeric.mistakes import is_close, mistake_in
from tests.cases import each

PLANTED: dict[str, list[tuple[str, float]]] = {
    "unit": [
        ("01.payload", 512), ("01.payload", 8), ("02.bytes", 4_096_000), ("02.bytes", 512), ("03.bytes", 340),
        ("03.bytes", 2_720_000), ("04.bytes", 264), ("04.chance", 60), ("08.assign", 0.0741), ("11.stale", 80),
        ("13.moved", 25), ("16.reuse", 0.267), ("18.ring", 0.0063), ("18.turns", 0.1), ("21.bytes", 44_960_000),
        ("24.bytes", 8768), ("24.time", 0.0365), ("25.normal", 57), ("27.bytes", 201_152), ("28.start", 0.401),
        ("14.busiest", 0.4), ("24.warps", 0.625),
    ],
    "width": [
        ("01.payload", 1024), ("01.payload", 256), ("01.payload", 128), ("01.ratio", 7.53), ("01.ratio", 3.88),
        ("04.step", 0.4), ("04.step", 6), ("04.bytes", 58), ("04.bytes", 408), ("05.bits", 225), ("05.bits", 7225),
        ("06.ratio", 7225), ("11.both", 40), ("14.bits", 400), ("15.bytes", 7.76), ("19.codes", 9), ("21.bits", 44.96),
        ("23.bytes", 20), ("24.bytes", 1160), ("25.bytes", 156),
    ],
    "off by one": [
        ("01.rows", 8), ("02.halo", 15), ("04.step", 1.5), ("05.bits", 16), ("06.ratio", 256), ("09.messages", 16),
        ("12.held", 11), ("12.rows", 6), ("17.broadcast", 80_000), ("17.even", 8), ("18.ring", 6.4), ("19.codes", 4),
        ("20.variance", 4), ("22.groups", 2), ("21.workers", 3), ("28.age", 19),
    ],
    "digits": [
        ("01.ratio", 14), ("08.assign", 7), ("08.interval", 2.4), ("09.growth", 2.1), ("14.factor", 1.4),
        ("16.reuse", 26), ("16.whole", 1.5), ("19.bytes", 1.7), ("22.link", 0.9), ("23.silence", 0.6), ("24.time", 36),
    ],
    "sign": [("04.variance", -0.96), ("10.importance", -0.75), ("05.terms", -66)],
    "inverse": [
        ("01.ratio", 0.0703), ("07.bound", 0.25), ("08.speed", 0.4), ("09.bytes", 0.25), ("22.link", 1.135),
        ("15.bytes", 0.254), ("02.alpha", 5.477), ("19.product", 0.167),
    ],
    "power": [("05.bits", 5), ("06.ratio", 17), ("04.variance", 0.98), ("05.bits", 625)],
    "rest": [
        ("04.chance", 0.4), ("11.stale", 0.2), ("08.assign", 92.6), ("23.silence", 0.41), ("24.warps", 37.5),
        ("28.start", 59.9), ("26.share", 80), ("25.middle", 0.0606),
    ],
    "factor": [
        ("02.bytes", 128_000), ("06.time", 18), ("11.speed", 2.5), ("14.busiest", 200), ("18.amdahl", 60),
        ("27.bytes", 402.3), ("21.workers", 12), ("06.beta", 0.2),
    ],
}  # fmt: skip
"""Kind -> exercise and wrong answer, with the numbers of the notebooks."""


def test_planted_wrong_answers_get_the_hint_of_their_kind(capsys: pytest.CaptureFixture[str]) -> None:
    planted = [(kind, name, answer) for kind, cases in PLANTED.items() for name, answer in cases]
    assert len(planted) == 100
    missed = []
    for kind, name, answer in planted:
        exercise = EXERCISES[name]
        numbers = exercise.numbers_of("")
        assert not is_close(answer, exercise.evaluate(numbers)), f"{answer} is right for {name}"
        if (found := mistake_in(answer, exercise, numbers).kind) != kind:
            missed.append(f"{name}: {answer} is {kind}, found {found}")
    with capsys.disabled():
        print(f"\n{len(planted) - len(missed)} of {len(planted)} wrong answers get the hint of their kind")
    assert len(missed) <= 10, "\n".join(missed)


def test_right_answers_of_other_kinds_are_not_taken_for_rounded_ones() -> None:
    ratio = EXERCISES["06.ratio"]
    numbers = ratio.numbers_of("")
    assert mistake_in(300, ratio, numbers).kind == "other", "a whole number has no further digits"
    assert mistake_in(280, ratio, numbers).hint.startswith("It is too small.")


@each("name", sorted(EXERCISES))
def test_every_set_of_numbers_has_a_finite_answer_a_text_and_a_solution(name: str) -> None:
    exercise = EXERCISES[name]
    for values in itertools.product(*exercise.choices.values()):
        numbers = dict(zip(exercise.choices, values))
        answer = exercise.evaluate(numbers)
        assert 0 < abs(answer) < 1e9
        assert "{" not in exercise.text(numbers) + exercise.second_hint(numbers)
        assert exercise.solution(numbers).endswith(f"= {answer:.6g}")
        if exercise.question:
            varied = [name for name, choice in exercise.choices.items() if len(choice) > 1 and name != "graph"]
            assert all(f"{{{number}}}" in exercise.question for number in varied), "the text must name what varies"


def test_a_student_gets_the_same_other_numbers_on_every_machine() -> None:
    exercise = EXERCISES["01.payload"]
    assert exercise.numbers_of("Ada", "01.payload") == {"columns": 320, "bits": 2}
    varying = {name: each for name, each in EXERCISES.items() if each.varies}
    assert len(varying) > 70
    for name, each_one in varying.items():
        assert each_one.numbers_of("Ada", name) != each_one.numbers_of("", name)
    sets = {tuple(EXERCISES["04.bytes"].numbers_of(f"student {k}", "04.bytes").values()) for k in range(40)}
    assert len(sets) == 5, "every set but the notebook's"


def test_printing_an_exercise_does_not_show_its_answer() -> None:
    text = repr(EXERCISES) + str(vars(EXERCISES["01.ratio"]).keys())
    assert "14.2" not in text and "columns / (columns" not in text and "1024" not in text
