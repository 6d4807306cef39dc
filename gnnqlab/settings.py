"""Settings: type, default, bounds, choices and option, declared once, at the field or parameter.

A setting is a field of a dataclass or a parameter of a function. ``Annotated`` adds to its type: a :class:`Range`, a
:class:`OneOf`, an :class:`Option`, and a text, which may also be the docstring under a field. Checks, command line,
controls and JSON use this declaration.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import math
import numbers
import textwrap
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gnnqlab.by_name import closest_words, did_you_mean

__all__ = [
    "NO_OPTION",
    "OPTIONAL_WORD",
    "POSITIVE",
    "Former",
    "OneOf",
    "Option",
    "Range",
    "Setting",
    "check",
    "nearest",
    "parameters_of",
    "settings_in",
]


@dataclass(frozen=True)
class Range:
    """Range of a numeric setting; ``None`` for no limit on that side.

    Example:
        >>> Range(0, 1, open_high=True).rule, 1.0 in Range(0, 1, open_high=True), 7 in Range(1)
        ('lie in [0, 1)', False, True)
    """

    low: float | None = None
    high: float | None = None
    open_low: bool = False
    """True if ``low`` itself is excluded."""
    open_high: bool = False
    unit: str = ""
    """Unit for error messages, in the singular."""
    way: str = ""
    """Advice for error messages."""

    def __contains__(self, value: float) -> bool:
        is_above = self.low is None or (value > self.low if self.open_low else value >= self.low)
        is_below = self.high is None or (value < self.high if self.open_high else value <= self.high)
        return is_above and is_below and not math.isnan(value)  # without limits NaN would be in the range

    @property
    def rule(self) -> str:
        """Rule of the range, as the end of an error ``NAME must ...``."""
        if self.low is not None and self.high is not None:
            ends = f"{_number(self.low)}, {_number(self.high)}"
            return f"lie in {'(' if self.open_low else '['}{ends}{')' if self.open_high else ']'}"
        if self.low == 0:
            return "be positive" if self.open_low else "not be negative"
        if self.low is not None:
            return f"be {'more than' if self.open_low else 'at least'} {_number(self.low)} {self.unit}".rstrip()
        return f"be {'less than' if self.open_high else 'at most'} {_number(self.high or 0)} {self.unit}".rstrip()


POSITIVE = Range(0, open_low=True)


@dataclass(frozen=True)
class OneOf:
    """Allowed values of a setting; for a tuple, of each of its elements."""

    choices: Collection[Any]
    """Allowed values; a registry may be passed, so that later registrations are included."""

    @property
    def rule(self) -> str:
        """Rule of the choices, as the end of an error ``NAME must ...``."""
        choices = list(self.choices)
        if len(choices) > 1 and all(isinstance(choice, str) for choice in choices):
            return f"be {', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
        return f"be one of {tuple(choices)}"


@dataclass(frozen=True)
class Option:
    """Name of a setting's command-line option, if it differs from the setting's name."""

    name: str | None
    """Name without leading dashes; ``None`` for a setting without an option, empty for a word without a name."""


NO_OPTION, OPTIONAL_WORD = Option(None), Option("")  # none; a word without a name, which may be left out


@dataclass(frozen=True)
class Former:
    """Former name of a setting, and its former values; see `gnnqlab.former_names`."""

    name: str
    values: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Former value -> present value."""


_NUMBER_OR_WORD = int | str
_KINDS: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false"}
_REAL = {int: numbers.Integral, float: numbers.Real}  # the abstract types include NumPy's scalars


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting of a dataclass or a function."""

    name: str
    kind: Any
    """``int``, ``float``, ``bool``, ``str``, ``int | str``, ``Path``, ``tuple[int, ...]`` ...; without ``None``."""
    default: Any = dataclasses.field(default_factory=lambda: dataclasses.MISSING)
    """Default value; ``dataclasses.MISSING`` if a value is required."""
    optional: bool = False
    """True if ``None`` is allowed, for a value that is determined elsewhere."""
    option: str | None = None
    """Name of the command-line option without leading dashes; ``None`` if there is none, empty for a word."""
    choices: tuple[Any, ...] = ()
    """Allowed values, or those of each element of a tuple; empty if not restricted."""
    low: float | None = None
    high: float | None = None
    """Limits of the range; ``None`` for none."""
    help: str = ""
    """Description with unit and range."""
    rules: tuple[Range | OneOf, ...] = ()
    former: tuple[Former, ...] = ()
    """Former names, which are still accepted."""

    @property
    def many(self) -> bool:
        """True if the value is a tuple."""
        return typing.get_origin(self.kind) is tuple

    def check(self, value: Any) -> None:
        """Raise for a value of the wrong type, out of range or not among the choices.

        Raises:
            TypeError, ValueError: with rule and value.
        """
        if value is None and self.optional:
            return
        # bool is a subclass of int, but True is not a count.
        if self.kind in _REAL and (isinstance(value, bool) or not isinstance(value, _REAL[self.kind])):
            raise TypeError(f"{self.name} must be {_KINDS[self.kind]}, got {value!r}")
        if self.kind is bool and not isinstance(value, bool):  # "no" would count as true
            raise TypeError(f"{self.name} must be {_KINDS[bool]}, got {value!r}")
        for rule in self.rules:
            allowed_values = rule if isinstance(rule, Range) else rule.choices
            if not all(each in allowed_values for each in (value if self.many else (value,))):
                if isinstance(rule, Range):
                    way = f"; {rule.way}" if rule.way else ""
                else:
                    way = did_you_mean(value, map(str, rule.choices)) if isinstance(value, str) else ""
                raise ValueError(f"{self.name} must {rule.rule}, got {value!r}{way}")

    def plain(self, value: Any) -> Any:
        """Return a number as Python's ``int`` or ``float``, if it has the setting's type; any other value as it is.

        A whole number may be a float, and NumPy's numbers cannot be written as JSON.

        Example:
            >>> Setting(name="workers", kind=int).plain(2.0), Setting(name="workers", kind=int).plain(2.5)
            (2, 2.5)
        """
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return value
        if self.kind is int and isinstance(value, numbers.Integral):
            return int(value)  # not by way of a float, which has 53 bits
        if self.kind is int and float(value).is_integer():
            return int(float(value))
        return float(value) if self.kind is float and not isinstance(value, int) else value

    def read(self, text: str, *, label: str | None = None, between: str = ",") -> Any:
        """Return the value of a text; ``between`` separates the elements of a tuple.

        Raises:
            ValueError: if it does not have the setting's type; ``label`` is the setting's name in the error.

        Example:
            >>> Setting(name="among", kind=tuple[int, ...]).read("2,8"), Setting(name="lam", kind=float).read("0.5")
            ((2, 8), 0.5)
        """
        label = label or self.name
        if self.many:
            kind, pieces = typing.get_args(self.kind)[0], text.split(between)
            try:
                return tuple(kind(piece) for piece in pieces)
            except ValueError:
                rule = f"{label} must be numbers separated by {_MARKS.get(between, between)}, got {text!r}"
                raise ValueError(f"{rule}; write {between.join('248')}") from None
        if self.kind is bool:
            if text.lower() not in ("true", "false"):
                raise ValueError(f"{label} must be {_KINDS[bool]}, got {text!r}")
            return text.lower() == "true"
        if self.kind == _NUMBER_OR_WORD:
            return int(text) if text.lstrip("-").isdigit() else text
        try:
            return self.kind(text)
        except ValueError:
            raise ValueError(f"{label} must be {_KINDS.get(self.kind, self.kind)}, got {text!r}") from None

    def write(self, value: Any, *, between: str = ",") -> str:
        """Return the text of a value, from which :meth:`read` restores it."""
        if self.kind is bool:
            return str(value).lower()
        return between.join(map(str, value)) if self.many else str(value)

    def words(self, value: Any) -> list[str]:
        """Return the command-line words that set a value; a switch has no value of its own.

        Example:
            >>> Setting(name="among", option="widths", kind=tuple[int, ...]).words((2, 8))
            ['--widths', '2,8']
        """
        if self.kind is bool:
            return [f"--{self.option}" if value else f"--no-{self.option}"]
        return [f"--{self.option}", self.write(value)]


_MARKS = {",": "commas", "+": "plus signs"}


def settings_in(kind: type) -> list[Setting]:
    """Return the fields of a dataclass as settings, with the docstrings under them.

    Example:
        >>> @dataclass
        ... class Coat:
        ...     buttons: typing.Annotated[int, Range(1), "In a row."] = 5
        >>> settings_in(Coat)[0].low, settings_in(Coat)[0].help
        (1, 'In a row.')
    """
    texts = _texts(kind)
    return [dataclasses.replace(setting, help=setting.help or texts.get(setting.name, "")) for setting in _fields(kind)]


def parameters_of(function: Callable[..., Any]) -> list[Setting]:
    """Return the parameters of a function as settings."""
    # A parameter without a type is read as text.
    hints = _hints(function)
    return [
        _setting(name, hints.get(name, str), _or_missing(parameter.default))
        for name, parameter in inspect.signature(function).parameters.items()
    ]


def check(settings: Any) -> None:
    """Raise for a dataclass with a value of the wrong type, out of range or not among the choices.

    Raises:
        TypeError, ValueError: with rule and value.
    """
    kind: Any = type(settings)
    for setting in _fields(kind):
        setting.check(getattr(settings, setting.name))


def nearest(name: str, settings: Iterable[Setting]) -> str | None:
    """Return the known name closest to an unknown one, or one of its words, or of a setting whose help starts with
    its words, or ``None``.

    Example:
        >>> known = [Setting(name="lr", kind=float, help="Learning rate."), Setting(name="epochs", kind=int)]
        >>> [nearest(name, known) for name in ("epoch", "maximal_epochs_of_a_run", "learning_rate", "colour")]
        ['epochs', 'epochs', 'lr', None]
    """
    help_texts = {setting.name: setting.help.lower() for setting in settings}
    words = name.replace("_", " ").lower()
    candidates = [
        *closest_words(name, help_texts, limit=1),  # a misspelled name precedes a paraphrase
        *(word for word in words.split() if word in help_texts),
        *(each for each, text in help_texts.items() if text.startswith(words)),
    ]
    return next(iter(candidates), None)


# Cached by class: type hints do not change, and every new instance is checked.
@functools.cache
def _fields(kind: type) -> tuple[Setting, ...]:
    hints = _hints(kind)
    return tuple(
        _setting(field.name, hints.get(field.name, field.type), _default(field))
        for field in dataclasses.fields(kind)
        if field.init  # others are computed, not set
    )


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _or_missing(default: Any) -> Any:
    return dataclasses.MISSING if default is inspect.Parameter.empty else default


def _hints(target: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(target, include_extras=True)  # extras: the metadata of Annotated
    except NameError:  # a type that is imported for the type checker only
        return {}


def _setting(name: str, hint: Any, default: Any) -> Setting:
    """Return a setting from its name, type hint and default."""
    metadata, is_optional = list(_metadata(hint)), False
    kind = _plain(hint)
    # `X | None` is an optional X; of other unions only `int | str` can be read from text.
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        kinds = [member for member in typing.get_args(kind) if member is not types.NoneType]
        union_kind = _NUMBER_OR_WORD if set(kinds) == {int, str} else Any
        is_optional, kind = len(kinds) < len(typing.get_args(kind)), _plain(kinds[0]) if len(kinds) == 1 else union_kind
    ranges = [item for item in metadata if isinstance(item, Range)]
    option = next((item.name for item in metadata if isinstance(item, Option)), name.replace("_", "-"))
    return Setting(
        name=name,
        kind=kind,
        default=default,
        optional=is_optional,
        option=option if _fits_option(kind) else None,  # a type that no text can express gets no option
        choices=tuple(choice for item in metadata if isinstance(item, OneOf) for choice in item.choices),
        low=next((item.low for item in ranges), None),
        high=next((item.high for item in ranges), None),
        help=next((item for item in metadata if isinstance(item, str)), ""),
        rules=tuple(item for item in metadata if isinstance(item, Range | OneOf)),
        former=tuple(item for item in metadata if isinstance(item, Former)),
    )


def _metadata(hint: Any) -> Iterator[Any]:
    """Yield the metadata of ``Annotated``, also inside a union."""
    if typing.get_origin(hint) is typing.Annotated:
        yield from hint.__metadata__
        hint = hint.__origin__
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        for member in typing.get_args(hint):
            yield from _metadata(member)


def _plain(hint: Any) -> Any:
    return hint.__origin__ if typing.get_origin(hint) is typing.Annotated else hint


def _fits_option(kind: Any) -> bool:
    """Return True if a command-line option can have values of a type."""
    if typing.get_origin(kind) is tuple:
        return typing.get_args(kind)[1:] == (...,) and typing.get_args(kind)[0] in (int, float, str)
    return kind in (int, float, bool, str, _NUMBER_OR_WORD) or (
        isinstance(kind, type) and kind.__module__.startswith("pathlib")
    )


@functools.cache
def _texts(kind: type) -> dict[str, str]:
    """Return the docstrings under a class's fields, including inherited ones."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):  # bases first, so that a derived class overrides
        try:
            # Python does not store texts under fields, so they are read from the source.
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):
            continue  # a built-in class, or one defined at a prompt
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for field, text in itertools.pairwise(body):  # a docstring follows its field
            if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
                continue
            if (
                isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                texts[field.target.id] = inspect.cleandoc(text.value.value)
    return texts


def _number(value: float) -> str:
    """Return a number as text, large powers of two as ``2**n``."""
    power = int(math.log2(value)) if value >= 2**16 else 0
    return f"2**{power}" if power and value == 2**power else f"{value:g}"
