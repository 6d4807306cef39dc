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

    The numbers are a function of the name and the exercise, so a name gives the same ones on every machine.

    Args:
        name: any name or number; empty for the numbers of the notebooks.

    Raises:
        ValueError: if the name has more than 80 characters or a line break.

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
    text = str(name).strip()
    if len(text) > 80 or not text.isprintable():
        raise ValueError(f"a student's name must be one line of at most 80 characters, got {text[:90]!r}")
    with changed() as state:
        if state["student"] != text:  # answers to other numbers would be wrong
            state["answers"] = {}
        state["student"] = text
    if text:
        print(
            f"Exercises have the numbers of {text!r}; check(...) prints each text with them, and "
            "course.my_graph() is the graph of ten nodes."
        )
    else:
        print("Exercises have the numbers of the notebooks.")
