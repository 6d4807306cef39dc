"""Grades of files that were handed in: every answer is checked again with the student's own numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.course.exercises import EXERCISES
from gnnqlab.course.numeric.mistakes import is_close
from gnnqlab.course.student.code import CODE
from gnnqlab.course.student.course_map import choose_exercises, exercises_of
from gnnqlab.course.student.handed_in import checksum, read_handed_in
from gnnqlab.course.student.quantities import QUANTITIES
from gnnqlab.course.teacher.rerun import rerun

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Grade", "grade_file", "grade_folder", "grade_table", "guess_table", "mistake_table"]


@dataclass(frozen=True)
class Grade:
    """Grade of one student."""

    file: str
    student: str = ""
    right: frozenset[str] = frozenset()
    """Exercises with a right answer, or with code that passed."""
    is_intact: bool = False
    """True if the checksum is that of the content."""
    handed_in: str = ""
    """Time in UTC."""
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)
    error: str = ""
    """Reason if the file could not be read."""

    def points(self, notebook: str, chosen: Collection[str] | None = None) -> str:
        """Return the right answers of a notebook among the chosen exercises, all by default, as ``2 of 3``."""
        names = [name for name in exercises_of(notebook) if chosen is None or name in chosen]
        return f"{len(self.right.intersection(names))} of {len(names)}"


def grade_file(path: Path, *, run_code: bool = False) -> Grade:
    """Return the grade of one file; a file that cannot be read has an error.

    Args:
        path: the file.
        run_code: run graded code once more; else it counts as it was graded on the student's machine.
    """
    try:
        content = read_handed_in(path)
        right = {name for name, each in content["answers"].items() if _is_right(content["student"], name, each)}
        right |= {name for name, each in content["code"].items() if _has_passed(name, each, run_code)}
    except (ValueError, OSError, KeyError, TypeError, AttributeError) as error:
        return Grade(path.name, error=f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error))
    return Grade(
        path.name, content["student"], frozenset(right), content.get("checksum") == checksum(content),
        content["handed_in"], content,
    )  # fmt: skip


def grade_folder(folder: Path, *, run_code: bool = False) -> list[Grade]:
    """Return the grades of all ``.json`` files in a folder and below, sorted by student.

    Args:
        folder: the folder.
        run_code: run graded code once more.

    Raises:
        ValueError: if there is no folder, or there are none in it.
    """
    if folder.is_file():
        raise ValueError(f"grade takes a folder of files that were handed in, got the file {folder}; name its folder")
    if not folder.is_dir():
        raise ValueError(f"the folder to grade must exist, got {folder}")
    files = sorted(folder.rglob("*.json"))
    if not files:
        raise ValueError(f"the folder to grade must have .json files of course.hand_in, got none in {folder}")
    grades = [grade_file(file, run_code=run_code) for file in files]
    return sorted(grades, key=lambda grade: (grade.student, grade.file))


def grade_table(grades: Iterable[Grade], exercises: Collection[str] | None = None) -> DataFrame:
    """Return one row per file: right answers, in all, by notebook and by name, wrong tries, guesses made in time.

    Args:
        grades: of the files.
        exercises: those that count; all by default.
    """
    import pandas as pd

    grades = list(grades)
    chosen = choose_exercises(None) if exercises is None else exercises
    total, notebooks = len(chosen), {name[:2] for name in chosen}
    files = Counter(grade.student for grade in grades if grade.student)
    rows = [
        {
            "student": grade.student or "(no name)",
            "file": grade.file,
            "right": f"{len(grade.right.intersection(chosen))} of {total}",
            "percent": round(100 * len(grade.right.intersection(chosen)) / total, 1),
            "wrong tries": sum(
                len(each["wrong"]) for name, each in grade.content.get("answers", {}).items() if name in chosen
            ),
            "guesses first": _guesses_in_time(_of_notebooks(grade, notebooks)),
            "handed in": grade.handed_in,
            "file is": _state(grade, files[grade.student]),
            **{each: grade.points(each, chosen) for each in QUANTITIES if exercises is None or each in notebooks},
            "right exercises": " ".join(sorted(grade.right.intersection(chosen))),
        }
        for grade in grades
    ]
    return pd.DataFrame(rows).set_index("student")


def mistake_table(grades: Iterable[Grade], exercises: Collection[str] | None = None) -> DataFrame:
    """Return the mistakes of a class, the most frequent first: exercise, kind, number of students, their answers.

    Args:
        grades: of the class.
        exercises: those that count; all by default.
    """
    import pandas as pd

    # Numbers differ by student, so answers of one kind are one mistake.
    answers: dict[tuple[str, str], dict[str, list[float]]] = {}
    for grade in grades:
        for name, kept in grade.content.get("answers", {}).items():
            if exercises is not None and name not in exercises:
                continue
            for each in kept["wrong"]:
                students = answers.setdefault((name, each["kind"]), {})
                students.setdefault(grade.file, []).append(each["answer"])
    rows = [
        (name, kind, len(students), _listed(sorted({answer for given in students.values() for answer in given})))
        for (name, kind), students in sorted(answers.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    ]
    return pd.DataFrame(rows, columns=["exercise", "kind", "students", "answers"]).set_index("exercise")


def guess_table(grades: Iterable[Grade], exercises: Collection[str] | None = None) -> DataFrame:
    """Return the guesses of a class: quantity, all guesses from small to large, and the measurements.

    Args:
        grades: of the class.
        exercises: those that count, whose notebooks are shown; all by default.
    """
    import pandas as pd

    grades = list(grades)
    rows = []
    for notebook, quantities in QUANTITIES.items():
        if exercises is not None and all(name[:2] != notebook for name in exercises):
            continue
        for name, quantity in quantities.items():
            kept = [grade.content.get("guesses", {}).get(notebook, {}).get(name, {}) for grade in grades]
            guesses = [each["guess"] for each in kept if each.get("guess") is not None]
            if guesses:
                measured = [each["measured"] for each in kept if each.get("measured") is not None]
                rows.append((notebook, quantity.label, quantity.unit, _listed(guesses), _listed(measured)))
    return pd.DataFrame(rows, columns=["notebook", "quantity", "unit", "guesses", "measured"]).set_index("notebook")


def _is_right(student: str, name: str, kept: Mapping[str, Any]) -> bool:
    if name not in EXERCISES or kept["right"] is not True:
        return False
    exercise = EXERCISES[name]
    return is_close(float(kept["answer"]), exercise.evaluate(exercise.numbers_of(student, name)))


def _has_passed(name: str, kept: Mapping[str, Any], run_code: bool) -> bool:
    if name not in CODE or kept["passed"] is not True:
        return False
    return not run_code or rerun(name, kept["source"])[0]


def _state(grade: Grade, files: int) -> str:
    """Return the state of a file in words, and the number of files of the same student if there are several."""
    state = grade.error or ("intact" if grade.is_intact else "changed after hand_in")
    return f"{state}; one of {files} files of this name" if files > 1 else state


def _of_notebooks(grade: Grade, notebooks: Collection[str]) -> dict[str, Any]:
    return {name: each for name, each in grade.content.get("guesses", {}).items() if name in notebooks}


def _guesses_in_time(guesses: Mapping[str, Any]) -> int:
    """Return the number of guesses that were made before their measurement was shown."""
    return sum(
        each.get("guess") is not None and not each.get("is_late", False)
        for names in guesses.values()
        for each in names.values()
    )


def _listed(values: list[Any]) -> str:
    numbers = sorted(value for value in values if not isinstance(value, str))
    return ", ".join(
        [*(f"{value:.3g}" for value in numbers), *sorted(value for value in values if isinstance(value, str))]
    )
