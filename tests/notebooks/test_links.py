"""Links between notebooks lead to files that exist, and the index lists every notebook."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat

from tests.cases import each

FOLDER = Path(__file__).parent.parent.parent / "notebooks"
LINK = re.compile(r"\]\(([^)\s]+)\)")


def _links(path: Path) -> list[str]:
    book = nbformat.read(path, as_version=4)
    return [link for cell in book.cells if cell.cell_type == "markdown" for link in LINK.findall(cell.source)]


@each("path", sorted(FOLDER.glob("*.ipynb")))
def test_every_link_leads_to_a_file(path: Path) -> None:
    broken = [link for link in _links(path) if "://" not in link and not (FOLDER / link.partition("#")[0]).is_file()]
    assert not broken


@each("path", [path for path in sorted(FOLDER.glob("*.ipynb")) if not path.name.startswith("00_")])
def test_the_index_lists_it(path: Path) -> None:
    assert path.name in _links(FOLDER / "00_index.ipynb")


def _next_of(path: Path) -> Path | None:
    """Return the first notebook that the last section links to."""
    section = nbformat.read(path, as_version=4).cells[-1].source.partition("## What next?")[2]
    found = [link for link in LINK.findall(section) if link.endswith(".ipynb")]
    return FOLDER / found[0] if found else None


def test_one_path_leads_through_all_notebooks() -> None:
    seen, path = [], FOLDER / "00_index.ipynb"
    while path is not None and path not in seen:
        seen.append(path)
        path = _next_of(path)
    assert set(seen) == set(FOLDER.glob("*.ipynb"))
