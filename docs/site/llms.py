"""``llms.txt``: titles, addresses and first sentences of the pages in one file of text, for language models."""

from __future__ import annotations

import re
from pathlib import Path

from docs.site.gather import ROOT

__all__ = ["llms_text"]

_INDEX = Path(__file__).parent / "pages" / "index.md"
_SUMMARY = (
    "Training of graph neural networks on full graphs, distributed over workers, with quantized messages. "
    "One call, `gnnqlab.launch(graph, system=..., workers=...)`, returns a run; its files are in a run folder."
)


def llms_text(extension: str = ".md") -> str:
    """Return the text, with a section for each caption of the site's navigation.

    Args:
        extension: ``.md`` for links between files of the repository, ``.html`` for those of the site.
    """
    lines = ["# gnnqlab", "", f"> {_SUMMARY}"]
    for caption, entries in re.findall(r":caption: (.+?)\n\n(.*?)```", _INDEX.read_text(encoding="utf-8"), re.S):
        paths = [ROOT / f"{entry}.md" for entry in entries.split()]
        # Pages that are made during the build, such as the reference, have no file.
        pages = [_line(path, extension) for path in paths if path.exists()]
        lines += ["", f"## {caption}", "", *pages]
    return "\n".join(lines) + "\n"


def _line(path: Path, extension: str) -> str:
    text = path.read_text(encoding="utf-8")
    title = re.search(r"^# (.+)$", text, re.M)
    # The first paragraph of words: no heading, table, picture, list or code.
    words = re.search(r"\n\n(?=[A-Za-z`\[])(?!```)(.+?)(?<=[.:])(?:\s|$)", text, re.S)
    address = path.relative_to(ROOT).with_suffix(extension).as_posix()
    summary = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(words[1].split())).rstrip(":") if words else ""
    return f"- [{title[1] if title else path.stem}]({address}): {summary}".rstrip(": ")
