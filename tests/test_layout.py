"""The structure of the package: imports point downwards, files are short, and importing is fast."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.layout import Tree, arrows_up, circles, computed_names
from tests.slow_down import HANG_S, in_time

pytestmark = pytest.mark.core

DOORS = ("gnnqlab", "gnnqlab.__main__", "gnnqlab.lab")
ROOT = Path(__file__).parent.parent
TREE = Tree(ROOT / "gnnqlab", DOORS)
BENCHMARKS = Tree(ROOT / "benchmarks", ("benchmarks",))
ROOMS = (
    "errors", "short_errors", "terminal", "units", "cards", "attached", "atomic", "axis_part", "by_name", "settings",
    "former_names", "observe", "callable_module", "worker_context", "plain_values", "adaptive", "theory", "kernels",
    "compute", "graph", "partition", "bits", "message", "halo", "exchange", "nn", "systems", "train", "results", "run",
    "launch", "simulation", "testing", "study", "tune", "lab.figures", "lab.training", "lab.listing", "lab.tuner",
    "cli", "course",
)  # fmt: skip
# Some packages open folders by name; the others call functions that a user, a launcher or `gnnqlab` names.
IMPORT_BY_NAME = (
    "__init__.py", "attached.py", "by_name.py", "callable_module.py", "cli/bench.py", "course/__init__.py",
    "lab/__init__.py", "launch/__init__.py", "launch/agent.py", "theory/__init__.py",
)  # fmt: skip
# Libraries that take long to import, or that a small installation does not have.
HEAVY = {
    "anywidget", "cvxpy", "dgl", "highspy", "IPython", "ipywidgets", "kaleido", "networkx", "pandas", "plotly",
    "pymetis", "scipy", "sklearn", "torch_geometric",
}  # fmt: skip
MAY_IMPORT_DGL = ("graph/", "partition/metis.py", "nn/dgl.py", "train/dgl_mini_batch.py", "cli")


def test_imports_point_down() -> None:
    assert arrows_up(TREE, ROOMS) == []
    assert arrows_up(BENCHMARKS, ("engine", "kernels", "studies", "registry", "summary", "page")) == []


def test_the_product_needs_neither_the_course_nor_the_benchmarks() -> None:
    found = [
        f"{TREE.place(path)}:{mention.line}: {mention.module}"
        for path in TREE.files
        if TREE.name(path) not in DOORS
        for mention in TREE.mentions[path]
        if mention.module.split(".")[0] == "benchmarks"
        or (mention.module.startswith("gnnqlab.course") and not TREE.place(path).startswith("course/"))
    ]
    assert found == [], "only the top-level package may name them"


def test_no_circles() -> None:
    assert circles(TREE) == []
    assert circles(BENCHMARKS) == []


def test_names_that_are_computed_are_imported_by_few() -> None:
    assert computed_names(TREE, IMPORT_BY_NAME) == []
    assert set(IMPORT_BY_NAME) <= {TREE.place(path) for path in TREE.files}


def test_heavy_libraries_are_imported_inside_functions() -> None:
    found = [
        f"{TREE.place(path)}:{mention.line}: import {mention.module} inside the function that needs it"
        for path in TREE.files
        for mention in TREE.mentions[path]
        if mention.at_start and mention.module.split(".")[0] in HEAVY
    ]
    assert found == []


def test_only_few_files_need_dgl() -> None:
    found = [
        f"{TREE.place(path)}:{mention.line}"
        for path in TREE.files
        if not TREE.place(path).startswith(MAY_IMPORT_DGL)
        for mention in TREE.mentions[path]
        if mention.module.split(".")[0] == "dgl"
    ]
    assert found == [], f"only {MAY_IMPORT_DGL} may import dgl"


def test_files_hold_one_idea() -> None:
    files = {tree.place(path): path for tree in (TREE, BENCHMARKS) for path in tree.files}
    lines = {place: len(path.read_text(encoding="utf-8").splitlines()) for place, path in files.items()}
    assert {place: count for place, count in lines.items() if count > 400} == {}, "split these files"
    vague = {"utils", "util", "helpers", "misc", "common"}
    assert [place for place in lines if Path(place).stem in vague] == [], "name the purpose"


def _imported() -> tuple[float, list[str]]:
    """Return the seconds of ``import gnnqlab`` in a new process, and the modules that it loaded."""
    program = (
        "import sys, time; before = set(sys.modules); start = time.perf_counter(); import gnnqlab; "
        "print(time.perf_counter() - start, *set(sys.modules) - before)"
    )
    seconds, *modules = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_S,
        cwd=TREE.package.parent,
    ).stdout.split()
    return float(seconds), modules


def test_import_loads_few_modules_and_no_library() -> None:
    _, modules = _imported()
    own = [module for module in modules if module.split(".")[0] == "gnnqlab"]
    others = {module.split(".")[0] for module in modules if module not in own}
    assert others <= sys.stdlib_module_names, f"import gnnqlab loads {sorted(others - sys.stdlib_module_names)}"
    # The package, the modules that it attaches, and names; in addition some thirty of the standard library.
    assert len(own) <= 5 and len(modules) <= 80, sorted(modules)


def test_import_keeps_its_promise_of_half_a_second() -> None:
    # It takes 0.01 s. The fastest of three: other work of the machine is no cost of the import.
    assert any(in_time(_imported()[0], 0.5) for _ in range(3))


# -- the rules find every way of naming a module: one wrong line of each kind, in a small package ----------------------

UP = {
    "at the start": "import house.attic.roof\n",
    "from a package": "from house.attic import roof\n",
    "in a function": "def look():\n    from house.attic.roof import tiles\n",
    "for types only": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.attic.roof import tiles\n",
    "by name": "import importlib\ndef look():\n    return importlib.import_module('house.attic.roof')\n",
    "by a name kept elsewhere": "ROOF = 'house.attic.roof:tiles'\n",
    "in a program for another process": "PROGRAM = 'import sys; from house.attic.roof import tiles; print(tiles)'\n",
    "in a command": "def command(n):\n    return f'python -m house.attic.roof {n}'\n",
}


def _house(folder: Path, **files: str) -> Tree:
    for place in ("cellar", "attic"):
        (folder / "house" / place).mkdir(parents=True)
        (folder / "house" / place / "__init__.py").write_text("")
    (folder / "house" / "__init__.py").write_text("HOMES = {'tiles': 'house.attic.roof'}\n")
    written = {"cellar/wine": "bottles = 1\n", "attic/roof": "tiles = 1\n", **files}
    for place, text in written.items():
        (folder / "house" / f"{place}.py").write_text(text)
    return Tree(folder / "house", ("house",))


@pytest.mark.parametrize("way", UP)
def test_upward_import_is_found(tmp_path: Path, way: str) -> None:
    house = _house(tmp_path, **{"cellar/wine": UP[way]})
    [found] = arrows_up(house, ("cellar", "attic"))
    assert found.startswith("cellar/wine.py:") and found.endswith("cellar lies below attic")
    assert arrows_up(house, ("attic", "cellar")) == []


@pytest.mark.parametrize("way", UP)
def test_circular_import_is_found(tmp_path: Path, way: str) -> None:
    house = _house(tmp_path, **{"cellar/wine": UP[way]})
    assert circles(house) == []
    house = _house(tmp_path / "again", **{"cellar/wine": UP[way], "attic/roof": "from house.cellar import wine\n"})
    assert circles(house) == ["house.attic.roof > house.cellar.wine > house.attic.roof"]


def test_module_name_in_a_docstring_is_not_an_import(tmp_path: Path) -> None:
    assert arrows_up(_house(tmp_path, **{"cellar/wine": '"""See `house.attic.roof`."""\n'}), ("cellar", "attic")) == []


def test_import_from_the_package_root_and_unassigned_modules_are_found(tmp_path: Path) -> None:
    house = _house(tmp_path, **{"cellar/wine": "from house import tiles\n"})
    assert arrows_up(house, ("cellar", "attic")) == ["cellar/wine.py:1: house is a door; import from a room"]
    nowhere = _house(tmp_path / "again", shed="tools = 1\n")
    assert arrows_up(nowhere, ("cellar", "attic")) == ["shed.py lies in no room"]


def test_import_by_computed_name_is_found(tmp_path: Path) -> None:
    text = "import importlib\ndef look(room):\n    return importlib.import_module('house.' + room)\n"
    house = _house(tmp_path, **{"cellar/wine": text})
    [found] = computed_names(house, ())
    assert found.startswith("cellar/wine.py:3:") and computed_names(house, ("cellar/wine.py",)) == []
