"""File that a student hands in: answers, guesses, code of graded functions, times, versions, and a checksum."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gnnqlab.atomic import write_text
from gnnqlab.course.exercises import EXERCISES
from gnnqlab.course.student import progress
from gnnqlab.course.student.code import CODE
from gnnqlab.course.student.course_map import right_answers

__all__ = ["FORMAT", "checksum", "hand_in", "read_handed_in"]

FORMAT = "gnnqlab hand-in 1"
_FIELDS = {"student": str, "started": str, "handed_in": str, "answers": dict, "guesses": dict, "code": dict}
_PACKAGES = ("gnnqlab", "torch", "numpy")


def hand_in(file: str | Path) -> Path:
    """Write all answers, guesses and graded code so far to one file.

    The checksum finds damage and careless edits; it is no signature, since anybody can compute it.

    Args:
        file: path of the new file; an existing hand-in is replaced.

    Returns:
        The path.

    Raises:
        ValueError: if the name does not end in ``.json``, or another file has it.

    Example:
        >>> import os, tempfile
        >>> os.environ["GNNQLAB_RUNS"] = folder = tempfile.mkdtemp()
        >>> path = hand_in(os.path.join(folder, "ada.json"))
        No name: run course.start("your name") first if your teacher needs one.
        0 of 90 exercises are right; no graded code, 0 guesses: ...ada.json
        >>> del os.environ["GNNQLAB_RUNS"]
    """
    path = Path(file)
    if path.suffix != ".json":
        raise ValueError(f"the file to hand in must end in .json, got {path.name!r}")
    if path.exists():
        read_handed_in(path)  # an error for any other file, which is not replaced
    state = progress.read()
    content: dict[str, Any] = {
        "format": FORMAT,
        "student": state["student"],
        "started": state["started"],
        "handed_in": progress.now(),
        "answers": state["answers"],
        "guesses": state["guesses"],
        "code": state["code"],
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
        "machine": f"{platform.system()} {platform.machine()}",
    }
    content["checksum"] = checksum(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    if not content["student"]:
        print('No name: run course.start("your name") first if your teacher needs one.')
    passed = [name for name, each in state["code"].items() if each["passed"]]
    guesses = sum(each["guess"] is not None for names in state["guesses"].values() for each in names.values())
    print(
        f"{len(right_answers(state))} of {len(EXERCISES) + len(CODE)} exercises are right; "
        f"{', '.join(passed) or 'no graded code'}, {guesses} guesses: {path}"
    )
    return path


def read_handed_in(path: Path) -> dict[str, Any]:
    """Return the content of a file that was handed in.

    Raises:
        ValueError: if it is another file.
        OSError: if it cannot be read.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError(
            f"{path} must be JSON, got a file that is cut off or damaged; write another with course.hand_in"
        ) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} must be a file of course.hand_in (format {FORMAT!r}), got another one")
    wrong = [name for name, kind in _FIELDS.items() if not isinstance(content.get(name), kind)]
    if wrong:
        raise ValueError(f"{path} must have {', '.join(wrong)}, got a file without; ask for a new one")
    return content


def checksum(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a hand-in without its checksum.

    Example:
        >>> checksum({"student": "Ada", "checksum": "old"}) == checksum({"student": "Ada"})
        True
    """
    rest = {name: value for name, value in content.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
