"""The imports of a package as a graph: every way in which a file can name another one, and the rules it breaks."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

__all__ = ["Mention", "Tree", "arrows_up", "circles", "computed_names"]


@dataclass(frozen=True)
class Mention:
    """A line where a file names a module: by an import anywhere in it, or by a text that contains the module's name."""

    line: int
    module: str
    at_start: bool
    """True if it runs when the file is imported: outside functions and type-checking blocks."""


@dataclass(frozen=True)
class Tree:
    """A package on disk.

    Args:
        package: its folder.
        doors: packages that export names of others; they may name everything, and no module imports from them.
    """

    package: Path
    doors: Collection[str]

    @cached_property
    def files(self) -> list[Path]:
        return sorted(self.package.rglob("*.py"))

    @cached_property
    def modules(self) -> dict[str, Path]:
        return {self.name(path): path for path in self.files}

    def name(self, path: Path) -> str:
        """Return the module of a file; the package for its ``__init__.py``."""
        parts = path.relative_to(self.package.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def place(self, path: Path) -> str:
        return path.relative_to(self.package).as_posix()

    @cached_property
    def trees(self) -> dict[Path, ast.Module]:
        return {path: ast.parse(path.read_text(encoding="utf-8")) for path in self.files}

    @cached_property
    def mentions(self) -> dict[Path, list[Mention]]:
        """Map files to their imports, in functions and for types too, and to modules of the package in their texts.

        ``from a import b`` counts as ``a.b`` where that is a module. Docstrings are ignored.
        """
        return {path: list(self._mentions(path)) for path in self.files}

    def _mentions(self, path: Path) -> Iterator[Mention]:
        tree = self.trees[path]
        start, silent = set(_at_start(tree)), set(_docstrings(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Mention(node.lineno, alias.name, node in start)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    if inner != f"{self.package.name}.__version__":  # defined before any import
                        yield Mention(node.lineno, inner if inner in self.modules else str(node.module), node in start)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in silent:
                for text in re.findall(rf"\b{self.package.name}(?:\.\w+)+", node.value):
                    if module := self._longest(text):
                        yield Mention(node.lineno, module, False)

    def _longest(self, text: str) -> str | None:
        """Return the module with which a dotted name begins, if it is one below the package itself."""
        while text not in self.modules and "." in text:
            text = text.rpartition(".")[0]
        return text if "." in text else None


def arrows_up(tree: Tree, rooms: Sequence[str]) -> list[str]:
    """Report files that name a folder above their own or a package of ``doors``, or that lie in no folder."""

    def room_of(module: str) -> str | None:
        inner = module.partition(".")[2]
        return max((room for room in rooms if f"{inner}.".startswith(f"{room}.")), key=len, default=None)

    wrong = []
    for path in tree.files:
        if tree.name(path) in tree.doors:
            continue
        own = room_of(tree.name(path))
        if own is None:
            wrong.append(f"{tree.place(path)} lies in no room")
            continue
        for mention in tree.mentions[path]:
            if mention.module.split(".")[0] != tree.package.name:
                continue
            room = room_of(mention.module)
            if room is None:
                wrong.append(f"{tree.place(path)}:{mention.line}: {mention.module} is a door; import from a room")
            elif rooms.index(room) > rooms.index(own):
                wrong.append(f"{tree.place(path)}:{mention.line}: {own} lies below {room}")
    return wrong


def circles(tree: Tree) -> list[str]:
    """Report files that name each other in a circle, by any way of naming."""
    edges = {
        name: sorted({mention.module for mention in tree.mentions[path]} & set(tree.modules) - {name, *tree.doors})
        for name, path in tree.modules.items()
        if name not in tree.doors
    }
    found: list[str] = []
    done: set[str] = set()
    for name in edges:
        _visit(name, (), edges, done, found)
    return found


def _visit(
    name: str, above: tuple[str, ...], edges: Mapping[str, Sequence[str]], done: set[str], found: list[str]
) -> None:
    if name in above:
        found.append(" > ".join([*above[above.index(name) :], name]))
    elif name not in done:
        for inner in edges[name]:
            _visit(inner, (*above, name), edges, done, found)
        done.add(name)


def computed_names(tree: Tree, allowed: Collection[str]) -> list[str]:
    """Report modules that are imported by a computed name, except in the allowed files."""
    wrong = []
    for path in tree.files:
        for node in ast.walk(tree.trees[path]):
            if not isinstance(node, ast.Call) or tree.place(path) in allowed:
                continue
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in ("import_module", "__import__") and not isinstance(node.args[0], ast.Constant):
                wrong.append(f"{tree.place(path)}:{node.lineno}: {ast.unparse(node)}")
    return wrong


def _at_start(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the nodes that run when the module is imported: no bodies of functions, no imports for types only."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            for field in ("body", "orelse", "finalbody"):
                waiting += getattr(node, field, [])


def _docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield strings that are statements: docstrings of modules, classes, functions and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
