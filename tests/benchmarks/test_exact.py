"""The measurement of EXACT: one real measurement on a small graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.registry import measure
from benchmarks.studies import exact as bench


def test_one_graph_has_bytes_by_purpose_peak_time_and_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "run_each", lambda function, *, threads, **arguments: [{"bytes": 1}])
    monkeypatch.setattr(bench, "SETTINGS", {"2 bits": {"bits": 2}})
    asked = {"graph": "sbm:300,3,10", "epochs": 2, "seeds": 2, "trainings": str(tmp_path)}
    rows = measure("exact", repeats=1, **asked)["rows"]
    kept = {
        row["figure"].split(": ")[1]: row for row in rows if row["figure"].startswith("kept for the backward pass:")
    }
    whole = next(row for row in rows if row["figure"] == "kept for the backward pass, all")
    assert set(kept) == {"inputs of products", "norms", "activations", "others"}
    assert whole["value"] == sum(row["value"] for row in kept.values())
    assert whole["rival_value"] == sum(row["rival_value"] for row in kept.values())
    assert kept["inputs of products"]["ratio"] > 14, "two bits instead of 32, and four bytes per row"
    assert [row["unit"] for row in rows[-3:]] == ["B", "s", "%"] and all(row["rival"] == "float32" for row in rows)


def test_a_peak_is_of_the_epochs_alone() -> None:
    assert 0 <= bench.measure_peak("sbm:300,3,10", "gcn", {"bits": 8})[0]["bytes"] < 1 << 30
