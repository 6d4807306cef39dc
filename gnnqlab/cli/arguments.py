"""Build the ``argparse`` arguments of an option from its settings."""

from __future__ import annotations

import dataclasses
from typing import Any

from gnnqlab.settings import Setting

__all__ = ["Arguments", "arguments_of", "text_of"]

Arguments = list[tuple[str, dict[str, Any]]]
"""Flags of an option, each with its keyword arguments for :meth:`argparse.ArgumentParser.add_argument`."""

_KINDS = {int: "INT", float: "FLOAT", str: "TEXT"}


def arguments_of(option: str, takers: list[tuple[str, Setting]], place: str) -> Arguments:
    """Return the flags of an option; its value is stored as text until its setting, and so its type, is known."""
    kind, text = takers[0][1].kind, text_of(takers)
    if kind is not bool:
        return [(f"--{option}", {"dest": place, "metavar": _metavar(takers[0][1]), "help": text})]
    switch = {"dest": place, "action": "store_const", "help": text}
    words: Arguments = []
    if any(setting.default is not True for _, setting in takers):
        words.append((f"--{option}", {**switch, "const": "true"}))
    if any(setting.default is True for _, setting in takers):
        words.append((f"--no-{option}", {**switch, "const": "false"}))
    return words


def text_of(takers: list[tuple[str, Setting]]) -> str:
    """Return the help of an option: text and default, once for each group of models or systems with the same text."""
    groups: dict[str, list[tuple[str, Setting]]] = {}
    for taker, setting in takers:
        groups.setdefault(" ".join(setting.help.replace("``", "").split()), []).append((taker, setting))
    lines = []
    for text, group in groups.items():
        names = ", ".join(name for name, _ in group)
        lines.append(f"{names}: {text}{_usual(group)}" if names else text + _usual(group))
    return "\n".join(lines).replace("%", "%%")  # argparse formats help with %


def _usual(group: list[tuple[str, Setting]]) -> str:
    """Return the default, and all that differ from the first one; empty for switches and for values decided later."""
    defaults = {name: setting.write(setting.default) for name, setting in group if _has_default(setting)}
    if not defaults:
        return ""
    first = next(iter(defaults.values()))
    return f" (default: {'; '.join([first, *(f'{name}: {text}' for name, text in defaults.items() if text != first)])})"


def _has_default(setting: Setting) -> bool:
    return setting.default not in (None, dataclasses.MISSING) and setting.kind is not bool


def _metavar(setting: Setting) -> str:
    if setting.choices and setting.kind is str:
        return f"{{{','.join(setting.choices)}}}"
    return "LIST" if setting.many else _KINDS.get(setting.kind, "PATH")
