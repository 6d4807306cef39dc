"""Options of a run for ``--help``, stored in a file, because reading them from models and systems imports torch.

After a change of an option, text or default: ``python -c "from gnnqlab.cli import kept_help; kept_help.write()"``.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from gnnqlab.cli.arguments import OptionHelp, help_of

__all__ = ["FILE", "stored_sections", "live_sections", "write"]

FILE = Path(__file__).with_name("kept_help.json")


def live_sections() -> dict[str, dict[str, list[OptionHelp]]]:
    """Return section -> option -> its settings, read from models, systems and settings."""
    from gnnqlab.cli.sections import SECTIONS, options_of_section

    return {
        section: {
            option: help_of(settings_of_section) for option, settings_of_section in options_of_section(section).items()
        }
        for section in SECTIONS
    }


def stored_sections() -> dict[str, dict[str, list[OptionHelp]]]:
    """Return section -> option -> its settings, read from the file."""
    sections = json.loads(FILE.read_text(encoding="utf-8"))
    return {
        section: {option: [OptionHelp(**each) for each in settings] for option, settings in options.items()}
        for section, options in sections.items()
    }


def write() -> None:
    """Write the present options to the file."""
    FILE.write_text(_text(live_sections()), encoding="utf-8")


def _text(sections: dict[str, dict[str, list[OptionHelp]]]) -> str:
    """Return the file's text: one line per option, so that diffs show each change separately."""
    blocks = []
    for section, options in sections.items():
        lines = [
            f"{json.dumps(name)}: {json.dumps([_without_defaults(each) for each in settings], ensure_ascii=False)}"
            for name, settings in options.items()
        ]
        blocks.append(f"{json.dumps(section)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _without_defaults(option_help: OptionHelp) -> dict[str, Any]:
    # Defaults of the dataclass are omitted; stored_sections restores them.
    return {name: value for name, value in dataclasses.asdict(option_help).items() if value not in ("", False)}
