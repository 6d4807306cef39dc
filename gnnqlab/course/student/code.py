"""Code that a student wrote: its errors explained, its source kept for the hand-in."""

from __future__ import annotations

import functools
import inspect
import sysconfig
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gnnqlab.course.student import progress

__all__ = ["CODE", "graded_code", "source_of"]

CODE = {
    "04.rounding": "grade_rounding",
    "06.widths": "grade_widths",
    "20.policy": "grade_policy",
    "20.codec": "grade_codec",
}
"""Exercise -> function of `gnnqlab.course.graded` that grades its code."""
_PACKAGE = Path(__file__).parents[2]
_LIBRARIES = (str(_PACKAGE), sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"))
_WRONG_USE = (AttributeError, NotImplementedError, TypeError)
"""Errors that the library raises for parts without a method, or with other parameters."""


def graded_code(
    name: str, call: str, *, counts: Callable[..., bool] = lambda **_: True
) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    """Decorate a grader: an error in the student's code is a "Not yet" with its reason, and the code is kept.

    Args:
        name: key of `CODE`.
        call: the way in which the grader calls the code, for the explanation.
        counts: True if a call with these keyword arguments is the exercise, not another use of its grader.
    """

    def decorate(grade: Callable[..., bool]) -> Callable[..., bool]:
        @functools.wraps(grade)
        def graded(answer: Any, *args: Any, **settings: Any) -> bool:
            try:
                passed = grade(answer, *args, **settings)
            except Exception as error:
                own_line = _own_line(error)
                if not own_line and not isinstance(error, _WRONG_USE):
                    raise  # an error of the library, or of the caller
                print(f"Not yet: {_explained(error, call, own_line)}")
                passed = False
            if answer is not None and counts(**settings):
                with progress.changed() as state:
                    state["code"][name] = {"passed": passed, "source": source_of(answer), "at": progress.now()}
            return passed

        return graded

    return decorate


def source_of(answer: object) -> str:
    """Return the source of a function, or of the class of a value; empty if it is not known.

    Example:
        >>> source_of(len)
        ''
    """
    code = answer if inspect.isroutine(answer) or isinstance(answer, type) else type(answer)
    try:
        return textwrap.dedent(inspect.getsource(code))
    except (OSError, TypeError):  # built in, or typed into a plain console
        return ""


def _own_line(error: BaseException) -> str:
    """Return the last line of the traceback outside the libraries; empty if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(_LIBRARIES):
            return f"line {frame.lineno} of {frame.name}(): {frame.line or 'source not known'}"
    return ""


def _explained(error: Exception, call: str, own_line: str) -> str:
    """Return the message first, then the place, then the way in which the code is called."""
    message = str(error) or "no message"
    place = f" It was raised in {own_line}." if own_line else ""
    return f"your code raised {type(error).__name__}: {message}.{place} It is called as {call}."
