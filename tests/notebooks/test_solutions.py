"""Solutions that a notebook hides are run: whoever opens one gets an answer that is right."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
import pytest

from tests.cases import each

FOLDER = Path(__file__).parent.parent.parent / "notebooks"
HIDDEN = re.compile(r"<details>.*?</details>", re.DOTALL)
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)

each_cell = each(("cell", "grader"), [("my_policy", "grade_policy"), ("my_codec", "grade_codec")])


def _cells(number: str) -> list[nbformat.NotebookNode]:
    (path,) = FOLDER.glob(f"{number}_*.ipynb")
    return list(nbformat.read(path, as_version=4).cells)


def _written(text: str, folder: Path) -> str | None:
    """What is to be run; a file that a reader would write is written."""
    if not text.startswith("%%writefile "):
        return text
    head, body = text.split("\n", 1)
    (folder / head.split()[1]).write_text(body, encoding="utf-8")
    return None


def test_hidden_solutions_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gnnqlab.lab.course.graded import grade_codec, grade_policy

    monkeypatch.syspath_prepend(str(tmp_path))
    cells, before = _cells("20"), set(sys.modules)
    for cell in cells:
        if cell.source.startswith("%%writefile "):
            _written(cell.source, tmp_path)
    blocks = [block for cell in cells for hidden in HIDDEN.findall(cell.source) for block in BLOCK.findall(hidden)]
    run = [text for block in blocks if (text := _written(block, tmp_path))]
    try:
        for text in run:
            exec(text, {"grade_policy": grade_policy, "grade_codec": grade_codec})
    finally:
        for name in set(sys.modules) - before:
            if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
    said = capsys.readouterr().out.splitlines()
    assert len(run) == len(said) == 2 and all(line.startswith("Right: ") for line in said)


@each_cell
def test_a_graded_cell_says_what_is_missing(cell: str, grader: str, capsys: pytest.CaptureFixture[str]) -> None:
    from gnnqlab.lab.course import graded

    (source,) = [one.source for one in _cells("20") if one.source.startswith(f"{cell} = None")]
    exec(source, {grader: getattr(graded, grader)})
    assert "in place of None and run the cell again" in capsys.readouterr().out
