"""Options of a run for ``--help``, stored in a file, because reading them from models and systems imports torch.

After a change of an option, text or default: ``python -c "from gnnqlab.cli import kept_help; kept_help.write()"``.
"""

from __future__ import annotations

import json
from pathlib import Path

from gnnqlab.cli.arguments import Arguments, arguments_of

__all__ = ["FILE", "kept_sections", "live_sections", "write"]

FILE = Path(__file__).with_name("kept_help.json")


def live_sections() -> dict[str, dict[str, Arguments]]:
    """Return section -> option -> its arguments, read from models, systems and settings."""
    from gnnqlab.cli.sections import SECTIONS, taken

    return {
        section: {option: arguments_of(option, takers, option) for option, takers in taken(section).items()}
        for section in SECTIONS
    }


def kept_sections() -> dict[str, dict[str, Arguments]]:
    """Return section -> option -> its arguments, read from the file."""
    sections: dict[str, dict[str, Arguments]] = json.loads(FILE.read_text(encoding="utf-8"))
    return sections


def write() -> None:
    """Write the present options to the file."""
    FILE.write_text(_text(live_sections()), encoding="utf-8")


def _text(sections: dict[str, dict[str, Arguments]]) -> str:
    """Return the file's text: one line per option, so that diffs show each change separately."""
    blocks = []
    for section, options in sections.items():
        lines = [f"{json.dumps(name)}: {json.dumps(flags, ensure_ascii=False)}" for name, flags in options.items()]
        blocks.append(f"{json.dumps(section)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"
