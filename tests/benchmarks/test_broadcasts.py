"""The table of broadcasts: its lines, its comparisons, and one short training of each kind."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.studies.broadcasts import LINES, broadcasts, format_rows, lines, skipped_broadcasts
from gnnqlab.study import RunResult


def training(score: float, kept: float, epoch_s: float) -> RunResult:
    return RunResult(score=score, bits=32, skipped=kept, epochs=2, train_s=2 * epoch_s, epochs_s=(epoch_s,) * 2)


def test_every_line_can_be_made() -> None:
    assert list(lines()) == list(LINES)
    assert lines()["sancus, as released"].cache.build() is None


@pytest.mark.parametrize(("scores", "reached"), [((0.80, 0.82), True), ((0.60, 0.61), False)])
def test_avoided_broadcasts_reach_the_goal_only_at_equal_score(scores: tuple[float, float], reached: bool) -> None:
    found = {
        "cagnet": [training(0.80, 0.0, 0.04), training(0.81, 0.0, 0.04)],
        "sancus, variation": [training(score, 0.75, 0.02) for score in scores],
    }
    plain, epoch, kept = skipped_broadcasts("case", found)
    assert plain["ratio"] == 1 and epoch["value"] == pytest.approx(20) and epoch["ratio"] == pytest.approx(2)
    assert kept["value"] == pytest.approx(75) and kept["reached"] is reached


def test_rows_are_trained_once_and_then_read_from_the_stored_cells(tmp_path: Any) -> None:
    settings: dict[str, Any] = {
        "graph": "digits", "systems": ["variation"], "seeds": 1, "epochs": 6, "workers": (2,), "hosts": 1,
        "trainings": str(tmp_path),
    }  # fmt: skip
    rows = broadcasts(**settings)
    assert [each["figure"] for each in rows[:3]] == ["vanilla", "cagnet", "sancus, variation"]
    assert rows[1]["bytes_per_epoch"] >= rows[2]["bytes_per_epoch"] and rows[1]["score"] > 0
    kept = (tmp_path / "cells.jsonl").read_text()
    assert broadcasts(**settings) == rows and (tmp_path / "cells.jsonl").read_text() == kept
    table = format_rows(rows)
    assert [each["system"] for each in table] == ["vanilla", "cagnet", "sancus, variation"]
    assert all("settled epoch" in each and "to target" in each for each in table)
