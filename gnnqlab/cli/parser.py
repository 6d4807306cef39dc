"""The words of a command line as options: those of a command, and those of a run that the settings say."""

from __future__ import annotations

import argparse
import dataclasses
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from gnnqlab.cli.options import Options
from gnnqlab.settings import Setting, nearest, settings_in

__all__ = ["BadWords", "parse"]

_KINDS = {int: "INT", float: "FLOAT", str: "TEXT"}


class BadWords(Exception):
    """Words that are not understood; the message says why."""


def parse(name: str, command: type[Any], words: Sequence[str]) -> Any:
    """Return a command as the words after its name make it.

    Raises:
        BadWords: if a word is no option of the command.
        ValueError: if a value is not of its option's type.
    """
    own = {setting.name: setting for setting in settings_in(command)}
    parser, known = _parser(name, command, own)
    found, strange = parser.parse_known_args([_hyphens(word) for word in words])
    if strange:
        near = nearest(strange[0].partition("=")[0].lstrip("-").replace("-", "_"), known)
        hint = next((f"; did you mean --{each.option}" for each in known if each.name == near), "")
        raise BadWords(f"{' '.join(strange)} is no option of gnnqlab {name}{hint}")
    given: dict[str, str] = vars(found)
    values: dict[str, Any] = {
        each: own[each].read(given.pop(each), said=_shown(own[each])) for each in own & given.keys()
    }
    return command(**values, **({"given": given} if issubclass(command, Options) else {}))


def _parser(name: str, command: type[Any], own: dict[str, Setting]) -> tuple[_Parser, list[Setting]]:
    """Return a parser with a group for each section, and every setting that it knows."""
    positional = "".join(f"{each.name.upper()} " for each in own.values() if each.default is dataclasses.MISSING)
    parser = _Parser(
        prog=f"gnnqlab {name}",
        usage=f"gnnqlab {name} {positional}[OPTIONS]",
        description=command.__doc__,
        formatter_class=_Help,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    options, known = parser.add_argument_group("options of the command"), list(own.values())
    for setting in known:
        if setting.default is dataclasses.MISSING:
            options.add_argument(setting.name, help=_text([("", setting)]))
        elif setting.option is not None:
            _add(options, setting.option, [("", setting)], setting.name)
    if issubclass(command, Options):
        from gnnqlab.cli.sections import SECTIONS, taken

        said = {setting.option for setting in known}
        for section in SECTIONS:
            group = parser.add_argument_group(section)
            for option, takers in taken(section).items():
                known.append(takers[0][1])
                if option not in said:
                    _add(group, option, takers, option)
                said.add(option)
    return parser, known


def _add(group: Any, option: str, takers: list[tuple[str, Setting]], place: str) -> None:
    """Add an option; its value stays the text that was typed until it is known who takes it."""
    kind, text = takers[0][1].kind, _text(takers)
    if kind is not bool:
        group.add_argument(f"--{option}", dest=place, metavar=_metavar(takers[0][1]), help=text)
        return
    if any(setting.default is not True for _, setting in takers):
        group.add_argument(f"--{option}", dest=place, action="store_const", const="true", help=text)
    if any(setting.default is True for _, setting in takers):
        group.add_argument(f"--no-{option}", dest=place, action="store_const", const="false", help=text)


def _text(takers: list[tuple[str, Setting]]) -> str:
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


def _shown(setting: Setting) -> str:
    return setting.name if setting.default is dataclasses.MISSING else f"--{setting.option}"


def _hyphens(word: str) -> str:
    """Return an option with hyphens; --group_size is understood as well."""
    if not word.startswith("--"):
        return word
    option, sign, value = word.partition("=")
    return option.replace("_", "-") + sign + value


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadWords(message.replace("argument ", "", 1))


class _Help(argparse.HelpFormatter):
    """Keeps the lines of a text: one for each group of takers."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return [line for part in text.splitlines() for line in textwrap.wrap(part, width)]
