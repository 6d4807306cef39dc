"""Exercises of the course: the right answers and what to say to a wrong one."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["EXERCISES", "Exercise", "check"]


@dataclass(frozen=True)
class Exercise:
    """A number to find, and a hint for whoever has not found it yet."""

    right: float
    hint: str


EXERCISES = {
    "01.payload": Exercise(64, "Eight bits are a byte."),
    "01.ratio": Exercise(1024 / 72, "The parameters are two 32-bit floats, so 64 + 8 bytes; float32 takes 4 × 256."),
    "01.rows": Exercise(
        7, "Worker 1 keeps 5, 6, 8 and 9. Which of them does worker 0 need now, and which does it send?"
    ),
}
"""By notebook and name."""


def check(name: str, answer: float | None) -> None:
    """Say whether the answer to an exercise is right, to one percent; give a hint if it is not.

    Raises:
        ValueError: if there is no such exercise.

    Example:
        >>> check("01.payload", None)
        Put your answer in place of None and run the cell again.
        >>> check("01.payload", 512)
        Not yet, 512 is not it. Eight bits are a byte.
        >>> check("01.payload", 64)
        Right: 64.
    """
    if name not in EXERCISES:
        raise ValueError(f"an exercise must be one of {sorted(EXERCISES)}, got {name!r}")
    exercise = EXERCISES[name]
    if answer is None:
        print("Put your answer in place of None and run the cell again.")
    elif math.isclose(answer, exercise.right, rel_tol=0.01):
        print(f"Right: {exercise.right:.6g}.")
    else:
        print(f"Not yet, {answer:g} is not it. {exercise.hint}")
