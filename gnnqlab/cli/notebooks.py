"""``gnnqlab notebooks``: copy the course to a folder."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Notebooks", "course_folder"]


@dataclass(kw_only=True)
class Notebooks:
    """Copy the notebooks of the course to a folder, which is created if it does not exist."""

    folder: Path
    """Destination of the notebooks."""
    overwrite: bool = False
    """Replace modified notebooks in the folder."""
    json: bool = False
    """End standard output with one JSON object."""

    def run(self) -> dict[str, Any]:
        books = sorted(course_folder().glob("*.ipynb"))
        # All are checked before the first copy, so that a refusal leaves the folder unchanged.
        names = [book.name for book in books if not self._can_copy(book)]
        if names and not self.overwrite:
            raise ValueError(
                f"modified notebooks are not replaced by default, got {self.folder} with {', '.join(names)}; choose "
                "another folder, or --overwrite"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        for book in books:
            shutil.copyfile(book, self.folder / book.name)
        if not self.json:
            print(f"{len(books)} notebooks in {self.folder}; start with: jupyter lab {self.folder / books[0].name}")
        return {"notebooks": [str(self.folder / book.name) for book in books]}

    def _can_copy(self, book: Path) -> bool:
        target = self.folder / book.name
        return not target.exists() or target.read_bytes() == book.read_bytes()  # an identical copy may be written again


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
