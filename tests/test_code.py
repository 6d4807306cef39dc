"""Lint and types: both tools find nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(arguments)}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"


@pytest.mark.core
def test_ruff_reports_no_errors() -> None:
    run("ruff", "check", "--quiet", ".")


@pytest.mark.slow
def test_mypy_reports_no_errors() -> None:
    run("mypy")
