"""Kinds of mistakes in a numerical answer, and the first hint of each.

A wrong answer is compared with variations of the right one: another unit, another bit-width, a formula with a one too
many, a simple factor. The first variation that gives the answer names the kind.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from gnnqlab.bits.in_words import human_bits
from gnnqlab.course.numeric.exercise import Exercise

__all__ = ["BIT_WIDTHS", "TOLERANCE", "Mistake", "is_close", "mistake_in"]

TOLERANCE = 0.01
"""Accepted relative error, so that answers may be rounded."""
BIT_WIDTHS = (1, 2, 4, 8, 16, 32)
_WIDTH_NAMES = ("bits", "narrow", "wide")
_ROUNDED = 0.1
"""Largest relative error of an answer that is right but has too few digits."""
_PREFIXES = {10.0**power for power in (-9, -6, -3, 3, 6, 9)} | {2.0**power for power in (-30, -20, -10, 10, 20, 30)}


@dataclass(frozen=True)
class Mistake:
    """Kind of a mistake, with the first hint."""

    kind: str
    """digits, sign, unit, width, off by one, inverse, power, rest, factor or other."""
    hint: str


def is_close(answer: float, right: float) -> bool:
    """Return True if an answer equals the right one to one percent."""
    return math.isclose(answer, right, rel_tol=TOLERANCE)


def mistake_in(answer: float, exercise: Exercise, numbers: Mapping[str, float], digits: int | None = None) -> Mistake:
    """Return the kind of the mistake in a wrong answer.

    Args:
        answer: the wrong answer.
        exercise: the exercise.
        numbers: its numbers.
        digits: digits after the decimal point that were typed; by default those of the number.

    Example:
        >>> from gnnqlab.course.numeric.exercise import exercise
        >>> payload = exercise("columns * bits / 8", "", columns=256, bits=2, unit="bytes")
        >>> [mistake_in(answer, payload, payload.numbers_of("")).kind for answer in (512, 256, -64, 65)]
        ['unit', 'width', 'sign', 'off by one']
    """
    right = exercise.evaluate(numbers)
    for found in _kinds(answer, right, exercise, numbers, _decimals(answer) if digits is None else digits):
        return found
    size = "too small" if abs(answer) < abs(right) else "too large"
    return Mistake("other", f"It is {size}. Which quantities does the question name, and which of them did you use?")


def _kinds(
    answer: float, right: float, exercise: Exercise, numbers: Mapping[str, float], digits: int
) -> Iterator[Mistake]:
    """Yield the kinds that fit, the most specific one first."""
    # The order decides between kinds that fit the same number: 8 times too many bytes are bits, not another width.
    if _has_too_few_digits(answer, right, digits):
        yield Mistake("digits", "Right so far: write one more digit.")
    if is_close(-answer, right):
        yield Mistake("sign", "Only the sign differs: in which direction does the quantity change?")
    ratio = answer / right
    if exercise.unit == "bytes" and (is_close(ratio, 8) or is_close(ratio, 1 / 8)):
        yield Mistake("unit", "Look at the unit: the number is off by a factor of 8. Bits or bytes?")
    if exercise.unit in ("share", "percent") and (is_close(ratio, 100) or is_close(ratio, 0.01)):
        yield Mistake("unit", "Look at the unit: the number is off by a factor of 100. A share or a percentage?")
    for width in _other_widths(answer, exercise, numbers):
        yield Mistake("width", f"That is the answer for {human_bits(width)}. Which bit-width does the question name?")
    if any(is_close(ratio, factor) for factor in _PREFIXES):
        yield Mistake("unit", "Look at the unit: a prefix differs (kilo, mega, milli, micro).")
    if _is_off_by_one(answer, right, exercise, numbers):
        yield Mistake("off by one", "Off by one somewhere: count again, from the first to the last.")
    if is_close(answer * right, 1) and not is_close(right, 1):
        yield Mistake("inverse", "Upside down: which of the two quantities is divided by the other?")
    if answer > 0 and right > 0 and (is_close(answer, right**2) or is_close(answer, math.sqrt(right))):
        yield Mistake("power", "One is the square of the other: where is a square, or a root, missing?")
    if _is_rest(answer, right, exercise.unit):
        yield Mistake("rest", "That is the other part: the question is about the rest.")
    if factor := _simple_factor(ratio):
        yield Mistake("factor", f"It is off by a factor of {factor}. Which quantity is counted too often, or not?")


def _has_too_few_digits(answer: float, right: float, digits: int) -> bool:
    """Return True if an answer is the right one, rounded or cut off after its last typed digit."""
    if not math.isclose(answer, right, rel_tol=_ROUNDED):
        return False
    scaled = right * 10**digits
    typed = answer * 10**digits
    # A whole number has no further digits: 290 is no rounded 289.
    return not math.isclose(scaled, round(scaled), abs_tol=1e-9) and (
        math.isclose(typed, round(scaled)) or math.isclose(typed, math.trunc(scaled))
    )


def _other_widths(answer: float, exercise: Exercise, numbers: Mapping[str, float]) -> Iterator[int]:
    for name in _WIDTH_NAMES:
        for width in BIT_WIDTHS if name in numbers else ():
            if width != numbers[name] and is_close(answer, exercise.evaluate({**numbers, name: width})):
                yield width


def _is_off_by_one(answer: float, right: float, exercise: Exercise, numbers: Mapping[str, float]) -> bool:
    if right.is_integer() and abs(right) < 100 and math.isclose(abs(answer - right), 1):
        return True
    # The formula with one "- 1" or "+ 1" left out, or the other way: 2^b levels in place of 2^b - 1 steps.
    for found in re.finditer(r" ([-+]) 1\b(?!\.)", exercise.formula):
        for other in ("", " + 1" if found[1] == "-" else " - 1"):
            changed = exercise.formula[: found.start()] + other + exercise.formula[found.end() :]
            if _is_value(answer, exercise, numbers, changed):
                return True
    # All of them left out.
    every = re.sub(r" [-+] 1\b(?!\.)", "", exercise.formula)
    return every != exercise.formula and _is_value(answer, exercise, numbers, every)


def _is_value(answer: float, exercise: Exercise, numbers: Mapping[str, float], formula: str) -> bool:
    try:
        return is_close(answer, exercise.evaluate(numbers, formula))
    except ZeroDivisionError:
        return False


def _is_rest(answer: float, right: float, unit: str) -> bool:
    whole = {"percent": 100.0, "share": 1.0}.get(unit, 0.0)
    return 0 < right < whole and math.isclose(answer, whole - right, rel_tol=TOLERANCE)


def _simple_factor(ratio: float) -> str:
    """Return a factor of few digits: 1/4, 2/3, 3, 16, 100; empty if there is none."""
    if ratio <= 0 or is_close(ratio, 1):
        return ""
    for top in (1, 2, 3):
        for factor in (ratio, 1 / ratio):
            whole = round(factor * top)
            if whole > top and whole <= 128 and math.isclose(factor * top, whole, rel_tol=TOLERANCE / 2):
                return str(Fraction(whole, top))
    return ""


def _decimals(answer: float) -> int:
    text = f"{answer:.12g}"
    return len(text.partition(".")[2]) if "e" not in text else 12
