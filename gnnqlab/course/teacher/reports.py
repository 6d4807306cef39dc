"""Files of a graded class: a table as CSV and HTML, and the results that Gradescope reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnnqlab.atomic import write_text
from gnnqlab.course.student.course_map import choose_exercises
from gnnqlab.course.teacher.grading import Grade, grade_folder, grade_table, guess_table, mistake_table

__all__ = ["grade_class", "gradescope_results"]

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Grades</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.4 sans-serif; margin: 1.5em; }}
div {{ overflow-x: auto; }}
table {{ border-collapse: collapse; margin-bottom: 2em; }}
caption {{ text-align: left; font-weight: bold; margin-bottom: .4em; }}
td, th {{ border-bottom: 1px solid #8886; padding: .2em .6em; text-align: left; white-space: nowrap; }}
</style></head><body><h1>Grades of {count} students</h1>{tables}</body></html>
"""


def grade_class(
    folder: Path,
    out: Path | None = None,
    *,
    gradescope: Path | None = None,
    run_code: bool = False,
    only: str | Sequence[str] | None = None,
) -> dict[str, Any]:
    """Grade a folder; write ``grades.csv`` and ``grades.html``, or the results of one submission for Gradescope.

    Args:
        folder: files of `hand_in`.
        out: folder of the tables; ``folder`` by default.
        gradescope: path of Gradescope's ``results.json``; then no tables are written.
        run_code: run graded code once more, with all rights of this process.
        only: exercises and notebooks that count, for instance ``"01,06.time"``; all by default.

    Returns:
        ``students``, ``files`` written, ``unreadable`` files, and the ``grades`` as a list of records.

    Raises:
        ValueError: if there is nothing to grade, or more than one submission for Gradescope.
    """
    exercises = None if only is None else choose_exercises(only)
    grades = grade_folder(folder, run_code=run_code)
    table = grade_table(grades, exercises)
    if gradescope is not None:
        if len(grades) != 1:
            raise ValueError(f"Gradescope grades one submission, got {len(grades)} .json files in {folder}")
        files = {gradescope: json.dumps(gradescope_results(grades[0], exercises), indent=1, ensure_ascii=False) + "\n"}
    else:
        out = out or folder
        files = {out / "grades.csv": table.to_csv(), out / "grades.html": _page(grades, exercises)}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return {
        "students": len(grades),
        "files": [str(path) for path in files],
        "unreadable": [grade.file for grade in grades if grade.error],
        "grades": table.reset_index().to_dict(orient="records"),
    }


def gradescope_results(grade: Grade, exercises: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the results of one submission as Gradescope's ``results.json`` has them: one test per exercise.

    Args:
        grade: of the submission.
        exercises: those that count; all by default.
    """
    if grade.error:
        return {"score": 0.0, "output": grade.error, "tests": []}
    answers = grade.content["answers"]
    tests = [
        {
            "name": name,
            "score": float(name in grade.right),
            "max_score": 1.0,
            "output": _output(name in grade.right, len(answers.get(name, {}).get("wrong", ()))),
        }
        for name in (choose_exercises(None) if exercises is None else exercises)
    ]
    note = "" if grade.is_intact else "The file was changed after course.hand_in. "
    return {"output": f"{note}Student: {grade.student or 'no name'}.", "tests": tests}


def _output(is_right: bool, wrong_tries: int) -> str:
    return f"{'right' if is_right else 'no right answer'}, {wrong_tries} wrong tries"


def _page(grades: Sequence[Grade], exercises: Sequence[str] | None) -> str:
    from gnnqlab.lab.figures.bundle import table_html

    tables = {
        "Right answers, in all and by notebook": grade_table(grades, exercises),
        "Wrong answers of the class, the most frequent first": mistake_table(grades, exercises),
        "Guesses of the class and measurements": guess_table(grades, exercises),
    }
    shown = [f"<div>{table_html(table, caption=caption)}</div>" for caption, table in tables.items() if not table.empty]
    return _PAGE.format(count=len(grades), tables="".join(shown))
