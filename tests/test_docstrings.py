"""Examples in docstrings run and print the shown output; a module is imported only when its examples run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for folder in ("gnnqlab", "benchmarks", "tests")
    for path in (ROOT / folder).rglob("*.py")
    if path != Path(__file__) and ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNNQLAB_RUNS", str(tmp_path))  # answers of the course's examples are kept there
    module = importlib.import_module(name)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner, printed = doctest.DocTestRunner(optionflags=flags), []
    for examples in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        runner.run(examples, out=printed.append)
    assert runner.failures == 0, "".join(printed)
    assert runner.tries > 0, f"{name} has examples that doctest does not find"
