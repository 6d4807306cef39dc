"""Help without torch, completion, and the notebooks of the course."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from docs.site.course_glossary import FILE, course_glossary
from gnnqlab import cli
from gnnqlab.cli import kept_help
from gnnqlab.cli.line import ENVIRONMENT
from gnnqlab.cli.notebooks import course_folder
from tests.cases import each
from tests.slow_down import HANG_S


def test_stored_help_equals_the_live_help_of_models_and_systems() -> None:
    assert kept_help.stored_sections() == kept_help.live_sections(), (
        'write it again: python -c "from gnnqlab.cli import kept_help; kept_help.write()"'
    )


def test_help_of_every_command_lists_options_without_importing_torch() -> None:
    program = (
        "import sys; from gnnqlab import cli\n"
        "for command in sys.argv[1:]:\n"
        "    try: cli.main([command, '--help-all' if command == 'train' else '--help'])\n"
        "    except SystemExit as end: assert end.code == 0\n"
        "assert 'torch' not in sys.modules"
    )
    commands = "train compare autotune bench systems graphs models runs doctor notebooks completion".split()
    done = subprocess.run([sys.executable, "-c", program, *commands], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: gnnqlab ") == len(commands)
    train = done.stdout.partition("usage: gnnqlab compare")[0]
    titles = ["options of the command:", "training:", "model:", "launch:", "system:"]
    assert [train.index(f"\n{title}\n") for title in titles] == sorted(train.index(f"\n{title}\n") for title in titles)
    assert "--lam FLOAT" in train and "--epochs INT" in train


@each(
    ("words", "listed", "left_out"),
    [
        ([], ["--epochs", "--hidden"], ["--lam", "--heads", "--bits", "--jump", "--layers"]),
        (["--system", "adaqp", "--model=gat"], ["--lam", "--heads", "--layers"], ["--bits", "--jump", "--gamma"]),
        (["--help-all"], ["--lam", "--heads", "--bits", "--jump", "--gamma"], []),
    ],
)
def test_help_lists_the_options_of_the_chosen_model_and_system(
    words: list[str], listed: list[str], left_out: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["train", *words, *([] if words == ["--help-all"] else ["--help"])])
    shown = capsys.readouterr().out
    assert end.value.code == 0
    assert [option for option in (*listed, *left_out) if f"\n  {option} " in shown] == listed
    # The others are named, so that no option is hidden.
    named = shown.partition("further options")[2].split()
    assert words == ["--help-all"] or {"--jump", "--bits"} & set(named) == (
        {"--jump", "--bits"} if not words else set()
    )
    assert words or len(shown.splitlines()) < 60
    assert ("gat: " in shown) == (words == ["--help-all"]), "a name is needed only for several models"


def test_help_explains_the_options_that_a_command_is_called_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["recommend", "--help"])
    shown = capsys.readouterr().out.partition("further options")[0]
    assert {"--rank-by", "--only", "--estimate", "--confirm"} <= set(re.findall(r"^  (--[\w-]+)", shown, re.MULTILINE))


def test_every_environment_variable_is_in_help_and_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    package = Path(cli.__file__).parents[1]
    reads = re.compile(r"environ(?:\.get\(|\[)\s*[\"'](GNNQLAB_\w+)|^ROOT_VARIABLE = \"(GNNQLAB_\w+)\"", re.MULTILINE)
    read = {found[1] or found[2] for file in package.rglob("*.py") for found in reads.finditer(file.read_text())}
    between_processes = {"GNNQLAB_GUARD", "GNNQLAB_FAULT", "GNNQLAB_EXAMPLE", "GNNQLAB_NODE", "GNNQLAB_PATH"}
    assert read - between_processes == set(ENVIRONMENT)
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    said = capsys.readouterr().out
    page = (package.parent / "docs" / "install.md").read_text(encoding="utf-8")
    assert all(f"  {name} " in said and f"`{name}`" in page for name in ENVIRONMENT)


def test_a_shell_completes_commands_options_and_names(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab", reason="shtab is not installed")
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    cli.main(["completion", "bash"])
    script = capsys.readouterr().out
    for line, wanted in (
        ("gnnqlab tr", ["train"]),
        ("gnnqlab train --epo", ["--epochs"]),
        ("gnnqlab train --system adaqp-", ["adaqp-p", "adaqp-q", "adaqp-r"]),
        ("gnnqlab bench spm", ["spmm"]),
    ):
        words = line.split(" ")
        asked = (
            f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _shtab_gnnqlab; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
        done = subprocess.run([bash, "-c", f"{script}\n{asked}"], capture_output=True, text=True, timeout=HANG_S)
        assert sorted(done.stdout.split()) == wanted, (line, done.stderr)


@each("shell", ["fish"])
def test_another_shell_is_refused(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["completion", shell])
    assert end.value.code == 2 and "shell must be one of ('bash', 'zsh', 'tcsh'), got 'fish'" in capsys.readouterr().err


def test_notebooks_are_copied_and_changed_ones_need_overwrite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "course"
    cli.main(["notebooks", str(folder), "--json"])
    books = json.loads(capsys.readouterr().out)["notebooks"]
    there = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert set(there) == {*(file.name for file in course_folder().glob("*.ipynb")), "glossary.md"}
    assert books == sorted(str(file) for file in folder.glob("*.ipynb")) and len(there) > 20
    for file in folder.iterdir():  # a wheel has no documentation
        text = file.read_text(encoding="utf-8")
        assert "../docs" not in text and ("](glossary.md" in text or file.name in ("glossary.md", "24_on_a_gpu.ipynb"))
    mine = folder / "01_first_run.ipynb"
    mine.write_text("mine")
    with pytest.raises(SystemExit) as end:
        cli.main(["notebooks", str(folder)])
    assert end.value.code == 2 and mine.read_text() == "mine"
    assert f"got {folder} with 01_first_run.ipynb; choose another folder, or --overwrite" in capsys.readouterr().err
    cli.main(["notebooks", str(folder), "--overwrite"])
    assert mine.read_bytes() == there[mine.name]


def test_the_glossary_of_the_course_is_that_of_the_documentation() -> None:
    """After a change of docs/glossary.md: python -m docs.site.course_glossary."""
    text = course_glossary()
    assert FILE.read_text(encoding="utf-8") == text
    assert "](" not in text and "boundary node" in text


def test_copies_have_no_outputs_unless_they_are_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["notebooks", str(tmp_path / "blank")])
    for file in (tmp_path / "blank").glob("*.ipynb"):
        cells = [cell for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == "code"]
        assert not any(cell.outputs or cell.execution_count for cell in cells)
        stored = nbformat.read(course_folder() / file.name, as_version=4)
        assert [cell.source for cell in cells] == [cell.source for cell in stored.cells if cell.cell_type == "code"]
    cli.main(["notebooks", str(tmp_path / "whole"), "--with-outputs"])
    for file in (tmp_path / "whole").glob("*.ipynb"):
        stored, copied = nbformat.read(course_folder() / file.name, as_version=4), nbformat.read(file, as_version=4)
        assert [cell for cell in copied.cells if cell.cell_type == "code"] == [
            cell for cell in stored.cells if cell.cell_type == "code"
        ]


def test_chosen_notebooks_are_copied_without_solutions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "class"
    cli.main(["notebooks", str(folder), "--only", "04,20", "--without-solutions"])
    books = sorted(folder.glob("*.ipynb"))
    assert [book.name[:2] for book in books] == ["04", "20"]
    for book in books:
        nbformat.validate(nbformat.read(book, as_version=4))
        assert "A solution" in (course_folder() / book.name).read_text(encoding="utf-8")
        assert "A solution" not in book.read_text(encoding="utf-8") and "</details>" not in book.read_text(
            encoding="utf-8"
        )
    with pytest.raises(SystemExit):
        cli.main(["notebooks", str(folder), "--only", "04,77"])
    assert "only must be numbers of notebooks, 00, 01, " in capsys.readouterr().err


def test_graded_cells_are_those_of_nbgrader(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gnnqlab.course.exercises import EXERCISES

    cli.main(["notebooks", str(tmp_path / "class"), "--nbgrader"])
    graded = {}
    for file in (tmp_path / "class").glob("*.ipynb"):
        book = nbformat.read(file, as_version=4)
        nbformat.validate(book)
        for cell in book.cells:
            if mark := cell.metadata.get("nbgrader"):
                graded[mark["grade_id"]] = cell.source
                assert mark["grade"] and mark["locked"] and mark["points"] == 1 and mark["schema_version"] == 3
    assert set(graded) == {f"test-{name.replace('.', '-')}" for name in EXERCISES}
    source = graded["test-01-payload"]
    exec(source, {"answer": 64})
    with pytest.raises(AssertionError, match="01.payload is not right"):
        exec(source, {"answer": None})
