"""Settings of recipes: their parameters, completed by the fields of the parts that they set."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from gnnqlab.message.direction import of_direction
from gnnqlab.settings import Setting, parameters_of, settings_in

__all__ = ["Setting", "filled", "settings_of"]


def settings_of(recipe: Callable[..., Any]) -> list[Setting]:
    """Return the settings of a recipe, in the order of its signature.

    Name, type and default come from the signature. Choices, bounds, option name and help come from its ``Annotated``
    types, or else from the field of the same name in the part that the recipe builds.

    Args:
        recipe: a function ``(**settings) -> System``, as in ``SYSTEMS``.

    Example:
        >>> from gnnqlab.systems import SYSTEMS
        >>> lam, *_ = settings_of(SYSTEMS["adaqp"])
        >>> lam.name, lam.kind, lam.default, lam.low, lam.high
        ('lam', <class 'float'>, 0.5, 0, 1)
        >>> [each.option for each in settings_of(SYSTEMS["bns-gcn"])]
        ['boundary-share', 'boundary-attention']
    """
    own = parameters_of(recipe)
    fields = _fields_filled(recipe) if own and all(each.default is not dataclasses.MISSING for each in own) else {}
    return [_completed(setting, fields.get(setting.name)) for setting in own]


def filled(recipe: Callable[..., Any], system: Any) -> dict[str, Any]:
    """Return the non-default recipe settings that reproduce the parts of a system."""
    settings = {}
    parts = [of_direction(getattr(system, axis.name), "forward") for axis in dataclasses.fields(system)]
    for setting in parameters_of(recipe):
        value = next((getattr(part, setting.name) for part in parts if _has(part, setting.name)), setting.default)
        if value != setting.default:
            settings[setting.name] = value
    return settings


def _has(part: Any, name: str) -> bool:
    return dataclasses.is_dataclass(part) and name in {each.name for each in dataclasses.fields(part)}


def _fields_filled(recipe: Callable[..., Any]) -> dict[str, Setting]:
    """Return the fields of the parts that a recipe builds, by name; the first axis wins for equal names."""
    system = recipe()
    fields: dict[str, Setting] = {}
    for axis in dataclasses.fields(system):
        part = of_direction(getattr(system, axis.name), "forward")
        if dataclasses.is_dataclass(part):
            for setting in settings_in(type(part)):
                fields.setdefault(setting.name, setting)
    return fields


def _completed(own: Setting, field: Setting | None) -> Setting:
    """Complete a recipe's setting with the attributes of the part's field."""
    if field is None or field.kind != own.kind:
        return own
    renamed = own.option != own.name.replace("_", "-")
    return dataclasses.replace(
        own,
        option=own.option if renamed else field.option,
        choices=own.choices or field.choices,
        low=field.low if own.low is None else own.low,
        high=field.high if own.high is None else own.high,
        help=own.help or field.help,
        rules=own.rules or field.rules,
        former=own.former or field.former,
    )
