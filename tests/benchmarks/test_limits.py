"""The table of an epoch and its limits: its arithmetic, its refusals, and one real measurement."""

from __future__ import annotations

import pytest

from benchmarks.registry import measure
from benchmarks.studies.limits import format_rows, table
from gnnqlab.course.experiments.limits import limits_table


def test_rows_contain_measured_time_limit_ratio_and_share() -> None:
    seconds = {"central": 0.004, "products": 0.005, "optimizer": 0.001, "epoch": 0.010}
    rows = table("made up", limits_table(seconds, {"neighbour sums": 0.001, "products": 0.004}))
    assert [(row["figure"], row["ratio"]) for row in rows] == [
        ("neighbour sums", pytest.approx(0.25)),
        ("products", pytest.approx(0.8)),
        ("other", None),
        ("epoch", pytest.approx(0.5)),
    ]
    assert [tuple(line.values())[1:] for line in format_rows(rows)] == [
        ("neighbour sums", "4", "1", "4.00", "40.0 %"),
        ("products", "5", "4", "1.25", "50.0 %"),
        ("other", "1", "none", "", "10.0 %"),
        ("epoch", "10", "5", "2.00", "100.0 %"),
    ]


@pytest.mark.slow
def test_one_worker_and_two_are_measured() -> None:
    rows = measure("limits", repeats=1, graph="sbm:600,3,8", models=("gcn",), hidden=32, epochs=5)["rows"]
    one, two = (f"sbm:600,3,8, gcn 3 x 32, {workers} worker(s)" for workers in (1, 2))
    parts = {case: [row["figure"] for row in rows if row["case"].startswith(case)] for case in (one, two)}
    assert parts[one] == ["neighbour sums", "products", "node-wise", "other", "epoch"]
    assert parts[two] == ["neighbour sums", "products", "node-wise", "codec", "wire", "other", "epoch"]
    assert "adaqp over 1gbit" in rows[-1]["case"] and "paced" in rows[-1]["case"]
    assert all(row["value"] > 0 and (row["figure"] == "other" or row["rival_value"] > 0) for row in rows)
    whole = {row["figure"]: row["rival_value"] for row in rows if row["case"].startswith(two)}
    work = sum(whole[part] for part in ("neighbour sums", "products", "node-wise", "codec"))
    assert whole["epoch"] == pytest.approx(max(work, whole["wire"]))
