"""The measurement of compute precisions: its refusals, and one real measurement on a small graph."""

from __future__ import annotations

from benchmarks.registry import measure
from benchmarks.studies import compute as bench
from tests.benchmarks.answers import here


def test_one_model_has_time_memory_and_scores(monkeypatch) -> None:
    monkeypatch.setattr(bench, "measure_products", lambda repeats: [])  # tested below
    found = measure("compute", repeats=2, graph="sbm:300,3,10", models=("gcn",), epochs=3, seeds=2)
    epoch, kept, score = found["rows"]
    assert epoch["unit"] == "s" and epoch["value"] > 0 and "bfloat16" in epoch["case"]
    assert kept["unit"] == "B" and kept["ratio"] > 1.0, "saved activations of bfloat16 rows take no fewer bytes"
    assert score["unit"] == "%" and 0 < score["rival_value"] <= 100
    assert all(row["rival"] == "float32" for row in found["rows"])


def test_dense_products_are_named_with_the_instructions(monkeypatch) -> None:
    monkeypatch.setattr(bench, "ROWS", 50)
    found = here(bench.measure_products)(repeats=1)
    assert [row["figure"].split(" in ")[0] for row in found] == ["X W", "X.T dY", "dY W.T", "X rounded"]
    assert all(bench.instructions() in row["case"] for row in found)
