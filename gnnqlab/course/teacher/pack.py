"""Instructor pack: solutions, wrong answers to expect, and the scripts of a Gradescope autograder."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from gnnqlab.atomic import write_text
from gnnqlab.cli.notebooks import SOLUTION
from gnnqlab.course.exercises import EXERCISES
from gnnqlab.course.numeric.exercise import Exercise
from gnnqlab.course.numeric.mistakes import BIT_WIDTHS, is_close, mistake_in
from gnnqlab.course.student.code import CODE

__all__ = ["expected_mistakes", "solutions", "write_pack"]

_FACTORS = (8.0, 1 / 8, 1000.0, 1e-3, 100.0, 0.01, 2.0, 0.5)
_SETUP = """#!/usr/bin/env bash
# Gradescope runs this once, when the image of the autograder is built. Put the wheel of `make wheel` next to it.
apt-get update && apt-get install -y python3.11 python3.11-venv
python3.11 -m venv /autograder/venv
/autograder/venv/bin/pip install /autograder/source/gnnqlab-*.whl
"""
_RUN = """#!/usr/bin/env bash
# Gradescope runs this for each submission: one .json file of course.hand_in.
GNNQLAB="${GNNQLAB:-/autograder/venv/bin/gnnqlab}"
AUTOGRADER="${AUTOGRADER:-/autograder}"
"$GNNQLAB" course grade "$AUTOGRADER/submission" --run-code \\
  --gradescope "$AUTOGRADER/results/results.json"
"""


def write_pack(folder: Path, notebooks: Path) -> list[Path]:
    """Write the pack to a folder.

    Args:
        folder: destination, created if it does not exist; earlier files of the pack are replaced.
        notebooks: folder of the notebooks, which have the solutions of graded code.

    Returns:
        The files.
    """
    files = {
        "solutions.md": solutions(notebooks),
        "wrong_answers.csv": _wrong_answers(),
        "gradescope/setup.sh": _SETUP,
        "gradescope/run_autograder": _RUN,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
        if name.startswith("gradescope/"):
            path.chmod(0o755)
    return [folder / name for name in files]


def solutions(notebooks: Path) -> str:
    """Return the solutions of all exercises as Markdown, with the numbers of the notebooks."""
    lines = ["# Solutions", "", "With the numbers of the notebooks; `course.start(name)` gives a student others."]
    for number in sorted({name[:2] for name in EXERCISES}):
        lines += ["", f"## Notebook {number}", ""]
        for name, exercise in EXERCISES.items():
            if name.startswith(f"{number}."):
                numbers = exercise.numbers_of("")
                varied = " Numbers vary by student." if exercise.varies else ""
                lines.append(f"* `{name}`: {exercise.solution(numbers)}. {exercise.second_hint(numbers)}{varied}")
        for name in (name for name in CODE if name.startswith(f"{number}.")):
            lines.append(f"* `{name}`: graded by running it with `{CODE[name]}`.")
        lines += ["", *_folded_solutions(notebooks, number)]
    return "\n".join(lines).rstrip() + "\n"


def expected_mistakes(exercise: Exercise) -> Iterator[tuple[float, str, str]]:
    """Yield wrong answers to expect with their kind and first hint, each kind and value once.

    Example:
        >>> mistakes = list(expected_mistakes(EXERCISES["01.payload"]))
        >>> [(answer, kind) for answer, kind, _ in mistakes][:3]
        [(32.0, 'width'), (128.0, 'width'), (256.0, 'width')]
    """
    numbers = exercise.numbers_of("")
    right = exercise.evaluate(numbers)
    seen: list[float] = []
    for answer in _candidates(exercise, numbers, right):
        if is_close(answer, right) or any(is_close(answer, each) for each in seen):
            continue
        mistake = mistake_in(answer, exercise, numbers)
        if mistake.kind not in ("other", "digits"):
            seen.append(answer)
            yield answer, mistake.kind, mistake.hint


def _candidates(exercise: Exercise, numbers: Mapping[str, float], right: float) -> Iterator[float]:
    for name in ("bits", "narrow", "wide"):
        for width in BIT_WIDTHS if name in numbers else ():
            if width != numbers[name]:
                try:
                    yield exercise.evaluate({**numbers, name: width})
                except ZeroDivisionError:
                    continue
    if right.is_integer() and abs(right) < 100:
        yield from (right - 1, right + 1)
    if right > 0:
        yield from (1 / right, right**2, right**0.5)
    whole = {"percent": 100.0, "share": 1.0}.get(exercise.unit)
    if whole is not None:
        yield whole - right
    yield from (right * factor for factor in _FACTORS)


def _wrong_answers() -> str:
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(("exercise", "wrong answer", "kind", "first hint", "second hint"))
    for name, exercise in EXERCISES.items():
        second = exercise.second_hint(exercise.numbers_of(""))
        writer.writerows(
            (name, f"{answer:.6g}", kind, hint, second) for answer, kind, hint in expected_mistakes(exercise)
        )
    return table.getvalue()


def _folded_solutions(notebooks: Path, number: str) -> list[str]:
    """Return the solutions that a notebook folds under its exercises."""
    found: list[str] = []
    for path in sorted(notebooks.glob(f"{number}_*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                found += [text.strip() for text in SOLUTION.findall("".join(cell["source"]))]
    return found
