"""An option as ``argparse`` takes it, made of the settings that it sets."""

from __future__ import annotations

import dataclasses
from typing import Any

from gnnqlab.settings import Setting

__all__ = ["Arguments", "arguments_of", "text_of"]

Arguments = list[tuple[str, dict[str, Any]]]
"""For each word of an option, what :meth:`argparse.ArgumentParser.add_argument` is told beside it."""

_KINDS = {int: "INT", float: "FLOAT", str: "TEXT"}


def arguments_of(option: str, takers: list[tuple[str, Setting]], place: str) -> Arguments:
    """Return the words of an option; its value stays the text that was typed until it is known who takes it."""
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
    """Return the help of an option: a text and its default, for each group of takers that share the text."""
    alike: dict[str, list[tuple[str, Setting]]] = {}
    for taker, setting in takers:
        alike.setdefault(" ".join(setting.help.replace("``", "").split()), []).append((taker, setting))
    told = []
    for text, group in alike.items():
        names = ", ".join(name for name, _ in group)
        told.append(f"{names}: {text}{_usual(group)}" if names else text + _usual(group))
    return "\n".join(told).replace("%", "%%")


def _usual(group: list[tuple[str, Setting]]) -> str:
    """Return the default, and whose differs from the first one's; of what is on or off or settled later, nothing."""
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
