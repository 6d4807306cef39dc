"""Products of many rows, measured: every line is present, each with the framework's."""

from __future__ import annotations

from benchmarks.kernels.tall import SHAPES, tall
from tests.benchmarks.answers import here


def test_products_and_epochs_are_measured() -> None:
    rows = here(tall)(1, rows=50, graphs=("sbm:200,3,6",), models=("gcn",))
    assert [row["unit"] for row in rows] == ["GFLOP/s"] * 3 * len(SHAPES) + ["s"]
    assert all(row["value"] > 0 for row in rows)
    assert [row["rival"] for row in rows].count("the framework's") == 2 * len(SHAPES)
