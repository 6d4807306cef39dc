"""Errors of the package in a notebook: message first and the line of the cell; other errors keep their traceback."""

from __future__ import annotations

import re

import pytest

interactiveshell = pytest.importorskip("IPython.core.interactiveshell")

from gnnqlab.short_errors import install, is_deliberate  # noqa: E402


@pytest.fixture
def shell():
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
