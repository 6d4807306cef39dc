"""One planted fault: the edit, and the test that must notice it."""

from __future__ import annotations

import ast
import threading
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PACKAGE", "ROOT", "Fault", "wrong_with"]

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gnnqlab"
_ONE_PARSER = threading.Lock()
"""Python 3.11 has one counter for the depth of all threads' trees: two parsers at once end in a SystemError."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A small wrong edit of one file."""

    name: str
    """The error in a few words; no two faults have the same."""
    file: str
    """In the package, for instance ``bits/assigner/groups.py``, or in ``benchmarks/``."""
    before: str
    """Text of the file; it occurs there exactly once."""
    after: str
    """Text that replaces it."""
    test: str
    """``file::test`` in ``tests``; must fail by an assertion, in seconds."""
    why: str
    """The wrong result or belief if no test failed."""

    @property
    def room(self) -> str:
        return self.file.partition("/")[0]

    @property
    def place(self) -> str:
        """Path of the file in a checkout."""
        return self.file if self.room == "benchmarks" else f"{PACKAGE.name}/{self.file}"

    @property
    def module(self) -> str:
        return self.place.removesuffix(".py").replace("/", ".")


def wrong_with(fault: Fault, *, root: Path = ROOT) -> str:
    """Return the reason why a record cannot be planted (its text is not there exactly once, no test), or an empty text.

    Args:
        root: of another checkout.
    """
    path, (file, _, function) = root / fault.place, fault.test.partition("::")
    if not path.is_file() or path.name == "__init__.py":
        return f"{fault.file} is no module"
    source = path.read_text(encoding="utf-8")
    if source.count(fault.before) != 1:
        return f"its text stands {source.count(fault.before)} times in {fault.file}"
    edited = source.replace(fault.before, fault.after)
    if _tree(source) == _tree(edited):
        return "its edit changes no code"
    test = root / "tests" / file
    if not test.is_file() or f"def {function}(" not in test.read_text(encoding="utf-8"):
        return f"tests/{fault.test} is gone"
    return ""


def _tree(source: str) -> str:
    try:
        with _ONE_PARSER:
            return ast.dump(ast.parse(source))
    except SyntaxError as error:
        raise ValueError(f"an edit must leave code that runs, got {error}") from error
