"""The measurement of integer products: its refusals, and one real measurement with small sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.registry import measure
from benchmarks.studies import int8 as bench
from benchmarks.studies.tango import LOGITS, ROUNDED
from gnnqlab.kernels.dense.int8_mm import int8_instructions
from tests.benchmarks.answers import here


def test_products_and_trainings_are_measured(monkeypatch, tmp_path: Path) -> None:
    pytest.importorskip("dgl")
    monkeypatch.setattr(bench, "ROWS", 50)
    monkeypatch.setattr(bench, "ROUNDED_SHAPE", (50, 33))
    monkeypatch.setattr(bench, "EDGES_GRAPH", (50, 300))
    for measured in ("measure_rounding", "measure_dense", "measure_edges"):
        monkeypatch.setattr(bench, measured, here(getattr(bench, measured)))
    where = {"graph": "sbm:120,3,6", "models": ("gcn", "gat"), "trainings": str(tmp_path)}
    found = measure("int8", repeats=1, epochs=2, seeds=2, **where)["rows"]
    assert all(each["value"] > 0 and each["ratio"] > 0 for each in found if "accuracy" not in each["figure"])
    assert any(int8_instructions() in each["case"] for each in found)
    for words in (
        bench.COUNTER,
        bench.FRAMEWORK,
        bench.NEAREST,
        "SPMM of packed int4 rows, 0.0064 MB, codes kept",
        "SPMM of int8 rows, 0.0128 MB, codes kept",
        "SPMM incidence",
        "SPMM multi-head",
        "SDDMM add",
        "SDDMM dot",
        "codes kept",
        "epoch, int8",
    ):
        assert any(words in each["figure"] for each in found), words
    trained = [each["figure"] for each in found if "test score" in each["figure"] and each["rival"] == "float32"]
    for words, times in (("Test1", 2), ("Test2", 2), (ROUNDED, 2), (LOGITS, 1), ("±", 15)):
        assert sum(words in figure for figure in trained) == times, words
    assert {each["rival"] for each in found} >= {
        "torch float32",
        "bfloat16, float32 sums",
        "DGL epoch",
        "float32 epoch",
    }
