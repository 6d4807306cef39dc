"""Write files of JSON lines, and read them while another process appends: completely, incrementally, or in parts."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

__all__ = [
    "JsonLinesTail",
    "JsonLines",
    "last_line",
    "lines_at",
    "parse_lines",
    "read_ends",
    "read_lines",
    "spread_lines",
    "log_event",
]

_CHUNK = 1 << 20
_TAIL = 1 << 12


class JsonLines:
    """Append-only file of JSON objects, one line and one write each; a full disk costs lines, not the run."""

    def __init__(self, path: Path) -> None:
        # O_APPEND and one write per line: lines of several processes in one file do not mix.
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._torn = False
        self._warned = False

    def write(self, record: dict[str, Any]) -> None:
        """Append one object."""
        # After a partial write, end that line first, so that only one line is unreadable.
        line = (b"\n" if self._torn else b"") + json.dumps(record, separators=(",", ":")).encode() + b"\n"
        try:
            num_written = os.write(self._descriptor, line)
        except OSError as error:
            num_written = 0
            if not self._warned:
                print(f"records cannot be written ({error.strerror}); training continues without them", flush=True)
                self._warned = True
        self._torn = num_written < len(line)

    def close(self) -> None:
        os.close(self._descriptor)


def log_event(folder: Path, event: str, **fields: Any) -> None:
    """Append one event to the ``events.jsonl`` of a run."""
    lines = JsonLines(folder / "events.jsonl")
    lines.write({"event": event, "time": time.time(), "monotonic_ns": time.monotonic_ns(), **fields})
    lines.close()


def parse_lines(text: bytes) -> list[dict[str, Any]]:
    """Return the objects of all complete lines; incomplete lines and other values are skipped.

    Example:
        >>> parse_lines(b'{"epoch":0}\\n{"epo\\n{"epoch":2}\\n')
        [{'epoch': 0}, {'epoch': 2}]
    """
    body = text.strip(b"\n")
    if not body:
        return []
    try:
        # One call for all lines takes two thirds of the time of one call per line.
        values = json.loads(b"[" + body.replace(b"\n", b",") + b"]")
    except ValueError:
        values = [_value(line) for line in body.split(b"\n")]
    return [value for value in values if isinstance(value, dict)]


def _value(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file, reading it in chunks; incomplete lines are skipped."""
    with open(path, "rb") as file:
        # A chunk ends inside a line; readline() completes it.
        while text := file.read(_CHUNK):
            yield from parse_lines(text + file.readline())


def read_ends(path: Path, key: str) -> Iterator[dict[str, Any]]:
    """Yield the first and last entry of all lines with this last key; entries between are not parsed.

    Args:
        path: the file, as ``JsonLines`` writes it: without spaces, and the first entry is an integer.
        key: of the last entry; lines without it are skipped.
    """
    pattern = re.compile(rb'(\{"\w+":-?\d+,).*("%s":.*)\n' % re.escape(key).encode())
    with open(path, "rb") as file:
        for line in file:
            if match := pattern.fullmatch(line):
                yield from parse_lines(match[1] + match[2])


class JsonLinesTail:
    """Incremental reader of a growing file of JSON lines.

    Args:
        path: the file; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def poll(self, most_bytes: int | None = None) -> list[dict[str, Any]]:
        """Return the objects of the lines added since the last call.

        Args:
            most_bytes: limit of bytes to read, the newest ones; earlier lines are skipped.
        """
        try:
            with open(self.path, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                if size < self._offset:
                    self._offset = 0  # the file was replaced by a shorter one
                begin = self._offset if most_bytes is None else max(self._offset, size - most_bytes)
                file.seek(begin)
                if begin > self._offset:
                    begin += len(file.readline())  # the rest of a line that began earlier
                text = file.read()
        except OSError:
            return []
        # An incomplete last line stays for the next call.
        complete_text = text[: text.rfind(b"\n") + 1]
        self._offset = begin + len(complete_text)
        return parse_lines(complete_text)


def spread_lines(path: Path, count: int) -> list[dict[str, Any]]:
    """Return about ``count`` evenly spread objects of a long file, in its order; all of a short one."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            first_line = file.readline()
            if size <= 4 * count * len(first_line):  # seeking would repeat lines
                return parse_lines(_complete_lines(first_line + file.read()))
            lines = [first_line]
            for number in range(1, count):
                file.seek(size * number // count)  # most likely inside a line, so skip to the next
                file.readline()
                lines.append(file.readline())
    except OSError:
        return []
    # A line longer than the step is found by several offsets: once is enough.
    return parse_lines(_complete_lines(b"".join(line for line in dict.fromkeys(lines) if line.endswith(b"\n"))))


def last_line(path: Path) -> dict[str, Any] | None:
    """Return the object of the last complete line, reading only the end of the file."""
    try:
        with open(path, "rb") as file:
            size, length = file.seek(0, os.SEEK_END), _TAIL
            while True:
                file.seek(max(0, size - length))
                objects = parse_lines(_complete_lines(file.read(length)))
                # The first line of the chunk may be cut off, and the last one incomplete; both are skipped.
                if objects or length >= size:
                    return objects[-1] if objects else None
                length *= 4
    except OSError:
        return None


def lines_at(path: Path, key: str, wanted: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Yield the objects whose value of ``key`` is in ``wanted``, from a file in which these values ascend.

    Consecutive lines are read sequentially; others are found by binary search in the rest of the file, so a long file
    is not read completely.

    Args:
        path: the file; a missing one is treated as empty.
        key: usually the first key of each object: then only matching lines are parsed.
        wanted: values in ascending order.
    """
    head = re.compile(rb'\{\s*"%s":\s*(-?\d+)\s*[,}]' % re.escape(key).encode())
    try:
        with open(path, "rb") as file:
            size, begin = file.seek(0, os.SEEK_END), 0
            for value in wanted:
                line, line_value = _line_from(file, begin, head, key)
                if line_value is not None and line_value < value:
                    low, high = begin, size  # the matching line begins in [low, high)
                    # The first line from low on has at most the wanted value; from high on, all values are greater.
                    while high - low > 1:
                        middle = (low + high) // 2
                        _, mid_value = _line_from(file, middle, head, key)
                        low, high = (middle, high) if mid_value is not None and mid_value <= value else (low, middle)
                    begin = low
                    line, line_value = _line_from(file, begin, head, key)
                if line_value == value:
                    begin = file.tell()
                    yield from parse_lines(line)
    except OSError:
        return


def _line_from(file: BinaryIO, offset: int, head: re.Pattern[bytes], key: str) -> tuple[bytes, int | None]:
    """Return the first complete line with the key that begins at ``offset`` or later, and the key's value."""
    # One byte earlier: if a line begins at offset, readline() reads only the line break before it.
    file.seek(max(0, offset - 1))
    if offset:
        file.readline()
    while (line := file.readline()).endswith(b"\n"):
        if match := head.match(line):
            return line, int(match[1])
        for record in parse_lines(line):
            if key in record:
                return line, int(record[key])
    return b"", None


def _complete_lines(text: bytes) -> bytes:
    return text[: text.rfind(b"\n") + 1]
