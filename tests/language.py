"""Plain language in Python files: first words of docstrings, words that are not to be used, comments.

    python -m tests.language [FOLDER ...]

prints every finding, then how many there are by rule. Docstrings, comments and texts of messages are read; code is not.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
CLAUSE = r"(?:what|who|whom|whose|whether|how|whoever|whatever|which|where|when|why)\b"
OPENING = re.compile(rf"(?:(?:return|yield|say|show|tell|give|measure|find|draw)s?\s+)?{CLAUSE}", re.IGNORECASE)
"""First words of a docstring in which a clause stands for the noun."""
WORDS = (
    "somebody", "nobody", "whoever", "whomever", "anew", "alike", "beside", "besides", "held against", "kept home",
    "keeps home", "keep home", "stay home", "stays home", "stayed home", "goes home", "go home", "told", "tells",
    "asked", "asks", "owes", "owed", "minds", "made again", "makes again", "look at neighbours", "looks at neighbours",
    "travel", "travels", "travelled", "for nothing", "come true", "remade", "way home", "knows none",
)  # fmt: skip
"""Words of the project's former dialect; the glossary names better ones."""
KEYS = (
    "rows kept home", "kept home", "mean width of what travels", "beside vanilla", "beside float32", "beside none",
    "(beside apart)",
)  # fmt: skip
"""Names of cases, metrics and columns of stored tables, which stay readable."""
CODE = re.compile(
    "|".join([*map(re.escape, KEYS), r"`[^`]*`", r"\{[^{}]*\}", r"^ *(?:>>>|\.\.\.) .*$", r"^ *\w+: "]), re.MULTILINE
)
"""Parts of a text that are names: keys, code, and the parameter that a line describes."""
UNUSED = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)


class Finding(NamedTuple):
    """One breach of a rule."""

    path: Path
    line: int
    rule: str
    text: str


def findings(path: Path) -> list[Finding]:
    """Return every finding of one Python file, in the order of its lines.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "some.py")
        ...     _ = path.write_text("'''What nobody reads.'''")
        ...     [finding.rule for finding in findings(path)]
        ['opening', 'nobody']
    """
    source = path.read_text(encoding="utf-8")
    found = [
        Finding(path, line, "opening", _first(text)) for line, text in _docstrings(ast.parse(source)) if _opens(text)
    ]
    for line, text in _texts(source):
        words = CODE.sub("_", text)
        found += [Finding(path, line, word.group().lower(), _around(words, word)) for word in UNUSED.finditer(words)]
    return sorted(found, key=lambda finding: finding.line)


def python_files(folders: Iterable[str | Path]) -> Iterator[Path]:
    """Yield the Python files of folders or files, sorted."""
    for folder in folders:
        yield from [ROOT / folder] if str(folder).endswith(".py") else sorted((ROOT / folder).rglob("*.py"))


def _opens(text: str) -> bool:
    return OPENING.match(text.strip()) is not None


def _first(text: str) -> str:
    return text.strip().partition("\n")[0]


def _around(text: str, word: re.Match[str]) -> str:
    return " ".join(text[max(word.start() - 40, 0) : word.end() + 40].split())


def _docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of modules, classes, functions and attributes: strings that stand as statements."""
    for node in ast.walk(tree):
        for each in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                yield each.lineno, each.value.value


def _texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield comments, and strings with a space in them: docstrings and messages."""
    strings = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type in strings and " " in token.string):
            yield token.start[0], token.string


def main(folders: Sequence[str]) -> int:
    """Print findings and their number by rule; return 1 if there are any."""
    found = [finding for path in python_files(folders or ("gnnqlab",)) for finding in findings(path)]
    for path, line, rule, text in found:
        print(f"{path.relative_to(ROOT)}:{line}: {rule}: {text}")
    for rule, count in Counter(finding.rule for finding in found).most_common():
        print(f"{count:5} {rule}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
