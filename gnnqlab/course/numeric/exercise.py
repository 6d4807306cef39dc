"""A numerical exercise: a formula over named numbers, so that each student can get other numbers.

The right answer is the value of the formula, and its worked solution is the formula with the numbers in it. Neither is
stored as a number, so printing an exercise does not show its answer.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gnnqlab.course.ten_nodes import VARIANTS, edges_of

__all__ = ["Exercise", "exercise", "graph_of"]

_NODES, _HALF = 10, 5


@dataclass(frozen=True)
class Exercise:
    """Numerical exercise of a notebook, with a hint for a second wrong answer.

    Example:
        >>> payload = exercise("columns * bits / 8", "A byte has 8 bits.", columns=(256, 64), bits=2)
        >>> payload.evaluate(payload.numbers_of("")), payload.evaluate({"columns": 64, "bits": 2})
        (64.0, 16.0)
        >>> payload.solution({"columns": 64, "bits": 2})
        '64 · 2 / 8 = 16'
    """

    formula: str = field(repr=False)
    """Expression over the numbers, with functions of `math`."""
    hint: str = field(repr=False)
    """Second hint; names of numbers in braces."""
    question: str = ""
    """Text of the exercise with other numbers, names of numbers in braces; empty if they are always the same."""
    choices: Mapping[str, tuple[float, ...]] = field(default_factory=dict, repr=False)
    """Number -> its values; the first one is that of the notebook."""
    unit: str = ""
    """``"bytes"``, ``"percent"`` or ``"share"`` if a mistake in it is likely."""

    @property
    def varies(self) -> bool:
        """True if students can get other numbers."""
        return bool(self.question) and any(len(values) > 1 for values in self.choices.values())

    def numbers_of(self, student: str, name: str = "") -> dict[str, float]:
        """Return the numbers of a student, a function of student and exercise; the notebook's for an empty student."""
        if not student or not self.varies:
            return {number: values[0] for number, values in self.choices.items()}
        # A student has one graph in all exercises.
        choices = dict(self.choices)
        if "graph" in choices:
            choices["graph"] = (graph_of(student),)
        sets = list(itertools.product(*choices.values()))
        # The first set is the notebook's, whose solution may be known: no student gets it.
        return dict(zip(choices, sets[1 + _draw(f"{student}\n{name}", len(sets) - 1)]))

    def evaluate(self, numbers: Mapping[str, float], formula: str | None = None) -> float:
        """Return the value of the formula, or of a changed one, for these numbers."""
        # A constant of this package, with no other names than these.
        return float(eval(formula or self.formula, {"__builtins__": {}}, {**_FUNCTIONS, **numbers}))

    def solution(self, numbers: Mapping[str, float]) -> str:
        """Return the formula with numbers in it, and its value."""
        text = re.sub(r"\b[A-Za-z]+\b(?!\()", lambda word: _text(numbers.get(word[0], word[0])), self.formula)
        text = text.replace("**", "^").replace("*", "·")
        return f"{text} = {self.evaluate(numbers):.6g}"

    def text(self, numbers: Mapping[str, float]) -> str:
        """Return the text of the exercise with these numbers."""
        return _fill(self.question, numbers)

    def second_hint(self, numbers: Mapping[str, float]) -> str:
        """Return the second hint with these numbers."""
        return _fill(self.hint, numbers)


def graph_of(student: str) -> int:
    """Return the variant of the ten nodes that a student gets; 0, the notebook's, for an empty name."""
    return 1 + _draw(student, VARIANTS - 1) if student else 0


def _draw(text: str, count: int) -> int:
    """Return a number below ``count`` that depends on the text alone."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % count


def exercise(formula: str, hint: str, question: str = "", *, unit: str = "", **numbers: Any) -> Exercise:
    """Return an exercise; a number is one value, or a tuple of values with the notebook's first."""
    choices = {name: value if isinstance(value, tuple) else (value,) for name, value in numbers.items()}
    return Exercise(formula, hint, question, choices, unit)


def _fill(text: str, numbers: Mapping[str, float]) -> str:
    return text.format(**{name: _text(value) for name, value in numbers.items()}) if numbers else text


def _text(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, int | float) else str(value)


def _degree(node: float, graph: float) -> int:
    """Return the number of neighbours of one of the ten nodes, itself included."""
    return 1 + sum(node in edge for edge in edges_of(int(graph)))


def _rows_sent(owner: Mapping[int, int], graph: float) -> int:
    """Return the rows sent on the ten nodes: a node is sent once to each other worker with a neighbour of it."""
    edges = edges_of(int(graph))
    pairs = [*edges, *((target, source) for source, target in edges)]
    return len({(source, owner[target]) for source, target in pairs if owner[source] != owner[target]})


def _rows_in_blocks(workers: float, graph: float) -> int:
    return _rows_sent({node: int(node * workers // _NODES) for node in range(_NODES)}, graph)


def _rows_if_moved(node: float, graph: float) -> int:
    owner = {each: int(each >= _HALF) for each in range(_NODES)}
    return _rows_sent(owner | {int(node): 1 - owner[int(node)]}, graph)


_FUNCTIONS: dict[str, Any] = {
    "ceil": math.ceil,
    "degree": _degree,
    "exp": math.exp,
    "floor": math.floor,
    "max": max,
    "min": min,
    "pi": math.pi,
    "rows_if_moved": _rows_if_moved,
    "rows_in_blocks": _rows_in_blocks,
}
