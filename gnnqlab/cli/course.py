"""``gnnqlab course``: grade files that students handed in, and write the instructor pack."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnnqlab.attached import attached
from gnnqlab.by_name import did_you_mean
from gnnqlab.cli.notebooks import course_folder

__all__ = ["Course"]

_ACTIONS = ("grade", "pack")


@dataclass(kw_only=True)
class Course:
    """Grade files of course.hand_in (grade), or write solutions, wrong answers and autograder scripts (pack)."""

    action: str
    """grade or pack."""
    folder: Path
    """grade: folder with the files that were handed in. pack: destination."""
    out: Path | None = None
    """grade: folder for grades.csv and grades.html; default: the folder itself."""
    gradescope: Path | None = None
    """grade: results.json of a Gradescope autograder, written instead of the tables."""
    run_code: bool = False
    """grade: run handed-in code once more, with your rights; use a container, or read it first."""
    only: str | None = None
    """grade: exercises and notebooks that count, separated by commas, for instance 01,06.time; default: all."""
    json: bool = False
    """End standard output with one JSON object."""

    def run(self) -> dict[str, Any]:
        if self.action not in _ACTIONS:
            raise ValueError(
                f"action must be one of {', '.join(_ACTIONS)}, got {self.action!r}{did_you_mean(self.action, _ACTIONS)}"
            )
        if self.action == "pack":
            if any((self.out, self.gradescope, self.run_code, self.only)):
                raise ValueError(
                    "--out, --gradescope, --run-code and --only belong to grade, got one with pack; leave it out"
                )
            files = attached("course.pack")(self.folder, course_folder())
            result: dict[str, Any] = {"files": [str(file) for file in files]}
        else:
            result = attached("course.grade")(
                self.folder, self.out, gradescope=self.gradescope, run_code=self.run_code, only=self.only
            )
        if not self.json:
            self._print(result)
        return result

    def _print(self, result: dict[str, Any]) -> None:
        for grade in result.get("grades", ()):
            print(f"{grade['student']} ({grade['file']}): {grade['right']}, file {grade['file is']}")
        print("\n".join(result["files"]))
        if unreadable := result.get("unreadable"):
            print(f"gnnqlab: {len(unreadable)} file(s) could not be read: {', '.join(unreadable)}", file=sys.stderr)
