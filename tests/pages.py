"""Pages whose code is run: the blocks of a page in Markdown, as they are written."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def blocks(page: Path, *, language: str = "python", under: str | None = None) -> list[str]:
    """Return the blocks of a page in a language, or those of one of its sections; there must be one."""
    text = page.read_text(encoding="utf-8")
    if under is not None:
        found = re.search(rf"^## {re.escape(under)}$(.*?)(?=^## |\Z)", text, re.S | re.M)
        assert found is not None, f"{page.name} has no section {under!r}"
        text = found[1]
    written = re.findall(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)
    assert written, f"{page.name} has no block of {language}"
    return written
