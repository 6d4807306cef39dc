"""The pass between convolutions, measured: every line is there, each beside its rival."""

from __future__ import annotations

import pytest

from gnnqlab.bench.nodewise import MODELS, measure, nodewise
from gnnqlab.bench.registry import BENCHES


def test_passes_and_epochs_are_measured() -> None:
    assert BENCHES["nodewise"] == "gnnqlab.bench.nodewise"
    rows = measure(1, graph="sbm:200,3,6", rows=300, columns=16)
    assert [row["rival"] for row in rows].count("one step after another") == 2 + len(MODELS)
    assert [row["rival"] for row in rows].count("memcpy of the rows") == 2
    assert all(row["value"] > 0 and row["ratio"] > 0 for row in rows)
    (share,) = [row for row in rows if row["unit"] == "%"]
    assert share["rival_value"] == 15.0 and share["reached"] == (share["value"] <= 15.0)
    with pytest.raises(ValueError, match="repeats must be at least 1, got 0"):
        nodewise(repeats=0)
