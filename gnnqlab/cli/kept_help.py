"""Options of a run for ``--help``, stored in a file, because reading them from models and systems imports torch.

After a change of an option, text or default: ``python -c "from gnnqlab.cli import kept_help; kept_help.write()"``.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from gnnqlab.cli.arguments import Shown, shown_of

__all__ = ["FILE", "kept_sections", "live_sections", "write"]

FILE = Path(__file__).with_name("kept_help.json")


def live_sections() -> dict[str, dict[str, list[Shown]]]:
    """Return section -> option -> its settings, read from models, systems and settings."""
    from gnnqlab.cli.sections import SECTIONS, taken

    return {section: {option: shown_of(takers) for option, takers in taken(section).items()} for section in SECTIONS}


def kept_sections() -> dict[str, dict[str, list[Shown]]]:
    """Return section -> option -> its settings, read from the file."""
    sections = json.loads(FILE.read_text(encoding="utf-8"))
    return {
        section: {option: [Shown(**each) for each in shown] for option, shown in options.items()}
        for section, options in sections.items()
    }


def write() -> None:
    """Write the present options to the file."""
    FILE.write_text(_text(live_sections()), encoding="utf-8")


def _text(sections: dict[str, dict[str, list[Shown]]]) -> str:
    """Return the file's text: one line per option, so that diffs show each change separately."""
    blocks = []
    for section, options in sections.items():
        lines = [
            f"{json.dumps(name)}: {json.dumps([_without_defaults(each) for each in shown], ensure_ascii=False)}"
            for name, shown in options.items()
        ]
        blocks.append(f"{json.dumps(section)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _without_defaults(shown: Shown) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(shown).items() if value not in ("", False)}
