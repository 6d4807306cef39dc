"""The figure widget comes without the grammar that jsonschema builds, and jsonschema still checks what it checked."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASKED = """
import sys
from gnnqlab.lab.figure_widgets import figure_widget
assert figure_widget().__name__ == "FigureWidget"
assert "jsonschema" in sys.modules and "rfc3987_syntax" not in sys.modules, "the grammar waits"
import jsonschema
checker = jsonschema.FormatChecker(["iri"])
checker.check("https://example.org/größe", "iri")
assert "lark" in sys.modules and hasattr(sys.modules["rfc3987_syntax"], "is_valid_syntax_iri"), "built when asked"
try:
    checker.check("no address", "iri")
except jsonschema.FormatError:
    print("refused")
"""


def test_the_grammar_is_built_when_it_is_asked() -> None:
    pytest.importorskip("anywidget")
    pytest.importorskip("rfc3987_syntax")
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, timeout=120)
    assert done.stdout == "refused\n", done.stderr
