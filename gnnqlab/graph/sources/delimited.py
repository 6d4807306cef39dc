"""Delimited text files: detection of comments, separator and heading, and reading by pandas.

The detection looks at the first lines only. Its result is a sentence, which a graph stores in its notes.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import re
import sys
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gnnqlab.graph.sources.column_names import plain
from gnnqlab.terminal import is_screen
from gnnqlab.units import human_bytes

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["TEXT_SUFFIXES", "detect_layout", "read_delimited"]

TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".edges", ".edgelist")
"""Endings of delimited text files; each may be followed by ``.gz``."""
_SAMPLE_BYTES = 1 << 18
_LONG_BYTES = 64 << 20
"""Size from which reading takes seconds, and a bar shows the time left."""
_SPACES = r"\s+"
_SEPARATORS = {"\t": "tabs", ";": "semicolons", ",": "commas", "|": "bars", _SPACES: "spaces"}


@dataclass(frozen=True)
class Layout:
    """Layout of a delimited text file."""

    skipped: int
    """Number of lines before the first row: comments and empty lines."""
    separator: str
    has_heading: bool
    decimal: str = "."
    text_columns: tuple[int, ...] = ()
    """Columns whose numbers begin with zeros, as ids do; they are read as text, so that the zeros remain."""

    are_integers: bool = False
    """True if all fields of the first lines are integers of at most 18 digits."""

    def sentence(self, columns: Sequence[str]) -> str:
        """Return the layout in words."""
        heading = "a heading" if self.has_heading else "no heading"
        lines = "1 line" if self.skipped == 1 else f"{self.skipped} lines"
        comments = f", {lines} of comments skipped" if self.skipped else ""
        return f"columns separated by {_SEPARATORS[self.separator]}, {heading}{comments}: {', '.join(columns)}"


def read_delimited(path: Path, *, names: Collection[str] = (), heading: bool | None = None) -> tuple[DataFrame, str]:
    """Return the table in a delimited text file, and its layout as a sentence.

    Args:
        path: the file, compressed if its name ends in ``.gz``.
        names: names of columns, as ``plain`` returns them, that make a first line a heading.
        heading: True or False to override the detection.

    Raises:
        ValueError: if the file is empty, is not text, or its lines have different numbers of columns.
        OSError: if it cannot be read.
    """
    import pandas as pd

    lines, is_complete = _first_lines(path)
    layout = detect_layout(lines if is_complete else lines[:-1], path, names=names, heading=heading)
    options: dict[str, Any] = {
        "sep": layout.separator,
        "header": 0 if layout.has_heading else None,
        "skiprows": layout.skipped,
        # Spaces behind separators of text; tabs and spaces divide numbers alone, which are read faster without.
        "skipinitialspace": layout.separator not in ("\t", _SPACES),
        "decimal": layout.decimal,
        "dtype": dict.fromkeys(layout.text_columns, str),
        "encoding": "utf-8-sig",
        # By default a heading with fewer names moves all columns: pandas takes the first ones for names of rows.
        "index_col": False,
    }
    try:
        table = None
        if layout.are_integers:
            # Without the search for missing values and other types, a third faster; a later word or gap raises.
            with contextlib.suppress(ValueError, OverflowError):
                table = _parsed(path, {**options, "dtype": np.int64, "na_filter": False})
        if table is None:
            table = _parsed(path, options)
    except pd.errors.ParserError as error:
        raise ValueError(_line_error(str(error))) from error
    except pd.errors.ParserWarning as error:
        raise ValueError(
            "its heading must name every column, got fewer names than the rows have columns; add the missing names"
        ) from error
    if layout.has_heading:
        table.columns = [str(name).strip() for name in table.columns]
    else:
        table.columns = [f"column {position + 1}" for position in range(table.shape[1])]
    return table, layout.sentence(list(table.columns))


def _parsed(path: Path, options: dict[str, Any]) -> DataFrame:
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # columns without a name would be lost
        try:
            with _opened(path) as file:
                return pd.read_csv(file, **options)
        except pd.errors.ParserError:
            mark = _later_comment(path)
            if mark is None:
                raise
            with _opened(path) as file:
                return pd.read_csv(file, comment=mark, **options)


def detect_layout(
    lines: Sequence[str], path: Path, *, names: Collection[str] = (), heading: bool | None = None
) -> Layout:
    """Detect the layout of a delimited text file from its first lines.

    Lines that begin with ``#`` or ``%``, and empty ones, before the first row are comments. The separator is the one
    that divides all lines into the same number of columns, the largest of such numbers. The first row is a heading if
    one of its fields is a known name, or if it has no number where other rows have numbers.

    Args:
        lines: complete lines.
        path: of the file, for errors; a first line of words in ``.csv`` and ``.tsv`` files is a heading.
        names, heading: as for :func:`read_delimited`.

    Raises:
        ValueError: if there is no row.

    Example:
        >>> layout = detect_layout(["# from to", "3 7", "7 12"], Path("web.txt"))
        >>> layout.skipped, layout.has_heading, layout.sentence(["column 1", "column 2"])
        (1, False, 'columns separated by spaces, no heading, 1 line of comments skipped: column 1, column 2')
    """
    skipped = 0
    while skipped < len(lines) and (not lines[skipped].strip() or lines[skipped].lstrip()[0] in "#%"):
        skipped += 1
    rows = [line for line in lines[skipped:] if line.strip() and line.lstrip()[0] not in "#%"]
    if not rows:
        raise ValueError(f"it must have at least one row, got {'comments only' if lines else 'an empty file'}")
    stem = path.name.removesuffix(".gz")
    separator = _separator(rows, "\t" if stem.endswith(".tsv") else "," if stem.endswith(".csv") else _SPACES)
    fields = [_split(row, separator) for row in rows]
    decimal = "," if separator == ";" and any(_is_decimal_comma(each) for row in fields for each in row) else "."
    if heading is None:
        heading = _is_heading(fields, names, is_table=stem.endswith((".csv", ".tsv")))
    data = fields[1:] if heading else fields
    zeros = _with_zeros(data)
    are_integers = not zeros and all(re.fullmatch(r"-?\d{1,18}", text) for row in data for text in row)
    return Layout(skipped, separator, heading, decimal, zeros, are_integers and bool(data))


def _first_lines(path: Path) -> tuple[list[str], bool]:
    """Return the lines in the first part of a file, and True if that is all of it."""
    with _unpacked(path) as file:
        data = file.read(_SAMPLE_BYTES + 1)
    is_complete = len(data) <= _SAMPLE_BYTES
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ValueError("it must be text in UTF-8, got UTF-16; save it as UTF-8, for instance as 'CSV UTF-8' in Excel")
    if b"\0" in data:
        raise ValueError("it must be text, got binary data")
    # The end of the sample may divide a character of several bytes.
    text = data.decode("utf-8-sig", errors="strict" if is_complete else "ignore")
    return text.splitlines(), is_complete


def _unpacked(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


class _CountedFile(io.FileIO):
    """File that moves a bar as it is read."""

    def __init__(self, path: Path, bar: Any) -> None:
        super().__init__(path, "r")
        self._bar = bar

    def readinto(self, buffer: Any, /) -> int:
        count = super().readinto(buffer)
        self._bar.update(count)
        return count

    def close(self) -> None:
        self._bar.close()
        super().close()


def _opened(path: Path) -> Any:
    """Open a file for reading; a large one shows a bar with the time left."""
    size = path.stat().st_size
    if size < _LONG_BYTES:
        return _unpacked(path)
    from tqdm import tqdm

    if not is_screen():
        print(f"reading {path}, {human_bytes(size)}", file=sys.stderr, flush=True)
    bar = tqdm(total=size, unit="B", unit_scale=True, desc=path.name, file=sys.stderr, disable=not is_screen())
    raw = io.BufferedReader(_CountedFile(path, bar), buffer_size=1 << 20)
    return gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw


def _separator(rows: Sequence[str], default: str) -> str:
    """Return the separator that divides all rows into the same, largest number of columns."""
    counts = {}
    for separator in _SEPARATORS:
        numbers = {len(_split(row, separator)) for row in rows}
        if len(numbers) == 1 and numbers != {1}:
            counts[separator] = numbers.pop()
    # Spaces divide fields with spaces in them as well, so they count only where nothing else does.
    signs = {separator: count for separator, count in counts.items() if separator != _SPACES}
    if signs:
        return max(signs, key=lambda separator: signs[separator])
    if counts:
        return _SPACES
    # Rows of different lengths: pandas names the line if the usual separator does not fit either.
    return default


def _split(row: str, separator: str) -> list[str]:
    if separator == _SPACES:
        return row.split()
    fields = next(csv.reader([row], delimiter=separator, skipinitialspace=True))
    return [field.strip() for field in fields]


def _is_heading(fields: Sequence[Sequence[str]], names: Collection[str], *, is_table: bool) -> bool:
    first = fields[0]
    others = [row for row in fields[1:] if row != first]
    # Nodes may be called "u" and "v" as well: a name that occurs again is a value.
    later = {field for row in others for field in row}
    if any(plain(field) in names and field not in later for field in first):
        return True
    if any(_is_number(field) for field in first if field):
        return False
    if any(_is_number(field) for row in others for field in row):
        return True
    # Words only: a field that occurs again in another row is a value.
    return is_table and later.isdisjoint(first)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _is_decimal_comma(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+,\d+", text) is not None


def _with_zeros(fields: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Return the columns in which a whole number begins with a zero."""
    return tuple(sorted({column for row in fields for column, text in enumerate(row) if re.fullmatch(r"0\d+", text)}))


def _later_comment(path: Path) -> str | None:
    """Return the mark of comment lines after the first row of a file."""
    with _unpacked(path) as file:
        marks = {line[:1] for line in file if line[:1] in (b"#", b"%")}
    return marks.pop().decode() if len(marks) == 1 else None


def _line_error(text: str) -> str:
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text)
    if found is None:
        return text
    expected, line, seen = found.groups()
    return f"all lines must have the same number of columns, got {expected} and in line {line} {seen}"
