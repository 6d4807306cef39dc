"""Pages whose code is run: the blocks of a page in Markdown."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def blocks(page: Path, *, language: str = "python") -> list[str]:
    """Return the blocks of a page in a language; there must be one."""
    written = re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.S | re.M)
    assert written, f"{page.name} has no block of {language}"
    return written


def section(page: Path, title: str) -> str:
    """Return the text below a heading of the second level; there must be one with this title."""
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", page.read_text(encoding="utf-8"), re.S | re.M)
    assert found is not None, f"{page.name} has no section {title!r}"
    return found[1]


def light_values(page: str) -> Any:
    """Return the values that a page without Plotly holds compressed."""
    packed = page.partition('id="values">')[2].partition("</script>")[0]
    return json.loads(gzip.decompress(base64.b64decode(packed)))
