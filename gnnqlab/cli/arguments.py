"""Build the ``argparse`` arguments of an option from its settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from gnnqlab.settings import Setting

__all__ = ["Arguments", "OptionHelp", "arguments_of", "help_of", "help_text"]

Arguments = list[tuple[str, dict[str, Any]]]
"""Flags of an option, each with its keyword arguments for :meth:`argparse.ArgumentParser.add_argument`."""

_KINDS = {int: "INT", float: "FLOAT", str: "TEXT"}


@dataclass(frozen=True)
class OptionHelp:
    """One setting as help shows it: plain data, which can be stored in a file."""

    help: str
    owner: str = ""
    """Model or system that has the setting; empty for all."""
    metavar: str | None = None
    """Placeholder of the value; ``None`` for a switch."""
    default: str = ""
    """Default as text; empty for switches, and for values decided later."""
    on: bool = False
    """True for a switch that is on by default."""


def help_of(settings: list[tuple[str, Setting]]) -> list[OptionHelp]:
    """Return the settings of an option as help shows them, one for each model or system that has it."""
    return [
        OptionHelp(
            owner=owner,
            metavar=None if setting.kind is bool else _metavar(setting),
            help=" ".join(setting.help.replace("``", "").split()),
            default=setting.write(setting.default) if _has_default(setting) else "",
            on=setting.default is True,
        )
        for owner, setting in settings
    ]


def arguments_of(option: str, shown: Sequence[OptionHelp], place: str, *, hidden: str | None = None) -> Arguments:
    """Return the flags of an option; its value is stored as text until its setting, and so its type, is known.

    Args:
        option: name without leading dashes.
        shown: the settings that help describes.
        place: name of the value in the parser's result.
        hidden: help text in place of that of the settings, for an option that is accepted and not listed.
    """
    text = help_text(shown) if hidden is None else hidden
    if shown[0].metavar is not None:
        return [(f"--{option}", {"dest": place, "metavar": shown[0].metavar, "help": text})]
    # Stored as text like all values, so that one reader of the setting parses every option.
    switch = {"dest": place, "action": "store_const", "help": text}
    words: Arguments = []
    # Both flags if the models or systems with this option have different defaults.
    if not all(each.on for each in shown):
        words.append((f"--{option}", {**switch, "const": "true"}))
    if any(each.on for each in shown):
        words.append((f"--no-{option}", {**switch, "const": "false"}))
    return words


def help_text(shown: Collection[OptionHelp]) -> str:
    """Return the help of an option: text and default, once for each group of models or systems with the same text."""
    groups: dict[str, list[OptionHelp]] = {}
    for setting in shown:
        groups.setdefault(setting.help, []).append(setting)  # equal texts are listed once
    lines = []
    for text, group in groups.items():
        names = ", ".join(setting.owner for setting in group)
        lines.append(f"{names}: {text}{_default(group)}" if names else text + _default(group))
    return "\n".join(lines).replace("%", "%%")  # argparse formats help with %


def _default(group: list[OptionHelp]) -> str:
    """Return the default in parentheses, and all that differ from the first one."""
    defaults = {each.owner: each.default for each in group if each.default}
    if not defaults:
        return ""
    value = next(iter(defaults.values()))
    return f" (default: {'; '.join([value, *(f'{name}: {text}' for name, text in defaults.items() if text != value)])})"


def _has_default(setting: Setting) -> bool:
    return setting.default not in (None, dataclasses.MISSING) and setting.kind is not bool


def _metavar(setting: Setting) -> str:
    if setting.choices and setting.kind is str:
        return f"{{{','.join(setting.choices)}}}"
    return "LIST" if setting.many else _KINDS.get(setting.kind, "PATH")
