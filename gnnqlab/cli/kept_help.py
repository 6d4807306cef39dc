"""The options of a run as ``--help`` shows them, kept in a file: to ask models and systems for them imports torch.

After an option, a text or a default has changed: ``python -c "from gnnqlab.cli import kept_help; kept_help.write()"``.
"""

from __future__ import annotations

import json
from pathlib import Path

from gnnqlab.cli.arguments import Arguments, arguments_of

__all__ = ["FILE", "kept_sections", "live_sections", "write"]

FILE = Path(__file__).with_name("kept_help.json")


def live_sections() -> dict[str, dict[str, Arguments]]:
    """Return section -> option -> its arguments, as models, systems and settings say them now."""
    from gnnqlab.cli.sections import SECTIONS, taken

    return {
        section: {option: arguments_of(option, takers, option) for option, takers in taken(section).items()}
        for section in SECTIONS
    }


def kept_sections() -> dict[str, dict[str, Arguments]]:
    """Return the same from the file."""
    sections: dict[str, dict[str, Arguments]] = json.loads(FILE.read_text(encoding="utf-8"))
    return sections


def write() -> None:
    """Keep the options as they are now."""
    FILE.write_text(_text(live_sections()), encoding="utf-8")


def _text(sections: dict[str, dict[str, Arguments]]) -> str:
    """Return the file's text: a line an option, so that changes of several stay apart."""
    blocks = []
    for section, options in sections.items():
        lines = [f"{json.dumps(option)}: {json.dumps(said, ensure_ascii=False)}" for option, said in options.items()]
        blocks.append(f"{json.dumps(section)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"
