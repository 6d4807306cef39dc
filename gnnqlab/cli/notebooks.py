"""The command that hands out the course."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Notebooks", "course_folder"]


@dataclass(kw_only=True)
class Notebooks:
    """Copy the notebooks of the course into a folder, which is made if need be."""

    folder: Path
    """Where they go."""
    overwrite: bool = False
    """Replace notebooks there that were changed."""
    json: bool = False
    """End standard output with one JSON object."""

    def run(self) -> dict[str, Any]:
        there = sorted(course_folder().glob("*.ipynb"))
        changed = [book.name for book in there if not self._may_go(book)]
        if changed and not self.overwrite:
            raise ValueError(
                f"notebooks must not replace others, got {self.folder} with {', '.join(changed)}; choose another "
                "folder, or --overwrite"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        for book in there:
            shutil.copyfile(book, self.folder / book.name)
        if not self.json:
            print(f"{len(there)} notebooks in {self.folder}; begin with: jupyter lab {self.folder / there[0].name}")
        return {"notebooks": [str(self.folder / book.name) for book in there]}

    def _may_go(self, book: Path) -> bool:
        target = self.folder / book.name
        return not target.exists() or target.read_bytes() == book.read_bytes()


def course_folder() -> Path:
    """Return where the notebooks are: in the package as it is installed, beside it in a checkout.

    Raises:
        RuntimeError: if they are nowhere.
    """
    package = Path(__file__).parents[1]
    for folder in (package / "notebooks", package.parent / "notebooks"):
        if (folder / "00_index.ipynb").is_file():
            return folder
    raise RuntimeError("this installation has no notebooks; install gnnqlab again from its wheel or its checkout")
