"""Output for a terminal: its kind and width, tables that fit into it, bold text and links."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

__all__ = ["aligned", "is_screen", "is_styled", "output_width", "path_link", "say_on_screen", "show_elapsed"]

_NARROWEST = 28
"""Smallest number of characters of a wrapped column."""
_ONE_LINE = threading.Lock()


def is_screen() -> bool:
    """Return True if standard error is a terminal or the output of a notebook, which replaces a bar in place."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def say_on_screen(line: str) -> None:
    """Print a line of progress to standard error on a terminal or in a notebook; nothing in a file or pipe."""
    if is_screen():
        print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def show_elapsed(step: str, *, every_s: float = 1.0) -> Iterator[None]:
    """Show a step of a command and its seconds so far while the block runs, on a terminal or in a notebook only.

    The line is removed at the end. Of blocks in each other the outer one is shown.

    Args:
        step: the step, without a line break.
        every_s: seconds between updates; a block that takes less shows nothing.
    """
    if not is_screen() or not _ONE_LINE.acquire(blocking=False):
        yield
        return
    start_s, ended, width = time.monotonic(), threading.Event(), 0

    def update() -> None:
        nonlocal width
        while not ended.wait(every_s):
            line = f"{step}: {time.monotonic() - start_s:.0f} s"
            width = max(width, len(line))
            print(f"\r{line}", end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=update, name="elapsed seconds", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _ONE_LINE.release()
        if width:
            print(f"\r{' ' * width}\r", end="", file=sys.stderr, flush=True)


def is_styled() -> bool:
    """Return True if standard output is a terminal that shows bold text and links; see no-color.org."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def output_width() -> int:
    """Return the number of characters of a line; of a file or a pipe, which have no width, the largest integer."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def path_link(path: Path | str) -> str:
    """Return a path as text that a terminal opens on a click (OSC 8); elsewhere the path alone."""
    if not is_styled():
        return str(path)
    return f"\x1b]8;;{Path(path).absolute().as_uri()}\x1b\\{path}\x1b]8;;\x1b\\"


def aligned(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int = sys.maxsize,
    right: Collection[int] = (),
    bold: Collection[tuple[int, int]] = (),
) -> str:
    """Return a table of aligned columns that fits into a number of characters.

    If it is too wide, the widest columns of texts with spaces are wrapped; if it still is, the last columns are left
    out and named below.

    Args:
        columns: titles.
        rows: cells of each row.
        width: largest number of characters of a line.
        right: positions of columns that are aligned at their right end.
        bold: row and column of bold cells.

    Example:
        >>> print(aligned(["name", "bits"], [["adaqp", "2, 4 or 8"], ["vanilla", "32"]]))
        name     bits
        adaqp    2, 4 or 8
        vanilla  32
        >>> print(aligned(["a", "b", "c"], [["x" * 9, "y" * 9, "z" * 9]], width=24))
        a          b
        xxxxxxxxx  yyyyyyyyy
        Not shown: c; a wider terminal shows all
    """
    widths = [max(len(line[place]) for line in (columns, *rows)) for place in range(len(columns))]
    wrappable = [place for place in range(len(columns)) if any(" " in row[place] for row in rows)]
    while _total(widths) > width and wrappable:
        widest = max(wrappable, key=lambda place: widths[place])
        if widths[widest] <= max(_NARROWEST, len(columns[widest])):
            break
        widths[widest] -= 1
    num_shown = len(columns)
    while num_shown > 2 and _total(widths[:num_shown]) > width:
        num_shown -= 1
    widths = widths[:num_shown]
    lines = _lines(columns, widths, right, ())
    for number, row in enumerate(rows):
        lines += _lines(row, widths, right, [place for line, place in bold if line == number])
    if num_shown < len(columns):
        lines += textwrap.wrap(f"Not shown: {', '.join(columns[num_shown:])}; a wider terminal shows all", width)
    return "\n".join(lines)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)  # two spaces between columns


def _lines(cells: Sequence[str], widths: Sequence[int], right: Collection[int], bold: Collection[int]) -> list[str]:
    """Return the lines of one row: several if a cell is wrapped."""
    wrapped = [
        [text] if len(text) <= width else textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
        for text, width in zip(cells, widths)
    ]
    lines = []
    for line in range(max(map(len, wrapped))):
        texts = []
        for place, (parts, width) in enumerate(zip(wrapped, widths)):
            text = parts[line] if line < len(parts) else ""
            text = text.rjust(width) if place in right else text.ljust(width)
            texts.append(f"\x1b[1m{text}\x1b[22m" if place in bold else text)
        lines.append("  ".join(texts).rstrip())
    return lines
