"""Fixtures of the course's tests: the ten nodes on two workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from gnnqlab import course
from gnnqlab.partition.parts import Parts, partition


@pytest.fixture(scope="module")
def small() -> Parts:
    """The first five of the ten nodes on worker 0, the others on worker 1."""
    return partition(course.ten_nodes(), course.Halves(), workers=2)


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep answers and guesses of each test in a folder of its own."""
    monkeypatch.setenv("GNNQLAB_RUNS", str(tmp_path / "runs"))
