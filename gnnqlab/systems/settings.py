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
    recipe_settings = parameters_of(recipe)
    # Fields come from a built system, so only a recipe with defaults for all settings has them.
    fields = (
        _fields_filled(recipe)
        if recipe_settings and all(each.default is not dataclasses.MISSING for each in recipe_settings)
        else {}
    )
    return [_completed(setting, fields.get(setting.name)) for setting in recipe_settings]


def filled(recipe: Callable[..., Any], system: Any) -> dict[str, Any]:
    """Return the non-default recipe settings that reproduce the parts of a system."""
    settings = {}
    # Of a pair the forward part is read: no recipe has settings per direction.
    parts = [of_direction(getattr(system, axis.name), "forward") for axis in dataclasses.fields(system)]
    for setting in parameters_of(recipe):
        # The first axis with a field of this name, as in `_fields_filled`.
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


def _completed(setting: Setting, field: Setting | None) -> Setting:
    """Complete a recipe's setting with the attributes of the part's field."""
    if field is None or field.kind != setting.kind:  # an equal name with another type is another setting
        return setting
    # an explicit option of the recipe precedes the field's
    is_renamed = setting.option != setting.name.replace("_", "-")
    return dataclasses.replace(
        setting,
        option=setting.option if is_renamed else field.option,
        choices=setting.choices or field.choices,
        low=field.low if setting.low is None else setting.low,
        high=field.high if setting.high is None else setting.high,
        help=setting.help or field.help,
        rules=setting.rules or field.rules,
        former=setting.former or field.former,
    )
