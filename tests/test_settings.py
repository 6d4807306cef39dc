"""The text of a setting agrees with the code that checks, reads and writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pytest

from gnnqlab.settings import NO_OPTION, POSITIVE, OneOf, Option, Range, check, parameters_of, settings_in

KNOWN = {"round": 1}


@dataclass(frozen=True, kw_only=True)
class Base:
    """Fields are inherited together with their descriptions."""

    size: Annotated[int, Range(1, 2**16, open_high=True)] = 4
    """How large."""


@dataclass(frozen=True, kw_only=True)
class Coat(Base):
    """One field of each kind."""

    shape: Annotated[str, OneOf(KNOWN)] = "round"
    """What it
    looks like."""
    warmth: Annotated[float | None, POSITIVE, "Of the wearer."] = None
    bit_widths: Annotated[tuple[int, ...], OneOf((1, 2)), Option("numbers")] = (1, 2)
    lined: bool = False
    place: Path | None = None
    hidden: Annotated[int, NO_OPTION] = 0
    parts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self)


def test_settings_in_reads_all_properties_from_the_field():
    found = {each.name: each for each in settings_in(Coat)}
    assert list(found) == ["size", "shape", "warmth", "bit_widths", "lined", "place", "hidden", "parts"]
    assert [each.option for each in found.values()] == [
        *("size", "shape", "warmth", "numbers", "lined", "place"), None, None,
    ]  # fmt: skip
    assert (found["size"].low, found["size"].high, found["size"].help) == (1, 2**16, "How large.")
    assert found["shape"].choices == ("round",) and found["shape"].help == "What it\nlooks like."
    assert found["warmth"].kind is float and found["warmth"].optional and found["warmth"].help == "Of the wearer."
    assert found["bit_widths"].many and not found["size"].many and found["place"].kind is Path
    assert found["parts"].default == {}


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"size": 0}, ValueError, r"size must lie in \[1, 2\*\*16\), got 0"),
        ({"size": 2**16}, ValueError, r"size must lie in \[1, 2\*\*16\)"),
        ({"size": 2.0}, TypeError, "size must be a whole number, got 2.0"),
        ({"size": True}, TypeError, "size must be a whole number, got True"),
        ({"warmth": "much"}, TypeError, "warmth must be a number, got 'much'"),
        ({"warmth": 0}, ValueError, "warmth must be positive, got 0"),
        ({"warmth": float("nan")}, ValueError, "warmth must be positive, got nan"),
        ({"shape": "flat"}, ValueError, r"shape must be one of \('round',\), got 'flat'"),
        ({"bit_widths": (1, 3)}, ValueError, r"bit_widths must be one of \(1, 2\), got \(1, 3\)"),
    ],
)
def test_invalid_value_raises_an_error_with_the_rule(given, kind, text):
    with pytest.raises(kind, match=text):
        Coat(**given)


def test_a_registry_that_grows_is_known():
    KNOWN["flat"] = 2
    try:
        assert Coat(shape="flat").shape == "flat"
        with pytest.raises(ValueError, match="shape must be 'round' or 'flat', got 'long'"):
            Coat(shape="long")
    finally:
        del KNOWN["flat"]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Range(0), "not be negative"),
        (Range(0, 1), r"lie in [0, 1]"),
        (Range(1, unit="epoch"), "be at least 1 epoch"),
        (Range(2, open_low=True), "be more than 2"),
        (Range(high=0.5), "be at most 0.5"),
        (Range(high=0.5, open_high=True), "be less than 0.5"),
        (OneOf((1, 2)), "be one of (1, 2)"),
        (OneOf(("a", "b", "c")), "be 'a', 'b' or 'c'"),
    ],
)
def test_rule_text_describes_the_rule(rule, text):
    assert rule.rule == text


def test_words_are_read_as_they_are_written():
    found = {each.name: each for each in settings_in(Coat)}
    values = {"size": 7, "shape": "flat", "warmth": 0.25, "bit_widths": (2, 1), "lined": True, "place": Path("/a")}
    for name, value in values.items():
        assert found[name].read(found[name].write(value)) == value
    assert found["bit_widths"].words((2, 1)) == ["--numbers", "2,1"]
    assert found["lined"].words(True) == ["--lined"] and found["lined"].words(False) == ["--no-lined"]
    with pytest.raises(ValueError, match="--numbers must be numbers separated by commas, got '1;2'; write 2,4,8"):
        found["bit_widths"].read("1;2", label="--numbers")
    with pytest.raises(ValueError, match="lined must be true or false, got 'yes'"):
        found["lined"].read("yes")


def test_parameters_are_settings_too():
    def recipe(*, size: Annotated[int, Range(1), "How large."], often: float = 0.5) -> None: ...

    size, often = parameters_of(recipe)
    assert (size.low, size.help) == (1, "How large.") and (often.kind, often.default) == (float, 0.5)
