"""The table of caches: its arithmetic on made-up trainings, its refusals, and one real measurement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.studies.caches import CACHES, CODECS, caches, compare_lines, cost_of_choosing, lines
from gnnqlab.study import RunResult


def trainings(*scores: float, kept: float, sent: float) -> list[RunResult]:
    return [RunResult(score=score, bits=32.0, skipped=kept, bytes_sent=sent) for score in scores]


def test_shares_points_and_the_fewest_bytes() -> None:
    found = {
        "metis / float32 / none": trainings(0.90, 0.91, 0.92, kept=0.0, sent=8e6),
        "metis / float32 / fixed": trainings(0.90, 0.91, 0.92, kept=0.7, sent=3e6),
        "metis / linear-4 / none": trainings(0.90, 0.91, 0.92, kept=0.0, sent=1.2e6),
        "metis / linear-4 / fixed": trainings(0.80, 0.81, 0.82, kept=0.9, sent=0.4e6),
    }
    rows = compare_lines("made up", found)
    fixed = rows[0]
    assert (fixed["value"], fixed["reached"], fixed["points"]) == (pytest.approx(70.0), True, 0.0)
    assert rows[1]["ratio"] == pytest.approx(8 / 3)
    assert rows[2]["points"] == pytest.approx(-10.0) and rows[2]["ratio"] == 0.0, (
        "relative to the same codec without a cache"
    )
    assert rows[-1]["figure"].endswith("metis / linear-4 / none"), "fewest bytes, but not at ten points"
    worse = dict(found) | {"metis / float32 / fixed": trainings(0.89, 0.90, 0.91, kept=0.7, sent=3e6)}
    assert compare_lines("made up", worse)[0]["reached"] is False


def test_lines_are_all_that_go_together() -> None:
    assert {name.split(" / ")[1] for name in lines()} == set(CODECS)
    assert {name.split(" / ")[2] for name in lines()} == set(CACHES)
    for name, system in lines().items():
        assert getattr(system.partition, "cuts", "nodes") == getattr(system.exchange, "takes_cuts_of", "nodes"), name


def test_once_for_real_and_found_again(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "graph": "digits", "systems": ["random / float32 / fixed"], "seeds": 1, "epochs": 6, "workers": (2,),
        "trainings": str(tmp_path),
    }  # fmt: skip
    rows = caches(**settings)
    assert len(rows) == 6 and 0 < rows[0]["value"] < 100
    kept = (tmp_path / "cells.jsonl").read_text()
    assert caches(**settings)[:3] == rows[:3] and (tmp_path / "cells.jsonl").read_text() == kept


def test_choosing_is_timed() -> None:
    choosing, both, held = cost_of_choosing(400, epochs=4)
    assert 0 < choosing["value"] < both["value"] < 100
    assert held["value"] == 2.0 and held["reached"]
