"""Parse a command line: options of the command, and options of a run derived from its settings."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from gnnqlab.cli.arguments import Arguments, OptionHelp, arguments_of, help_of, help_text
from gnnqlab.cli.kept_help import live_sections, stored_sections
from gnnqlab.cli.options import Options, add_working_folder
from gnnqlab.settings import Setting, nearest, settings_in

__all__ = ["UsageError", "parse", "parser_of"]

_HELP_ALL = "--help-all"
_EPILOG = "Options of model {models} and system {systems}. --model NAME --system NAME --help shows those of others, \
--help-all those of all."


class UsageError(Exception):
    """Error of an invalid command line, with the reason."""


def parse(name: str, command: type[Any], words: Sequence[str]) -> Any:
    """Return a command with the options after its name.

    Raises:
        UsageError: if a word is not an option of the command.
        ValueError: if a value does not have its option's type, or a model is unknown.
    """
    own = {setting.name: setting for setting in settings_in(command)}
    wants_help = not {"-h", "--help", _HELP_ALL}.isdisjoint(words)
    if issubclass(command, Options):
        words = _register_models(words)
    chosen = _names_by_section(command, own, words) if wants_help and _HELP_ALL not in words else None
    # Help alone does not need torch: without it the stored options are shown much sooner.
    parser, known = parser_of(name, command, stored=wants_help and "torch" not in sys.modules, chosen=chosen)
    namespace, unknown = parser.parse_known_args(_present_options([_hyphens(word) for word in words], known))
    if unknown:
        raise UsageError(f"{' '.join(unknown)} is no option of gnnqlab {name}{_hint(unknown, known)}")
    texts: dict[str, str] = vars(namespace)
    values: dict[str, Any] = {
        each: own[each].read(texts.pop(each), label=_display_name(own[each])) for each in own & texts.keys()
    }
    return command(**values, **({"option_texts": texts} if issubclass(command, Options) else {}))


def _hint(unknown: Sequence[str], known: Sequence[Setting]) -> str:
    """Return a way to write an unknown option, with its punctuation; empty if there is none."""
    option, _, value = unknown[0].lstrip("-").partition("=")
    if "replace" in {each.name for each in known}:
        from gnnqlab.systems.parts import PARTS

        if option in PARTS:
            value = value or next(iter(unknown[1:]), "PART")
            return f"; a part of the axis {option} is set by --replace {option}={value}"
    near = nearest(option.replace("-", "_"), known)
    return next((f"; did you mean --{each.option}" for each in known if each.name == near), "")


def _register_models(words: Sequence[str]) -> list[str]:
    """Register the models of ``--model module:function``, so that their options exist; return the words with names."""
    before = _Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    before.add_argument("--model")
    found, others = before.parse_known_args(list(words))
    if ":" not in getattr(found, "model", ""):  # a registered name
        return list(words)
    from gnnqlab.cli.grid import models_in
    from gnnqlab.nn.models.registry import named

    add_working_folder()
    return [*others, "--model", ",".join(named(model) for model in models_in(found.model))]


def _names_by_section(
    command: type[Any], own: Mapping[str, Setting], words: Sequence[str]
) -> dict[str, list[str]] | None:
    """Return the models and the systems of a command line, by section; ``None`` if the command has neither.

    Raises:
        ValueError: if a model or a system does not exist.
    """
    if not issubclass(command, Options):
        return None
    before = _Parser(add_help=False, allow_abbrev=False)
    names = {"model": "model", "system": "systems" if "systems" in own else "system"}
    for setting in names.values():
        before.add_argument(f"--{setting}", default=own[setting].default if setting in own else "")
    found, _ = before.parse_known_args(list(words))
    chosen = {
        section: [each.partition(":")[0] for each in vars(found)[setting].split(",")]
        for section, setting in names.items()
    }
    for section, setting in names.items():
        if vars(found)[setting] != before.get_default(setting):
            _check_names(section, chosen[section])
    return chosen


def _check_names(section: str, names: Sequence[str]) -> None:
    stored = {each.owner for shown in stored_sections()[section].values() for each in shown}
    for name in set(names) - stored:  # those without options are not stored, so torch is imported to find them
        from gnnqlab.nn.models.registry import settings_class
        from gnnqlab.systems.registry import make_system

        (make_system if section == "system" else settings_class)(name)  # raises an error with the names that exist


def parser_of(
    name: str, command: type[Any], *, stored: bool = False, chosen: Mapping[str, Sequence[str]] | None = None
) -> tuple[_Parser, list[Setting]]:
    """Return a parser with a group for each section, and all settings behind its options.

    Args:
        name: of the command.
        command: its class.
        stored: True to take the options of models and systems from the stored help, without their settings.
        chosen: section ``model`` or ``system`` -> names whose options help lists; by default those of all.
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
            options.add_argument(setting.name, help=help_text(help_of([("", setting)])))
        elif setting.option is not None:
            _add(options, arguments_of(setting.option, help_of([("", setting)]), setting.name))
    if issubclass(command, Options):
        parser.add_argument(_HELP_ALL, action="help", help="show the options of all models and systems, and exit")
        if chosen is not None:
            parser.epilog = _EPILOG.format(models=", ".join(chosen["model"]), systems=", ".join(chosen["system"]))
        added = {setting.option for setting in known}
        for section, section_options in (stored_sections() if stored else live_sections()).items():
            group = parser.add_argument_group(section)  # heading of the section in the help
            for option, shown in section_options.items():
                if option not in added:  # a model and a system may have an option of the same name
                    own_ones = _filter_by_name(shown, None if chosen is None else chosen.get(section))
                    hidden = None if own_ones else argparse.SUPPRESS  # still accepted, but not listed
                    _add(group, arguments_of(option, own_ones or shown, option, hidden=hidden))
                added.add(option)
        if not stored:
            from gnnqlab.cli.sections import SECTIONS, options_of_section

            known += [settings[0][1] for section in SECTIONS for settings in options_of_section(section).values()]
    return parser, known


def _filter_by_name(shown: Sequence[OptionHelp], names: Sequence[str] | None) -> list[OptionHelp]:
    """Return the settings of some models or systems; a name is left out of the text where there is only one."""
    if names is None:
        return list(shown)
    found = [each for each in shown if each.owner in ("", *names)]
    return [dataclasses.replace(each, owner="") for each in found] if len(names) == 1 else found


def _add(group: Any, arguments: Arguments) -> None:
    for flag, keywords in arguments:
        group.add_argument(flag, **keywords)


def _display_name(setting: Setting) -> str:
    return setting.name if setting.default is dataclasses.MISSING else f"--{setting.option}"


def _hyphens(word: str) -> str:
    """Return an option with hyphens, so that --group_size works as well."""
    if not word.startswith("--"):
        return word
    option, sign, value = word.partition("=")
    return option.replace("_", "-") + sign + value


def _present_options(words: list[str], known: list[Setting]) -> list[str]:
    """Return the words with present options in place of former ones, which are announced on standard error."""
    former = {f"--{each.name.replace('_', '-')}": (setting, each) for setting in known for each in setting.former}
    present: list[str] = []
    takes: Mapping[str, str] = {}
    for word in words:
        flag, sign, value = word.partition("=")
        if flag in former and former[flag][0].option is not None:
            setting, each = former[flag]
            takes = {} if sign else each.values  # without "=" the value is the next word
            word = f"--{setting.option}{sign}{each.values.get(value, value)}"
            print(f"gnnqlab: {flag} is --{setting.option} now; the former name is accepted until 1.0", file=sys.stderr)
        elif takes:  # the value of a former option
            word, takes = takes.get(word, word), {}
        present.append(word)
    return present


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message.replace("argument ", "", 1))


class _Help(argparse.HelpFormatter):
    """Formatter that preserves the line breaks of help texts."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return [line for part in text.splitlines() for line in textwrap.wrap(part, width)]
