"""`make slides`: the notebooks as slides, with their saved figures and without code.

A heading begins a slide, what follows it is below: the right arrow goes from question to question, the down arrow
into one. Cells without a figure or a table are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["main", "slides"]

ROOT = Path(__file__).parents[2]
_REVEAL = "https://unpkg.com/reveal.js@4.0.2"
"""Public address of the scripts of reveal.js, which nbconvert does not bring along."""
_SEEN = {"image/svg+xml", "image/png", "text/html"}


def slides(path: Path, *, reveal: str = _REVEAL) -> str:
    """Return the slides of one notebook as an HTML page.

    Args:
        path: the notebook.
        reveal: address or folder of reveal.js.

    Raises:
        RuntimeError: if nbconvert is missing.
    """
    try:
        import nbformat
        from nbconvert import SlidesExporter
    except ImportError:
        raise RuntimeError("slides need nbconvert; pip install nbconvert") from None
    book = nbformat.read(path, as_version=4)
    for cell in book.cells:
        cell.metadata["slideshow"] = {"slide_type": _type(cell)}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if _SEEN & set(output.get("data", {}))]
    exporter = SlidesExporter(reveal_url_prefix=reveal, exclude_input=True, exclude_output_prompt=True)
    page, _ = exporter.from_notebook_node(book)
    return str(page)


def _type(cell: Any) -> str:
    """Return the place of a cell: a new slide, one below it, or none."""
    if cell.cell_type == "markdown":
        return "slide" if cell.source.startswith("#") else "subslide"
    has_figure = any(_SEEN & set(output.get("data", {})) for output in cell.outputs)
    return "subslide" if has_figure else "skip"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the slides of all notebooks, or of some by number."""
    parser = argparse.ArgumentParser(description="Write the notebooks as slides.")
    parser.add_argument("numbers", nargs="*", help="two digits each; default: all notebooks")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "slides")
    parser.add_argument("--reveal", default=_REVEAL, help="folder with reveal.js, for rooms without a network")
    options = parser.parse_args(arguments)
    books = sorted((ROOT / "notebooks").glob("*.ipynb"))
    unknown = set(options.numbers) - {book.name[:2] for book in books}
    if unknown:
        parser.error(f"a number must be that of a notebook, in two digits as in 04, got {', '.join(sorted(unknown))}")
    options.out.mkdir(parents=True, exist_ok=True)
    for book in books:
        if not options.numbers or book.name[:2] in options.numbers:
            page = options.out / f"{book.stem}.html"
            page.write_text(slides(book, reveal=options.reveal), encoding="utf-8")
            print(page)


if __name__ == "__main__":
    main()
