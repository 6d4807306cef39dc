"""Parse the grid of a comparison from a command line: systems with their own settings, models, graphs.

``vanilla,fixed-bits:bits=1,adaqp:lam=0.3:bit_widths=2+4+8`` names three systems: a comma between systems, a colon
before each setting, a plus between the numbers of a list. A graph's name may itself contain commas: a number belongs to
the name before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["SystemChoice", "graphs_in", "models_in", "systems_in"]

# A piece that is a number continues the name before it: sbm:400,4,8.
_NUMBER = re.compile(r"\d+(\.\d+)?$")


@dataclass(frozen=True)
class SystemChoice:
    """System of a comparison, by name, with its own settings."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return ":".join([self.name, *(f"{name}={_value_text(value)}" for name, value in self.settings.items())])


def systems_in(text: str) -> list[SystemChoice]:
    """Return the systems in an option's text.

    Raises:
        ValueError: if there is none, or a name, setting or value is wrong; the message lists the known ones.

    Example:
        >>> systems_in("vanilla,fixed-bits:bits=1,sylvie:bit_widths=1+8:delta=3")[-1]
        SystemChoice(name='sylvie', settings={'bit_widths': (1, 8), 'delta': 3})
    """
    choices = [_choice(piece) for piece in _pieces(text)]
    if not choices:
        raise ValueError("systems must name at least one system, got none; for instance --systems vanilla,fixed-bits")
    return choices


def models_in(text: str) -> list[str]:
    """Return the models in an option's text.

    Example:
        >>> models_in("gcn, gat")
        ['gcn', 'gat']
    """
    return _each_once("model", _pieces(text))


def graphs_in(text: str) -> list[str]:
    """Return the graphs in an option's text.

    Example:
        >>> graphs_in("digits,sbm:400,4,8,cora")
        ['digits', 'sbm:400,4,8', 'cora']
    """
    if Path(text).exists():  # a path may contain commas
        return [text]
    names: list[str] = []
    for piece in _pieces(text):
        if names and _NUMBER.match(piece):
            names[-1] += f",{piece}"
        else:
            names.append(piece)
    return _each_once("graph", names)


def _pieces(text: str) -> list[str]:
    return [piece.strip() for piece in text.split(",") if piece.strip()]


def _each_once(kind: str, names: Sequence[str]) -> list[str]:
    if not names:
        raise ValueError(f"{kind} must name at least one {kind}, got none")
    repeated_names = sorted({name for name in names if names.count(name) > 1})
    if repeated_names:
        raise ValueError(f"{kind} must name each {kind} once, got {repeated_names} more than once")
    return list(names)


def _choice(text: str) -> SystemChoice:
    from gnnqlab.systems.registry import make_system

    name, *parts = (part.strip() for part in text.split(":"))
    if _NUMBER.match(name):
        raise ValueError(f"commas separate systems, got {name!r}; join the numbers of a list by +: bit_widths=1+2+4")
    make_system(name)  # raises for an unknown name and lists the known ones
    settings: dict[str, Any] = {}
    for part in parts:
        setting, sign, value = (word.strip() for word in part.partition("="))  # sign is empty without an equals sign
        if not sign:
            raise ValueError(f"a setting must be written NAME=VALUE, got {part!r} in {text!r}; for instance {_EXAMPLE}")
        setting = setting.replace("-", "_")
        if setting in settings:
            raise ValueError(f"{setting} must be given once, got {text!r}")
        settings[setting] = _value(name, setting, value)
    make_system(name, **settings)  # raises for a value out of its range
    return SystemChoice(name, settings)


_EXAMPLE = "fixed-bits:bits=4"


def _value(system: str, setting: str, text: str) -> Any:
    """Return a setting's value, with the type in the recipe's signature."""
    from gnnqlab.systems.registry import SYSTEMS, make_system
    from gnnqlab.systems.settings import settings_of

    settings = {each.name: each for each in settings_of(SYSTEMS[system])}
    if setting not in settings:
        make_system(system, **{setting: text})  # raises and lists the known settings
    return settings[setting].read(text, label=f"{setting} of {system}", between="+")


def _value_text(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)
