"""Options of a run by section, from the dataclasses of a configuration and the recipes of systems."""

from __future__ import annotations

from collections.abc import Iterable

from gnnqlab.nn.models import MODELS
from gnnqlab.nn.models.registry import settings_class
from gnnqlab.settings import Setting, settings_in
from gnnqlab.systems import SYSTEMS
from gnnqlab.systems.settings import settings_of
from gnnqlab.train.config.keywords import SECTIONS, settings_of_section
from gnnqlab.train.config.run_config import LaunchSettings, TrainSettings
from gnnqlab.train.link_prediction.settings import TaskSettings

__all__ = ["SECTIONS", "SectionOptions", "model_options", "own_options", "system_options", "options_of_section"]

# Dataclasses of the sections that do not depend on model and system.
_KINDS = {"training": TrainSettings, "task": TaskSettings, "launch": LaunchSettings}
SectionOptions = dict[str, list[tuple[str, Setting]]]
"""Option -> models or systems that have it, each with its own setting; an empty name stands for all of them."""


def own_options() -> list[Setting]:
    """Return the options that are independent of models and systems."""
    return _with_option(setting for kind in _KINDS.values() for setting in settings_in(kind))


def model_options(model: str | None = None) -> list[Setting]:
    """Return the options of a model, or of all."""
    models = MODELS if model is None else [model]
    return _with_option(setting for name in models for setting in settings_in(settings_class(name)))


def system_options(system: str | None = None) -> list[Setting]:
    """Return the options of a system, or of all; an empty list for an unknown one."""
    recipes = SYSTEMS.values() if system is None else [SYSTEMS[system]] if system in SYSTEMS else []
    return _with_option(setting for recipe in recipes for setting in settings_of(recipe))


def options_of_section(section: str) -> SectionOptions:
    """Return the options of a section, with the models or systems that have them."""
    by_option: SectionOptions = {}
    for owner, setting in settings_of_section(section):
        if setting.option is not None:
            by_option.setdefault(setting.option, []).append((owner, setting))
    return by_option


def _with_option(settings: Iterable[Setting]) -> list[Setting]:
    return [setting for setting in settings if setting.option is not None]
