"""Tables of a terminal fit into its width; bold text and links are for terminals only."""

from __future__ import annotations

import inspect
import sys
import threading
from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab import terminal
from gnnqlab.terminal import aligned, path_link
from tests.cases import each
from tests.slow_down import HANG_S

_COLUMNS = ["name", "about", "total", "bytes"]
_ROWS = [["adaqp", "Bit-widths for each group of rows, chosen by a mixed-integer problem.", "1.2 s", "3 MB"],
         ["vanilla", "Plain float32 messages.", "2.4 s", "12 MB"]]  # fmt: skip


@each("width", [200, 80, 60, 40])
def test_a_table_fits_and_loses_no_word_silently(width: int) -> None:
    text = aligned(_COLUMNS, _ROWS, width=width, right=[2, 3])
    assert all(len(line) <= width for line in text.splitlines())
    table, separator, words = text.partition("Not shown: ")
    shown = table.splitlines()[0].split()
    for row in _ROWS:
        for column, cell in zip(_COLUMNS, row):
            if column in shown:
                assert all(word in table for word in cell.split())
    named = " ".join(words.split()).partition(";")[0].split(", ") if separator else []
    assert [*shown, *named] == _COLUMNS


def test_numbers_end_at_the_right_and_best_cells_are_bold_without_moving_others() -> None:
    plain = aligned(["a", "b"], [["x", "9"], ["yy", "10"]], right=[1])
    assert plain.splitlines() == ["a    b", "x    9", "yy  10"]
    bold = aligned(["a", "b"], [["x", "9"], ["yy", "10"]], right=[1], bold=[(1, 1)])
    assert bold.replace("\x1b[1m", "").replace("\x1b[22m", "") == plain and "\x1b[1m10\x1b[22m" in bold


def test_a_path_is_a_link_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert path_link(path) == str(path)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert path.as_uri() in path_link(path) and "\x1b" in path_link(path)
    monkeypatch.setenv("NO_COLOR", "1")
    assert path_link(path) == str(path)


def test_progress_is_printed_on_a_screen_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for is_screen, printed in ((False, ""), (True, "probing\n")):
        monkeypatch.setattr(terminal, "is_screen", lambda: is_screen)  # noqa: B023
        terminal.say_on_screen("probing")
        assert capsys.readouterr().err == printed
    for function in (gq.recommend, gq.autotune):
        assert inspect.signature(function).parameters["say"].default is terminal.say_on_screen


def test_elapsed_seconds_are_one_line_of_the_outer_step(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen:
        """Standard error that signals its first text."""

        def __init__(self) -> None:
            self.text, self.printed = "", threading.Event()

        def write(self, text: str) -> None:
            self.text += text
            self.printed.set()

        def flush(self) -> None:
            """Do nothing: no text is buffered."""

    for is_screen in (False, True):
        screen = Screen()
        monkeypatch.setattr(terminal, "is_screen", lambda: is_screen)  # noqa: B023
        monkeypatch.setattr(sys, "stderr", screen)
        with terminal.show_elapsed("timing", every_s=1e-3), terminal.show_elapsed("inner", every_s=1e-3):
            assert not is_screen or screen.printed.wait(HANG_S)
        assert "inner" not in screen.text
        assert screen.text.startswith("\rtiming: ") if is_screen else not screen.text
    assert screen.text.endswith("\r") and screen.text.split("\r")[-2].isspace(), "the line is removed at the end"
    with terminal.show_elapsed("second", every_s=HANG_S):
        pass  # a block that ends before the first update
    assert "second" not in screen.text
