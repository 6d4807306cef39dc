"""Docstrings, comments and messages use the words of the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language import findings, python_files

pytestmark = pytest.mark.core


def test_no_docstring_opens_with_a_clause_and_no_former_word_is_used() -> None:
    found = [finding for path in python_files(("gnnqlab", "benchmarks")) for finding in findings(path)]
    assert found == [], f"{len(found)} findings; python -m tests.language lists them"


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ('"""Return whether it is so."""', ["opening"]),
        ('"""Return True if it is so."""', []),
        ('x = 1  # what nobody reads\n"""Number of rows."""', ["nobody"]),
        ('raise ValueError(f"rows that travel, got {x}")', ["travel"]),
        ('travel = {"told": 1}', []),
    ],
)
def test_findings_name_the_rule(tmp_path: Path, text: str, rules: list[str]) -> None:
    path = tmp_path / "some.py"
    path.write_text(f"x = 0\n{text}\n")
    assert [finding.rule for finding in findings(path)] == rules
