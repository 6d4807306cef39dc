"""All settings of a run by name: signature and help of ``gq.launch``."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, Literal

from gnnqlab.nn.models import MODELS, ModelSettings
from gnnqlab.nn.models.registry import settings_class
from gnnqlab.settings import Setting, parameters_of, settings_in
from gnnqlab.systems.registry import SYSTEMS
from gnnqlab.systems.settings import settings_of
from gnnqlab.train.config.configure import configure
from gnnqlab.train.config.run_config import LaunchSettings, TrainSettings
from gnnqlab.train.link_prediction.settings import TaskSettings

__all__ = [
    "PASSED_ON",
    "SECTIONS",
    "OwnedSetting",
    "keywords",
    "settings_of_section",
    "settings_text",
    "with_settings",
]

_KINDS: dict[str, type] = {"training": TrainSettings, "task": TaskSettings, "launch": LaunchSettings}
SECTIONS = ("training", "task", "model", "launch", "system")
OwnedSetting = tuple[str, Setting]
"""Model or system that has a setting, empty for all, and the setting."""
PASSED_ON = {
    "workers_per_host": ("int | None", "Alternative to ``workers``: number of workers on each of ``hosts``."),
    "partition": ("str | Partitioner | None", "Partitioner, or its name, in place of the system's own."),
}
"""Parameter of ``configure`` that ``launch`` passes on -> type and help."""


class _VaryingDefault:
    """Default that differs between models or systems."""

    def __init__(self, defaults: dict[str, Any]) -> None:
        self._defaults = defaults

    def __repr__(self) -> str:
        return " or ".join(dict.fromkeys(map(repr, self._defaults.values())))


def settings_of_section(section: str) -> Iterator[OwnedSetting]:
    """Yield the settings of a section, each with the model or system that has it."""
    if section in _KINDS:
        yield from (("", setting) for setting in settings_in(_KINDS[section]))
    elif section == "system":
        yield from ((name, setting) for name, recipe in SYSTEMS.items() for setting in settings_of(recipe))
    else:
        shared_settings = [setting for setting in settings_in(ModelSettings) if setting.name != "name"]
        yield from (("", setting) for setting in shared_settings)
        known_names = {"name", *(setting.name for setting in shared_settings)}
        own_settings = ((name, setting) for name in MODELS for setting in settings_in(settings_class(name)))
        yield from ((name, setting) for name, setting in own_settings if setting.name not in known_names)


def keywords() -> dict[str, list[OwnedSetting]]:
    """Return the settings that ``gq.launch`` takes in addition to its own parameters, by name."""
    own_settings = (setting for setting in parameters_of(configure) if setting.name in PASSED_ON)
    settings_by_name: dict[str, list[OwnedSetting]] = {
        setting.name: [("", dataclasses.replace(setting, help=PASSED_ON[setting.name][1]))] for setting in own_settings
    }
    for section in SECTIONS:
        for owner, setting in settings_of_section(section):
            settings_by_name.setdefault(setting.name, []).append((owner, setting))
    return settings_by_name


def with_settings(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function with every setting of a run in place of ``**settings``."""
    signature = inspect.signature(function)
    own_parameters = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    own_names = {each.name for each in own_parameters}
    setting_parameters = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=_default(users), annotation=_annotation(users[0][1])
        )
        for name, users in keywords().items()
        if name not in own_names
    ]
    return signature.replace(parameters=[*own_parameters, *setting_parameters])


def settings_text() -> str:
    """Return one paragraph for each section: names of the settings, their models or systems, and their help."""
    blocks = []
    for section in SECTIONS:
        by_name: dict[str, list[OwnedSetting]] = {}
        for owner, setting in settings_of_section(section):
            by_name.setdefault(setting.name, []).append((owner, setting))
        lines = [line for name, users in by_name.items() for line in _format_setting(name, users)]
        blocks.append("\n".join([f"Settings, {section}:", *lines]))
    return "\n\n".join(blocks)


def _format_setting(name: str, users: list[OwnedSetting]) -> Iterator[str]:
    by_help: dict[str, list[str]] = {}
    for owner, setting in users:
        by_help.setdefault(" ".join(setting.help.split()), []).append(owner)
    for text, names in by_help.items():
        owners_text = f" ({', '.join(names)})" if names != [""] else ""
        yield textwrap.fill(f"{name}{owners_text}: {text}", 100, initial_indent="    ", subsequent_indent="        ")


def _default(users: list[OwnedSetting]) -> Any:
    defaults = {owner: setting.default for owner, setting in users}
    first_default = next(iter(defaults.values()))
    return first_default if all(value == first_default for value in defaults.values()) else _VaryingDefault(defaults)


def _annotation(setting: Setting) -> Any:
    kind = Literal[setting.choices] if setting.kind is str and setting.choices else setting.kind
    return kind | None if setting.optional else kind
