"""Every notebook as it is committed: small, without state, and with outputs that a reader without a kernel can see.

nbval checks that notebooks run, and that marked cells print the stored output (see run_all.py).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import nbformat
import pytest

from gnnqlab.course.student.quantities import QUANTITIES
from tests.cases import each
from tests.slow_down import HANG_S

FOLDER = Path(__file__).parent.parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PLOTLY = "application/vnd.plotly.v1+json"
PICTURES = {"image/svg+xml", "image/png"}
SEEN_WITHOUT_SCRIPTS = {*PICTURES, "text/html"}

each_notebook = each("path", NOTEBOOKS)

COLUMNS = 85
"""Characters in a line of code that JupyterLab shows in a window of 900 px, in its font, with prompt and scroll bars.
"""


def _read(path: Path) -> nbformat.NotebookNode:
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    return book


def _code(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in _read(path).cells if cell.cell_type == "code"]


@each_notebook
def test_small_and_without_state(path: Path) -> None:
    assert path.stat().st_size < 1_000_000
    assert set(_read(path).metadata) == {"kernelspec", "language_info"}, "make notebooks leaves no other metadata"


@each_notebook
def test_numbered_and_titled(path: Path) -> None:
    number = re.match(r"(\d\d)_[a-z0-9_]+$", path.stem)
    assert number, "notebooks are numbered and in lower case"
    title = _read(path).cells[0].source.splitlines()[0]
    assert title.startswith(f"# {int(number[1])} · ")


@each_notebook
def test_a_marked_cell_has_stored_output(path: Path) -> None:
    """nbval passes a marked cell without stored output."""
    for cell in _code(path):
        if "NBVAL_CHECK_OUTPUT" in cell.source:
            assert cell.outputs, f"marked, but without stored output:\n{cell.source}"


@each_notebook
def test_every_figure_has_an_output_that_is_visible_without_scripts(path: Path) -> None:
    for cell in _code(path):
        for output in cell.outputs:
            kinds = set(output.get("data", {}))
            if PLOTLY in kinds:
                assert kinds & SEEN_WITHOUT_SCRIPTS, f"end with a Bundle (gnnqlab.lab.show):\n{cell.source}"
            assert "application/vnd.jupyter.widget-view+json" not in kinds, "GNNQLAB_STATIC=1 leaves no live widget"


@each_notebook
def test_every_picture_is_described(path: Path) -> None:
    for cell in _code(path):
        for output in cell.outputs:
            for kind in PICTURES & set(output.get("data", {})):
                assert len(output.metadata[kind]["alt"]) > 20


@each_notebook
def test_no_error_is_stored(path: Path) -> None:
    for cell in _code(path):
        assert all(output.output_type != "error" for output in cell.outputs), cell.source


@each_notebook
def test_cells_are_thin(path: Path) -> None:
    launches = any("launch(" in cell.source for cell in _code(path))
    for cell in _code(path):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        if cell.source.startswith("%%writefile "):  # a file of the reader's own
            assert len(lines) <= 40 and path.stem.startswith("20_"), f"a file that is longer:\n{cell.source}"
            continue
        assert len(lines) <= 12, f"move longer code to the library:\n{cell.source}"
        tree = ast.parse(cell.source)
        classes = any(isinstance(node, ast.ClassDef) for node in ast.walk(tree))
        assert not (classes and launches), "workers cannot import a cell"


@each_notebook
def test_code_is_not_cut_on_a_narrow_page(path: Path) -> None:
    for cell in _code(path):
        assert not [line for line in cell.source.splitlines() if len(line) > COLUMNS]


@each_notebook
def test_executing_keeps_no_path_of_the_machine(path: Path) -> None:
    from tests.notebooks.execute import clean

    book = _read(path)
    clean(book)
    assert book == _read(path), "a committed notebook must equal the output of make notebooks"


@each_notebook
def test_guesses_are_empty_and_each_one_is_compared(path: Path) -> None:
    if path.stem.startswith("00_"):
        return
    code = "\n".join(cell.source for cell in _code(path))
    names = QUANTITIES[path.stem[:2]]
    empty = ", ".join(f"{name}=None" for name in names)
    assert f'guess = course.guess("{path.stem[:2]}", {empty})\nguess' in code
    compared = " ".join(part[:200] for part in code.split("guess.compare(")[1:])
    assert all(re.search(rf"\b{name}=", compared) for name in names)
    assert "my_guess" not in code


@each_notebook
def test_a_cell_that_asks_for_the_guess_comes_before_the_comparison(path: Path) -> None:
    cells = _code(path)
    asking = [number for number, cell in enumerate(cells) if "guess.ask()" in cell.source]
    comparing = [number for number, cell in enumerate(cells) if "guess.compare(" in cell.source]
    assert len(asking) <= 1 and all(number < comparing[-1] for number in asking)
    for number in asking:
        assert cells[number].outputs[0].text.startswith("Your guess first, in the form at the top, or go on: ")


def test_make_lab_opens_the_index() -> None:
    makefile = (FOLDER.parent / "Makefile").read_text(encoding="utf-8")
    assert "cd notebooks && " in makefile and "/jupyter lab 00_index.ipynb --ServerApp.root_dir=.. " in makefile


@pytest.mark.core
def test_a_notebook_opens_and_its_first_cell_runs() -> None:
    from nbclient import NotebookClient

    book = _read(FOLDER / "04_messages_in_few_bits.ipynb")
    first = next(number for number, cell in enumerate(book.cells) if cell.cell_type == "code")
    with (client := NotebookClient(book, timeout=None, startup_timeout=int(HANG_S))).setup_kernel():
        client.execute_cell(book.cells[first], first)
