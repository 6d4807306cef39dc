"""Glossary of the course, `notebooks/glossary.md`: the page of the documentation without pictures and other pages.

    python -m docs.site.course_glossary

Copies of the notebooks, also those of a wheel, which has no documentation, link to it.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["FILE", "course_glossary"]

_ROOT = Path(__file__).parents[2]
FILE = _ROOT / "notebooks" / "glossary.md"
_PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)\n\n\*.*?\*\n\n", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:)[^)]*\)")


def course_glossary() -> str:
    """Return the text: pictures are left out with their captions, and links to files are their words."""
    return _LINK.sub(r"\1", _PICTURE.sub("", (_ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")))


if __name__ == "__main__":
    FILE.write_text(course_glossary(), encoding="utf-8")
