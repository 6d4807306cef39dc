"""Errors of the package in a notebook: message first and the line of the cell; other errors keep their traceback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

interactiveshell = pytest.importorskip("IPython.core.interactiveshell")

from gnnqlab.short_errors import install, is_deliberate  # noqa: E402
from tests.cases import each  # noqa: E402


@pytest.fixture
def shell():
    return make_shell()


def make_shell():
    """Return a shell without a terminal, as a kernel has it, with short errors."""
    shell = interactiveshell.InteractiveShell()
    shell.shown = []
    shell._showtraceback = lambda kind, error, lines: shell.shown.append("\n".join(lines))
    install(shell)
    return shell


def shown(shell, cell: str) -> str:
    result = shell.run_cell(cell)
    assert result.error_in_exec is not None
    return re.sub(r"\x1b\[\d*(;\d+)*m", "", shell.shown[-1])


def test_an_error_of_the_package_is_its_message_and_the_line_of_the_cell(shell) -> None:
    text = shown(shell, "import gnnqlab as gq\nworkers = -3\ngq.configure('digits', workers=workers)")
    first, place, _ = text.splitlines()
    assert first.startswith("ValueError: workers must") and first.count("-3") == 1
    assert place.endswith("line 3: gq.configure('digits', workers=workers)") and "Cell" in place
    assert len(text.splitlines()) <= 12


@each(
    ("cell", "text"),
    [
        ("gq.load('coar')", "got 'coar'; did you mean cora"),
        ("gq.load('no/edges.csv')", "must exist, got 'no/edges.csv'; there is no folder no"),
        ("gq.load('edgse.csv')", "must exist, got 'edgse.csv'; did you mean edges.csv"),
        ("gq.load('broken.npz')", "must be a .npz of plain arrays: it begins with b'abc', not with b'PK'"),
        ("gq.launch('cora')", "graph 'cora' is not on this machine and cannot be downloaded: "),
        ("gq.launch()", "launch(graph: "),
        ("gq.launch('digits', system='aadqp')", "got 'aadqp'; did you mean adaqp"),
        ("gq.launch('digits', epohcs=3)", "is called 'epohcs'; did you mean epochs"),
        ("gq.launch('digits', epochs='many')", "epochs must be a whole number, got 'many'"),
        ("gq.launch('digits', hosts=2, link='fast')", "link must be a number with kbit, mbit or gbit, got 'fast'"),
        ("gq.launch('digits', hosts=2, workers=3)", "workers must be a multiple of the hosts, got 3"),
        ("gq.launch('digits', on=3)", "on must be gq.Slurm(...) or a text such as slurm:nodes=2, got 3"),
        ("gq.Graph.from_edges([0], [5], num_nodes=3)", "dst must hold node ids in [0, 3), got 5"),
        ("gq.load('sbm:40,2,4').index_of('a')", "ids of this graph are integers, got text such as 'a'"),
        (
            "gq.partition('digits', gq.partitioners.METIS)",
            "must be an object such as gq.partitioners.METIS(), got METIS",
        ),
        ("gq.compare([3])", "runs must be a list of runs, got 3 among them"),
        ("gq.compare(['run'])", "runs must be a list of runs, got ['run']; open a folder"),
        ("gq.Study(systems=['vanilla'], seeds=3)", "seeds of a study must be a list of numbers, got 3"),
        ("gq.systems.adaqp(lamb=0.5)", "got ['lamb']; did you mean lam"),
        ("gq.recommend('digits', objective='tiem')", "ranked by one of ('time', 'bytes', 'memory'), got 'tiem'"),
        ("gq.study.reproduce('adaqp:table4-throughput', budget='ten')", "with s, min or h, got 'ten'"),
    ],
)
def test_a_mistake_is_answered_by_its_message_and_at_most_twelve_lines(
    cell: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # no network
    for name in ("GNNQLAB_DATA", "GNNQLAB_RUNS", "GNNQLAB_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "edges.csv").touch()
    (tmp_path / "broken.npz").write_bytes(b"abc")
    lines = shown(make_shell(), f"import gnnqlab as gq\n{cell}").splitlines()
    assert text in lines[0] and len(lines) <= 12
    assert not (tmp_path / "GNNQLAB_RUNS").exists() or not list((tmp_path / "GNNQLAB_RUNS").iterdir())


def test_the_whole_traceback_is_there_on_demand(shell) -> None:
    shown(shell, "import gnnqlab as gq\ngq.load('digit')")
    shell.showtraceback()
    assert len(shell.shown[-1].splitlines()) > 12 and "catalogue.py" in shell.shown[-1]


def test_errors_of_other_code_keep_their_traceback(shell) -> None:
    text = shown(shell, "import gnnqlab as gq\ndef lost():\n    raise ValueError('mine')\nlost()")
    assert "lost()" in text and "Traceback" in text
    # A bug of the package: the error comes from no raise statement of it.
    text = shown(shell, "from gnnqlab.by_name import did_you_mean\ndid_you_mean('a', 3)")
    assert "TypeError" in text and "by_name.py" in text


def test_a_handler_of_the_user_is_left_alone() -> None:
    shell = interactiveshell.InteractiveShell()
    shell.set_custom_exc((ValueError,), lambda *arguments, **more: None)
    before = shell.CustomTB
    install(shell)
    assert shell.custom_exceptions == (ValueError,) and shell.CustomTB is before


def test_only_a_raise_statement_of_the_package_is_deliberate() -> None:
    from gnnqlab.systems import make_system

    with pytest.raises(ValueError) as deliberate:
        make_system("adapq")
    assert is_deliberate(deliberate.tb) and not is_deliberate(None)
    with pytest.raises(ZeroDivisionError) as other:
        1 / 0  # noqa: B018
    assert not is_deliberate(other.tb)
