"""Parse a command line: options of the command, and options of a run derived from its settings."""

from __future__ import annotations

import argparse
import dataclasses
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from gnnqlab.cli.arguments import Arguments, OptionHelp, arguments_of, help_of, help_text
from gnnqlab.cli.kept_help import live_sections, stored_sections
from gnnqlab.cli.options import Options, add_working_folder
from gnnqlab.settings import Setting, nearest, settings_in

__all__ = ["UsageError", "parse", "parser_of"]

_HELP_ALL, _FURTHER = "--help-all", "further options"
_USUAL = {
    "graph", "model", "system", "systems", "workers", "epochs", "hidden", "link", "hosts", "seed", "seeds", "resume",
    "out", "json",
    # Of one command, which is called for them.
    "rank-by", "only", "estimate", "confirm", "trial-epochs", "target", "most-variance", "most-slower", "most-stale",
}  # fmt: skip
"""Options that plain ``--help`` explains; it names the others."""


class UsageError(Exception):
    """Error of an invalid command line, with the reason."""


def parse(name: str, command: type[Any], words: Sequence[str]) -> Any:
    """Return a command with the options after its name.

    Raises:
        UsageError: if a word is not an option of the command.
        ValueError: if a value does not have its option's type, or a model is unknown.
    """
    fields = {setting.name: setting for setting in settings_in(command)}
    wants_help = not {"-h", "--help", _HELP_ALL}.isdisjoint(words)
    if issubclass(command, Options):
        words = _register_models(words)
    help_names = _chosen_names(command, fields, words) if wants_help and _HELP_ALL not in words else None
    # Help alone does not need torch: without it the stored options are shown much sooner.
    parser, settings = parser_of(name, command, stored=wants_help and "torch" not in sys.modules, chosen=help_names)
    namespace, unknown_words = parser.parse_known_args(_present_options([_hyphens(word) for word in words], settings))
    if unknown_words:
        raise UsageError(f"{' '.join(unknown_words)} is no option of gnnqlab {name}{_hint(unknown_words, settings)}")
    texts: dict[str, str] = vars(namespace)
    values: dict[str, Any] = {
        key: fields[key].read(texts.pop(key), label=_display_name(fields[key])) for key in fields & texts.keys()
    }
    return command(**values, **({"option_texts": texts} if issubclass(command, Options) else {}))


def _hint(unknown_words: Sequence[str], settings: Sequence[Setting]) -> str:
    """Return a way to write an unknown option, with its punctuation; empty if there is none."""
    option, _, value = unknown_words[0].lstrip("-").partition("=")
    if "replace" in {setting.name for setting in settings}:
        from gnnqlab.systems.parts import PARTS

        if option in PARTS:
            value = value or next(iter(unknown_words[1:]), "PART")
            return f"; a part of the axis {option} is set by --replace {option}={value}"
    nearest_name = nearest(option.replace("-", "_"), settings)
    return next((f"; did you mean --{setting.option}" for setting in settings if setting.name == nearest_name), "")


def _register_models(words: Sequence[str]) -> list[str]:
    """Register the models of ``--model module:function``, so that their options exist; return the words with names."""
    model_parser = _Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    model_parser.add_argument("--model")
    namespace, other_words = model_parser.parse_known_args(list(words))
    if ":" not in getattr(namespace, "model", ""):  # a registered name
        return list(words)
    from gnnqlab.cli.grid import models_in
    from gnnqlab.nn.models.registry import named

    add_working_folder()
    return [*other_words, "--model", ",".join(named(model) for model in models_in(namespace.model))]


def _chosen_names(
    command: type[Any], fields: Mapping[str, Setting], words: Sequence[str]
) -> dict[str, list[str]] | None:
    """Return the models and the systems that a command line names, by section; ``None`` if the command takes neither.

    Raises:
        ValueError: if a model or a system does not exist.
    """
    if not issubclass(command, Options):
        return None
    names_parser = _Parser(add_help=False, allow_abbrev=False)
    names = {"model": "model", "system": "systems" if "systems" in fields else "system"}
    for setting in names.values():
        names_parser.add_argument(f"--{setting}", default=fields[setting].default if setting in fields else "")
    namespace, _ = names_parser.parse_known_args(list(words))
    names_by_section = {
        section: [each.partition(":")[0] for each in vars(namespace)[setting].split(",")]
        for section, setting in names.items()
    }
    given = {
        section: any(word.partition("=")[0] == f"--{setting}" for word in words) for section, setting in names.items()
    }
    for section in names:
        if given[section]:
            _check_names(section, names_by_section[section])
    return {section: chosen for section, chosen in names_by_section.items() if given[section]}


def _check_names(section: str, names: Sequence[str]) -> None:
    stored_names = {each.owner for settings in stored_sections()[section].values() for each in settings}
    for name in set(names) - stored_names:  # those without options are not stored, so torch is imported to find them
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
        chosen: section ``model`` or ``system`` -> names whose options help explains in addition to the usual ones; the
            others are named below. By default help explains all.
    """
    fields = {setting.name: setting for setting in settings_in(command)}
    words = [
        f"{each.name.upper()} " if each.option else f"[{each.name.upper()}] "
        for each in fields.values()
        if _is_word(each)
    ]
    positional = "".join(words)
    parser = _Parser(
        prog=f"gnnqlab {name}",
        usage=f"gnnqlab {name} {positional}[OPTIONS]",
        description=command.__doc__,
        formatter_class=_Help,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    is_short = chosen is not None
    options, all_options = parser.add_argument_group("options of the command"), list(fields.values())
    unexplained: dict[str, list[str]] = {}  # section -> options that are only named
    for setting in all_options:
        helps = help_of([("", setting)])
        if _is_word(setting):
            count: dict[str, Any] = {} if setting.option else {"nargs": "?"}  # "?": it may be left out
            options.add_argument(setting.name, help=help_text(helps), **count)
        elif setting.option is not None:
            hidden = _short_text(setting.option, helps, "command", unexplained) if is_short else None
            _add(options, arguments_of(setting.option, helps, setting.name, hidden=hidden))
    if issubclass(command, Options):
        parser.add_argument(_HELP_ALL, action="help", help="explain all options, and exit")
        added_options = {setting.option for setting in all_options}
        for section, section_options in (stored_sections() if stored else live_sections()).items():
            group = parser.add_argument_group(section)  # heading of the section in the help
            for option, option_helps in section_options.items():
                if option not in added_options:  # a model and a system may have an option of the same name
                    names = None if chosen is None else chosen.get(section)
                    own_ones = _filter_by_name(option_helps, names)
                    hidden = None if own_ones else argparse.SUPPRESS  # still accepted, but not listed
                    if is_short and names is None:
                        hidden = _short_text(option, option_helps, section, unexplained)
                    _add(group, arguments_of(option, own_ones or option_helps, option, hidden=hidden))
                added_options.add(option)
        if is_short:
            parser.epilog = _unexplained_text(unexplained)
        if not stored:
            from gnnqlab.cli.sections import SECTIONS, options_of_section

            all_options += [settings[0][1] for section in SECTIONS for settings in options_of_section(section).values()]
    return parser, all_options


def _short_text(option: str, helps: Sequence[OptionHelp], section: str, unexplained: dict[str, list[str]]) -> str:
    """Return the first sentence of a usual option's help; suppress that of another one, and note its name."""
    if option in _USUAL:
        first = dataclasses.replace(helps[0], help=re.split(r"(?<=[.;]) ", helps[0].help)[0].rstrip(".;"))
        return help_text([dataclasses.replace(first, owner="")])
    unexplained.setdefault(section, []).append(f"--{option}")
    return argparse.SUPPRESS


def _unexplained_text(unexplained: Mapping[str, Sequence[str]]) -> str:
    """Return the names of options without help, one paragraph for each section."""
    width = min(shutil.get_terminal_size().columns, 100) - 2
    lines = [f"{_FURTHER}, explained by {_HELP_ALL}; --system NAME --model NAME --help explains theirs:"]
    for section, names in unexplained.items():
        text = f"{section}: {' '.join(names)}"
        lines += textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines)


def _filter_by_name(option_helps: Sequence[OptionHelp], names: Sequence[str] | None) -> list[OptionHelp]:
    """Return the settings of some models or systems; a name is left out of the text where there is only one."""
    if names is None:
        return list(option_helps)
    matches = [each for each in option_helps if each.owner in ("", *names)]
    return [dataclasses.replace(each, owner="") for each in matches] if len(names) == 1 else matches


def _add(group: Any, arguments: Arguments) -> None:
    for flag, keywords in arguments:
        group.add_argument(flag, **keywords)


def _is_word(setting: Setting) -> bool:
    """Return True if the value of a setting is a word without a name."""
    return setting.default is dataclasses.MISSING or setting.option == ""


def _display_name(setting: Setting) -> str:
    return setting.name if _is_word(setting) else f"--{setting.option}"


def _hyphens(word: str) -> str:
    """Return an option with hyphens, so that --group_size works as well."""
    if not word.startswith("--"):
        return word
    option, sign, value = word.partition("=")
    return option.replace("_", "-") + sign + value


def _present_options(words: list[str], settings: list[Setting]) -> list[str]:
    """Return the words with present options in place of former ones, which are announced on standard error."""
    flags = {f"--{alias.name.replace('_', '-')}": (setting, alias) for setting in settings for alias in setting.former}
    present_words: list[str] = []
    former_values: Mapping[str, str] = {}
    for word in words:
        flag, sign, value = word.partition("=")
        if flag in flags and flags[flag][0].option is not None:
            setting, alias = flags[flag]
            former_values = {} if sign else alias.values  # without "=" the value is the next word
            word = f"--{setting.option}{sign}{alias.values.get(value, value)}"
            print(f"gnnqlab: {flag} is --{setting.option} now; the former name is accepted until 1.0", file=sys.stderr)
        elif former_values:  # the value of a former option
            word, former_values = former_values.get(word, word), {}
        present_words.append(word)
    return present_words


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message.replace("argument ", "", 1))


class _Help(argparse.HelpFormatter):
    """Formatter that preserves the line breaks of help texts."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return [line for part in text.splitlines() for line in textwrap.wrap(part, width)]

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        is_list = text.startswith(_FURTHER)  # it has its own lines
        return text if is_list else super()._fill_text(text, width, indent)
