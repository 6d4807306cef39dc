"""The words of a command line as options: those of a command, and those of a run that the settings say."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from gnnqlab.cli.arguments import Arguments, arguments_of, text_of
from gnnqlab.cli.kept_help import kept_sections, live_sections
from gnnqlab.cli.options import Options, look_here
from gnnqlab.settings import Setting, nearest, settings_in

__all__ = ["BadWords", "parse", "parser_of"]


class BadWords(Exception):
    """Words that are not understood; the message says why."""


def parse(name: str, command: type[Any], words: Sequence[str]) -> Any:
    """Return a command as the words after its name make it.

    Raises:
        BadWords: if a word is no option of the command.
        ValueError: if a value is not of its option's type, or there is no such model.
    """
    own = {setting.name: setting for setting in settings_in(command)}
    asks = not {"-h", "--help"}.isdisjoint(words)
    if issubclass(command, Options):
        words = _with_models_known(words)
    parser, known = parser_of(name, command, kept=asks and "torch" not in sys.modules)
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


def _with_models_known(words: Sequence[str]) -> list[str]:
    """Return the words with a name for each model that ``--model module:function`` says; its options are known then."""
    before = _Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    before.add_argument("--model")
    found, others = before.parse_known_args(list(words))
    if ":" not in getattr(found, "model", ""):
        return list(words)
    from gnnqlab.cli.grid import models_in
    from gnnqlab.nn.models.registry import named

    look_here()
    return [*others, "--model", ",".join(named(model) for model in models_in(found.model))]


def parser_of(name: str, command: type[Any], *, kept: bool = False) -> tuple[_Parser, list[Setting]]:
    """Return a parser with a group for each section, and every setting that it knows.

    Args:
        name: what the command is called.
        command: its class.
        kept: take the options of models and systems from the file that help has, and know no settings of theirs.
    """
    own = {setting.name: setting for setting in settings_in(command)}
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
            options.add_argument(setting.name, help=text_of([("", setting)]))
        elif setting.option is not None:
            _add(options, arguments_of(setting.option, [("", setting)], setting.name))
    if issubclass(command, Options):
        said = {setting.option for setting in known}
        for section, options_there in (kept_sections() if kept else live_sections()).items():
            group = parser.add_argument_group(section)
            for option, arguments in options_there.items():
                if option not in said:
                    _add(group, arguments)
                said.add(option)
        if not kept:
            from gnnqlab.cli.sections import SECTIONS, taken

            known += [takers[0][1] for section in SECTIONS for takers in taken(section).values()]
    return parser, known


def _add(group: Any, arguments: Arguments) -> None:
    for word, told in arguments:
        group.add_argument(word, **told)


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
