"""Check answers: right, or a hint for the kind of mistake, a second hint, and then the solution."""

from __future__ import annotations

import html
import math
from typing import Any, SupportsFloat

from gnnqlab.by_name import did_you_mean
from gnnqlab.course.numeric.exercise import Exercise
from gnnqlab.course.numeric.mistakes import Mistake, is_close, mistake_in
from gnnqlab.course.numeric.on_messages import ON_MESSAGES
from gnnqlab.course.numeric.on_systems import ON_SYSTEMS
from gnnqlab.course.shown import Page, show
from gnnqlab.course.student import progress

__all__ = ["EXERCISES", "check", "is_right", "show_solution"]

EXERCISES: dict[str, Exercise] = {**ON_MESSAGES, **ON_SYSTEMS}
"""``notebook.name`` -> exercise."""
_HINTS = 2
"""Wrong answers before the solution."""


def check(name: str, answer: Any) -> None:
    """Check the answer to an exercise, to one percent, and print the result.

    A first wrong answer gets a hint for the kind of mistake, a second one the hint of the exercise, a third one the
    solution, folded. Answers are kept for `hand_in`. After `course.start` the numbers are the student's.

    Args:
        name: key of `EXERCISES`.
        answer: a number, a text with a number, or ``None`` for none yet.

    Raises:
        ValueError: if there is no such exercise.

    Example:
        >>> import os, tempfile
        >>> os.environ["GNNQLAB_RUNS"] = tempfile.mkdtemp()
        >>> check("01.payload", None)
        Put your answer in place of None and run the cell again.
        >>> check("01.payload", 512)
        Not yet, 512 is not it. Look at the unit: the number is off by a factor of 8. Bits or bytes?
        >>> check("01.payload", 500)
        Not yet, 500 is not it. Eight bits are a byte.
        >>> check("01.ratio", "14")
        Almost, 14 is not exact enough. Right so far: write one more digit.
        >>> check("01.payload", 64)
        Right: 64.
        >>> check("01.payload", "64 bytes")
        Not yet, '64 bytes' is no number. Write it without units.
        >>> del os.environ["GNNQLAB_RUNS"]
    """
    exercise, student = _named(name), progress.student()
    numbers = exercise.numbers_of(student, name)
    own_text = f"Your exercise: {exercise.text(numbers)}\n" if student and exercise.varies else ""
    # None is the placeholder in the notebook: no answer yet, not a wrong one.
    if answer is None:
        print(f"{own_text}Put your answer in place of None and run the cell again.")
        return
    value, digits = _number(answer)
    if value is None:
        print(f"Not yet, {answer!r} is no number. Write it without units.")
        return
    right = exercise.evaluate(numbers)
    if is_close(value, right):
        _record(name, value, True, "")
        print(f"Right: {right:.6g}.")
        return
    mistake = mistake_in(value, exercise, numbers, digits)
    if mistake.kind == "digits":
        print(f"Almost, {value:g} is not exact enough. {mistake.hint}")
        return
    wrong_answers = _record(name, value, False, mistake.kind)
    print(f"{own_text}Not yet, {value:g} is not it. {_hint(mistake, exercise, numbers, wrong_answers)}")
    if wrong_answers > _HINTS:
        _show_folded(name, exercise, numbers)


def is_right(name: str, answer: Any) -> bool:
    """Return True if an answer is right, for graded cells; nothing is printed or kept.

    Args:
        name: key of `EXERCISES`.
        answer: as for `check`.

    Raises:
        ValueError: if there is no such exercise.

    Example:
        >>> is_right("01.payload", 64), is_right("01.payload", None)
        (True, False)
    """
    exercise = _named(name)
    value, _ = _number(answer)
    return value is not None and is_close(value, exercise.evaluate(exercise.numbers_of(progress.student(), name)))


def show_solution(name: str) -> None:
    """Print the solution of an exercise, after three wrong answers or a right one.

    Raises:
        ValueError: if there is no such exercise.

    Example:
        >>> import os, tempfile
        >>> os.environ["GNNQLAB_RUNS"] = tempfile.mkdtemp()
        >>> show_solution("01.payload")
        Try it first: the solution of 01.payload is shown after a right answer or 3 wrong ones; you have 0.
        >>> check("01.payload", 64)
        Right: 64.
        >>> show_solution("01.payload")
        256 · 2 / 8 = 64. Eight bits are a byte.
        >>> del os.environ["GNNQLAB_RUNS"]
    """
    exercise, state = _named(name), progress.read()
    kept = state["answers"].get(name, {"right": False, "wrong": []})
    if not kept["right"] and len(kept["wrong"]) <= _HINTS:
        print(
            f"Try it first: the solution of {name} is shown after a right answer or {_HINTS + 1} wrong ones; you have "
            f"{len(kept['wrong'])}."
        )
        return
    numbers = exercise.numbers_of(state["student"], name)
    print(f"{exercise.solution(numbers)}. {exercise.second_hint(numbers)}")


def _named(name: str) -> Exercise:
    if name not in EXERCISES:
        notebook = [each for each in sorted(EXERCISES) if each[:3] == str(name)[:3]]
        which = f"one of {', '.join(notebook)}" if notebook else "named as in its notebook, for instance 01.payload"
        raise ValueError(f"an exercise must be {which}, got {name!r}{did_you_mean(name, EXERCISES)}")
    return EXERCISES[name]


def _number(answer: Any) -> tuple[float | None, int | None]:
    """Return the value of an answer and the digits typed after its point; ``None`` if it is no number."""
    digits = None
    if isinstance(answer, str):
        answer = answer.strip().replace(",", ".").replace("−", "-")
        digits = len(answer.partition(".")[2])
    elif not isinstance(answer, SupportsFloat):
        return None, None
    try:
        value = float(answer)
    except (TypeError, ValueError):
        return None, None
    return (value, digits) if math.isfinite(value) else (None, None)


def _hint(mistake: Mistake, exercise: Exercise, numbers: dict[str, float], wrong_answers: int) -> str:
    return mistake.hint if wrong_answers == 1 else exercise.second_hint(numbers)


def _record(name: str, value: float, right: bool, kind: str) -> int:
    """Keep an answer; return the number of different wrong ones so far."""
    count = 1
    with progress.changed() as state:
        kept = state["answers"].setdefault(name, {"right": False, "wrong": [], "first": progress.now()})
        # The same wrong answer again, for instance by "Run all", is no further try.
        if not right and all(each["answer"] != value for each in kept["wrong"]):
            kept["wrong"].append({"answer": value, "kind": kind, "at": progress.now()})
        if right and not kept["right"]:
            kept |= {"right": True, "answer": value, "at": progress.now()}
        count = len(kept["wrong"])
    return count


def _show_folded(name: str, exercise: Exercise, numbers: dict[str, float]) -> None:
    """Show the solution folded in a notebook; elsewhere print the call that shows it."""
    text = html.escape(f"{exercise.solution(numbers)}. {exercise.second_hint(numbers)}")
    show(
        Page(
            f"The solution: course.show_solution({name!r})",
            f"<details><summary>The solution</summary>{text}</details>",
        )
    )
