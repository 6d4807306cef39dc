"""Answers, guesses and graded code of one student, kept in one file in the folder of runs.

Notebooks are kernels of their own; the file is what they share, and what the student hands in.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gnnqlab.atomic import locked, write_text
from gnnqlab.run.folder import default_root

__all__ = ["FORMAT", "changed", "now", "path", "read", "start", "student"]

FORMAT = 1
"""Version of the file."""
_NAME = "course.json"


def path() -> Path:
    """Return the file: ``course.json`` in the folder of runs."""
    return default_root() / _NAME


def read() -> dict[str, Any]:
    """Return the state of the file; that of a new student if there is none.

    Raises:
        ValueError: if the file is not one of this version.

    Returns:
        ``student``, ``answers`` by exercise, ``guesses`` by notebook and quantity, ``code`` by exercise.
    """
    try:
        state: dict[str, Any] = json.loads(path().read_text(encoding="utf-8"))
    except OSError:  # none yet, or a folder that cannot be read
        return {"format": FORMAT, "student": "", "started": now(), "answers": {}, "guesses": {}, "code": {}}
    except json.JSONDecodeError:
        state = {}
    if state.get("format") != FORMAT:
        raise ValueError(f"{path()} must be progress of format {FORMAT}, got another text; move the file away")
    return state


@contextlib.contextmanager
def changed() -> Iterator[dict[str, Any]]:
    """Yield the state to change in the block; it is written at the end, by one process at a time.

    A disk that cannot be written is a warning: answers are checked all the same.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(path().with_suffix(".lock")))
            state = read()
            write_state = True
        except OSError as error:
            _warn(error)
            state, write_state = read(), False
        yield state
        if write_state:
            try:
                write_text(path(), json.dumps(state, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
            except OSError as error:
                _warn(error)


def _warn(error: OSError) -> None:
    message = f"answers and guesses are not kept: {error}; set GNNQLAB_RUNS to another folder"
    warnings.warn(message, stacklevel=5)


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def student() -> str:
    """Return the name that `start` got; empty if there was none."""
    return str(read()["student"])


def start(name: str | int) -> None:
    """Start the course as a student whose exercises have other numbers.

    The numbers are a function of the name and the exercise, so a name gives the same ones on every machine. Answers
    under another name are put aside, and are back with that name; guesses and graded code have no numbers of a student
    and stay.

    Args:
        name: any name or number.

    Raises:
        ValueError: if the name is empty, has more than 80 characters or a line break.

    Example:
        >>> import os, tempfile
        >>> os.environ["GNNQLAB_RUNS"] = tempfile.mkdtemp()
        >>> start("Ada")
        Exercises have the numbers of 'Ada'; check(...) prints each text with them, and course.my_graph() is
        the graph of ten nodes.
        >>> student()
        'Ada'
        >>> del os.environ["GNNQLAB_RUNS"]
    """
    text = "" if name is None else str(name).strip()
    if not text:
        raise ValueError(
            f"a student's name must not be empty, got {name!r}; without course.start exercises have the numbers of the "
            f"notebooks, to which you return when you move {path()} away"
        )
    if len(text) > 80 or not text.isprintable():
        raise ValueError(f"a student's name must be one line of at most 80 characters, got {text[:90]!r}")
    with changed() as state:
        other, made = state["student"], [*state["guesses"], *state["code"]]
        is_other = other != text and (made or state["answers"])
        if other != text:  # answers to other numbers would be wrong; a mistyped name loses none
            others = state.setdefault("answers_of_others", {})
            others[state["student"]] = state["answers"]
            state["answers"] = others.pop(text, {})
        state["student"] = text
    print(
        f"Exercises have the numbers of {text!r}; check(...) prints each text with them, and "
        "course.my_graph() is the graph of ten nodes."
    )
    if is_other:
        former = (
            f"of {other!r} are put aside until course.start({other!r})" if other else "without a name are put aside"
        )
        print(f"Answers {former}; guesses and graded code stay and are handed in with those of {text!r}.")
