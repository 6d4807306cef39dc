"""Products of many rows, measured: every line is there, each beside the framework's."""

from __future__ import annotations

import pytest

from benchmarks.kernels.tall import SHAPES, measure, tall
from benchmarks.registry import BENCHES


def test_products_and_epochs_are_measured() -> None:
    assert BENCHES["tall"] == "benchmarks.kernels.tall"
    rows = measure(1, rows=50, graphs=("sbm:200,3,6",), models=("gcn",))
    assert [row["unit"] for row in rows] == ["GFLOP/s"] * 3 * len(SHAPES) + ["s"]
    assert all(row["value"] > 0 for row in rows)
    assert [row["rival"] for row in rows].count("the framework's") == 2 * len(SHAPES)
    with pytest.raises(ValueError, match="repeats must be at least 1, got 0"):
        tall(repeats=0)
