"""Hidden solutions of the notebooks are run: each of them gives a right answer."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
import pytest
import torch

from gnnqlab.course import graded
from tests.cases import each

FOLDER = Path(__file__).parent.parent.parent / "notebooks"
HIDDEN = re.compile(r"<details>.*?</details>", re.DOTALL)
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)

each_notebook = each(("number", "solutions"), [("04", 1), ("06", 1), ("20", 2)])
each_cell = each(
    ("number", "cell", "grader"),
    [
        ("04", "my_codes", "grade_rounding"),
        ("06", "my_widths", "grade_widths"),
        ("20", "my_policy", "grade_policy"),
        ("20", "my_codec", "grade_codec"),
    ],
)
GRADERS = {name: getattr(graded, name) for name in graded.__all__ if "grade_" in name}


def _cells(number: str) -> list[nbformat.NotebookNode]:
    (path,) = FOLDER.glob(f"{number}_*.ipynb")
    return list(nbformat.read(path, as_version=4).cells)


def _written(text: str, folder: Path) -> str | None:
    """Return the code to run, or write the file that a reader would write."""
    if not text.startswith("%%writefile "):
        return text
    head, body = text.split("\n", 1)
    (folder / head.split()[1]).write_text(body, encoding="utf-8")
    return None


@each_notebook
def test_hidden_solutions_are_right(
    number: str, solutions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GNNQLAB_RUNS", str(tmp_path / "runs"))
    folder = tmp_path / number
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    cells, before = _cells(number), set(sys.modules)
    for cell in cells:
        if cell.source.startswith("%%writefile "):
            _written(cell.source, folder)
    blocks = [block for cell in cells for hidden in HIDDEN.findall(cell.source) for block in BLOCK.findall(hidden)]
    run = [text for block in blocks if (text := _written(block, folder))]
    try:
        known: dict[str, object] = {**GRADERS, "torch": torch}
        for text in run:
            exec(text, known)
    finally:
        for name in set(sys.modules) - before:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
    said = capsys.readouterr().out.splitlines()
    assert len(said) == solutions and all(line.startswith("Right: ") for line in said)


@each_cell
def test_unanswered_graded_cell_prints_an_instruction(
    number: str, cell: str, grader: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (source,) = [one.source for one in _cells(number) if f"{cell} = None" in one.source]
    exec(source, {grader: GRADERS[grader]})
    assert "in place of None and run the cell again" in capsys.readouterr().out
