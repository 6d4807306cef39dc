"""The house keeps its shape: imports point down, files stay short, importing costs little."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "gnnqlab"
ROOMS = (
    "errors", "callable_module", "theory", "kernels", "graph", "partition", "bits", "message", "exchange", "nn",
    "systems", "train", "launch", "measure", "tune", "lab", "bench", "cli",
)  # fmt: skip
# Libraries that take long to import, or that a small installation has not got.
HEAVY = {
    "anywidget", "cvxpy", "dgl", "highspy", "IPython", "ipywidgets", "kaleido", "networkx", "pandas", "plotly",
    "scipy", "sklearn", "torch_geometric",
}  # fmt: skip
MAY_IMPORT_DGL = ("graph/", "partition/edge_cut.py", "nn/dgl.py", "bench/", "launch/doctor.py", "cli")
FILES = sorted(PACKAGE.rglob("*.py"))


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path, *, top_level_only: bool = False) -> Iterator[tuple[int, str]]:
    """Line and full module name of every import in a file; `from a import b` counts as a.b where that is a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = _top_level(tree) if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            module = node.module or ""
            for alias in node.names:
                if (module, alias.name) == ("gnnqlab", "__version__"):
                    continue  # a fact about the package, there as soon as anything of it is
                inner = f"{module}.{alias.name}"
                yield node.lineno, inner if inner in MODULES else module


def _top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """What runs when the module is imported: not the bodies of functions, not imports for types only."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            for field in ("body", "orelse", "finalbody"):
                waiting += getattr(node, field, [])


MODULES = {_name(path) for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_imports_point_down(path: Path) -> None:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    if parts[0] in ("__init__", "__main__"):
        return  # the front door shows every room, lazily
    assert parts[0] in ROOMS, f"{path} lies in no room; the rooms are {ROOMS}"
    own = ROOMS.index(parts[0])
    for line, module in _imports(path):
        if module.split(".")[0] != "gnnqlab":
            continue
        room = (module.split(".") + ["__init__"])[1]
        assert room in ROOMS, f"{path}:{line}: import from a room, not from the front door"
        assert ROOMS.index(room) <= own, f"{path}:{line}: {parts[0]} lies below {room}, so it cannot import it"


def test_no_circle_inside_a_room() -> None:
    edges = {
        _name(path): [module for _, module in _imports(path, top_level_only=True) if module in MODULES]
        for path in FILES
        if path.name != "__init__.py"
    }
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"circle of imports: {' > '.join([*above, name])}"
        if name in done or name not in edges:
            return
        for inner in edges[name]:
            visit(inner, (*above, name))
        done.add(name)

    for name in edges:
        visit(name, ())


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_heavy_libraries_are_imported_inside_functions(path: Path) -> None:
    for line, module in _imports(path, top_level_only=True):
        top = module.split(".")[0]
        assert top not in HEAVY, f"{path}:{line}: import {top} inside the function that needs it"


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_only_few_files_need_dgl(path: Path) -> None:
    place = path.relative_to(PACKAGE).as_posix()
    if not place.startswith(MAY_IMPORT_DGL):
        for line, module in _imports(path):
            assert module.split(".")[0] != "dgl", f"{path}:{line}: only {MAY_IMPORT_DGL} may import dgl"


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_files_hold_one_idea(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= 400, f"{path} has {lines} lines: look for the second idea"
    assert path.stem not in {"utils", "util", "helpers", "misc", "common"}, f"{path}: name the idea"


def test_importing_is_quick_and_loads_nothing_heavy() -> None:
    program = (
        "import sys, time; before = set(sys.modules); start = time.perf_counter(); import gnnqlab; "
        "print(time.perf_counter() - start, *sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60, cwd=PACKAGE.parent
        ).stdout.split()
        for _ in range(3)
    ]
    loaded = set(runs[0][1:])
    assert not loaded & (HEAVY | {"torch"}), f"import gnnqlab loads {sorted(loaded & (HEAVY | {'torch', 'numpy'}))}"
    # The quickest of three: what else the machine does is not the import's cost.
    assert min(float(run[0]) for run in runs) < 0.5
