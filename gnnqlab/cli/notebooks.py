"""``gnnqlab notebooks``: copy the course to a folder, without outputs, so that no answer is seen before the guess."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["SOLUTION", "Notebooks", "course_folder"]

SOLUTION = re.compile(r"<details><summary>A solution.*?</summary>(.*?)</details>", re.DOTALL)
"""Solution that a notebook folds under an exercise."""
_OTHER_PAGE = re.compile(r"\[([^\[\]]*)\]\(\.\./docs/[^)]*\)")


@dataclass(kw_only=True)
class Notebooks:
    """Copy the notebooks of the course to a folder, which is created if it does not exist."""

    folder: Path
    """Destination of the notebooks."""
    with_outputs: bool = False
    """Keep the saved outputs, which show all figures and answers."""
    nbgrader: bool = False
    """Add a graded cell of nbgrader after each numerical exercise."""
    only: str | None = None
    """Notebooks to copy, by their numbers, separated by commas, for instance 01,04; default: all."""
    without_solutions: bool = False
    """Leave out the solutions that are folded under exercises; gnnqlab course pack writes them for the teacher."""
    overwrite: bool = False
    """Replace modified notebooks in the folder."""
    json: bool = False
    """End standard output with one JSON object."""

    def run(self) -> dict[str, Any]:
        books = {book.name: self._text(book) for book in self._chosen()}
        glossary = (course_folder() / "glossary.md").read_text(encoding="utf-8")
        files = {**{name: _with_own_links(text) for name, text in books.items()}, "glossary.md": glossary}
        # All are checked before the first copy, so that a refusal leaves the folder unchanged.
        names = [name for name, text in files.items() if not self._can_write(name, text)]
        if names and not self.overwrite:
            raise ValueError(
                f"modified notebooks are not replaced by default, got {self.folder} with {', '.join(names)}; choose "
                "another folder, or --overwrite"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        if not self.json:
            print(f"{len(books)} notebooks in {self.folder}; start with: jupyter lab {self.folder / min(books)}")
        return {"notebooks": [str(self.folder / name) for name in books]}

    def _chosen(self) -> list[Path]:
        """Return the notebooks to copy.

        Raises:
            ValueError: if there is no notebook of a number.
        """
        by_number = {book.name[:2]: book for book in sorted(course_folder().glob("*.ipynb"))}
        if self.only is None:
            return list(by_number.values())
        numbers = [number.strip() for number in self.only.split(",")]
        for number in numbers:
            if number not in by_number:
                raise ValueError(f"only must be numbers of notebooks, {', '.join(by_number)}, got {number!r}")
        return [book for number, book in by_number.items() if number in numbers]

    def _text(self, book: Path) -> str:
        """Return the text of the copy of a notebook."""
        text = book.read_text(encoding="utf-8")
        if self.with_outputs and not (self.nbgrader or self.without_solutions):
            return text
        content = json.loads(text)
        if not self.with_outputs:
            for cell in content["cells"]:
                if cell["cell_type"] == "code":
                    cell |= {"outputs": [], "execution_count": None}
        if self.without_solutions:
            for cell in content["cells"]:
                if cell["cell_type"] == "markdown":
                    cell["source"] = SOLUTION.sub("", "".join(cell["source"])).splitlines(keepends=True)
            content["cells"] = [cell for cell in content["cells"] if "".join(cell["source"]).strip()]
        if self.nbgrader:
            content["cells"] = [copy for cell in content["cells"] for copy in (cell, *_graded_cells(cell))]
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    def _can_write(self, name: str, text: str) -> bool:
        target = self.folder / name
        # An identical copy may be written again.
        return not target.exists() or target.read_bytes() == text.encode()


def _with_own_links(text: str) -> str:
    """Return a notebook whose links to the glossary lead to its copy; other pages are not in the folder."""
    return _OTHER_PAGE.sub(r"\1", text.replace("](../docs/glossary.md", "](glossary.md"))


def _graded_cells(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the graded cell of nbgrader for an exercise: a locked test of one point; nothing for another cell."""
    found = re.search(r'^check\("([\d.a-z]+)", answer\)$', "".join(cell["source"]), re.MULTILINE)
    if cell["cell_type"] != "code" or found is None:
        return []
    name = found[1]
    mark = {
        "grade": True, "grade_id": f"test-{name.replace('.', '-')}", "locked": True, "points": 1,
        "schema_version": 3, "solution": False, "task": False, "cell_type": "code",
    }  # fmt: skip
    source = ["import gnnqlab as gq\n", "\n", f'assert gq.course.is_right("{name}", answer), "{name} is not right"']
    return [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": mark["grade_id"],
            "metadata": {"nbgrader": mark},
            "outputs": [],
            "source": source,
        }
    ]


def course_folder() -> Path:
    """Return the folder of the notebooks: inside an installed package, next to the package in a checkout.

    Raises:
        RuntimeError: if there is none.
    """
    package = Path(__file__).parents[1]
    for folder in (package / "notebooks", package.parent / "notebooks"):
        if (folder / "00_index.ipynb").is_file():
            return folder
    raise RuntimeError("this installation has no notebooks; install gnnqlab again from its wheel or its checkout")
