"""Registry of recipes: functions that build a complete system, by name."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

from gnnqlab.by_name import did_you_mean
from gnnqlab.former_names import with_present_names
from gnnqlab.systems.recipe_call import RecipeCall
from gnnqlab.systems.settings import settings_of
from gnnqlab.systems.system import System

__all__ = ["SYSTEMS", "make_system", "register_system"]

Recipe = Callable[..., System]

SYSTEMS: dict[str, Recipe] = {}
"""Registered recipes by name; each returns a complete :class:`System`."""


def register_system(recipe: Recipe) -> Recipe:
    """Register a recipe under its function's name, with ``_`` replaced by ``-``.

    Raises:
        ValueError: if the name is taken.
    """
    name = recipe.__name__.replace("_", "-")
    if name in SYSTEMS:
        raise ValueError(f"a system's name must be new, {name!r} is registered already")

    @functools.wraps(recipe)
    def wrapper(*values: Any, **settings: Any) -> System:
        if not set(settings) <= set(_names(recipe)):
            settings = with_present_names(settings, settings_of(recipe))
            if error := _describe_unknown(name, recipe, settings):
                raise TypeError(error)
        # Positional values by name, so that the stored call can be written as JSON.
        named_settings = {**dict(zip(_names(recipe), values, strict=False)), **settings}
        return _with_recipe_call(recipe(*values, **settings), name, named_settings)

    SYSTEMS[name] = wrapper  # the signature stays that of the recipe, for command line and checks
    return wrapper


def make_system(system: str | System, **settings: Any) -> System:
    """Build a system by name; a :class:`System` is returned unchanged.

    Args:
        system: a registered name, or a :class:`System`.
        **settings: settings of the recipe, for instance ``bits=2``.

    Raises:
        ValueError: if the name or a setting is unknown; the message lists the known ones.
    """
    if isinstance(system, System):
        if settings:
            raise ValueError(
                f"settings {sorted(settings)} need a system's name, got a System; use dataclasses.replace instead"
            )
        return system
    if system not in SYSTEMS:
        raise ValueError(f"system must be one of {sorted(SYSTEMS)}, got {system!r}{did_you_mean(system, SYSTEMS)}")
    recipe = SYSTEMS[system]
    # Checked before the call, so that the error lists the known settings.
    if not set(settings) <= set(_names(recipe)):
        settings = with_present_names(settings, settings_of(recipe))
        if error := _describe_unknown(system, recipe, settings):
            raise ValueError(error)
    return _with_recipe_call(recipe(**settings), system, settings)


def _describe_unknown(name: str, recipe: Recipe, settings: dict[str, Any]) -> str:
    """Return the error text for settings that a recipe does not have; empty if it has all."""
    known_names = _names(recipe)
    unknown_names = sorted(set(settings) - set(known_names))
    if not unknown_names:
        return ""
    settings_text = f"takes {sorted(known_names)}" if known_names else "takes no settings"
    hint = did_you_mean(unknown_names[0], known_names) or "; leave them out or choose another system"
    return f"system {name!r} {settings_text}, got {unknown_names}{hint}"


def _with_recipe_call(system: System, name: str, settings: dict[str, Any]) -> System:
    """Return the system with its recipe's name, and the recipe's call stored in ``recipe``."""
    named_system = dataclasses.replace(system, name=name)
    object.__setattr__(named_system, "recipe", RecipeCall(name, settings))  # frozen, and not a field of the constructor
    return named_system


def _names(recipe: Recipe) -> list[str]:
    return list(inspect.signature(recipe).parameters)
