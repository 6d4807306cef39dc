"""Memory saved by SAR and its extra time, computed from runs: the worst worker's bytes, the slowest worker's epochs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import gnnqlab as gq
from benchmarks.studies import memory
from gnnqlab.cli.bench import Bench
from gnnqlab.graph.generate import sbm
from gnnqlab.nn import ModelSettings
from gnnqlab.results import load


def test_bytes_are_those_of_the_worst_worker_in_the_last_epoch() -> None:
    rows = [(0, 0, "halo", 9e6, 9e6), (1, 0, "halo", 1e6, 2e6), (1, 1, "halo", 3e6, 3e6), (1, 0, "rows", 5e6, 6e6)]
    found = memory.peaks(pd.DataFrame(rows, columns=["epoch", "rank", "purpose", "bytes", "peak_bytes"]))
    assert found == {"halo": 3.0, "rows": 6.0, "all purposes": 6.0}


def test_an_epoch_lasts_as_long_as_its_slowest_worker() -> None:
    epochs = pd.DataFrame({"epoch": [0, 1, 2, 2, 3, 3], "epoch_s": [9.0, 9.0, 1.0, 2.0, 4.0, 1.0]})
    assert memory._epoch_s(SimpleNamespace(records=epochs)) == 3.0


def test_runs_take_turns_and_the_least_of_each_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Any]] = []
    seconds = {("vanilla", 0): [2.0, 1.0, 3.0], ("sar", 0): [4.0, 5.0, 6.0], ("sar", 1): [1.5, 1.4, 1.2]}

    def run(system: Any, *_: Any, memory_every: int) -> float:
        assert memory_every == 0 and system.partition == gq.partitioners.Random()
        asked.append((system.name, system.schedule.depth))
        return seconds[asked[-1]][asked.count(asked[-1]) - 1]

    monkeypatch.setattr(memory, "_run", run)
    rows = memory.memory(models=["gat"], parts=["seconds"])
    assert asked == list(seconds) * 3
    assert [(each["case"], each["value"], each["rival_value"], each["reached"]) for each in rows] == [
        ("rmat:12,30, gat, depth 0", 4.0, 1.0, False),
        ("rmat:12,30, gat, depth 1", 1.2, 1.0, True),
    ]
    assert "(1.2 to 1.5 s; vanilla to 3 s)" in rows[1]["figure"]


def test_separately_measured_parts_are_merged_into_the_stored_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An estimate may be too high or too low: both count as an error."""
    found = {"vanilla": (8.0, 10.0), "cagnet": (10.0, 9.5), "sar": (9.5, 10.0)}
    monkeypatch.setattr(memory, "_run", lambda system, model, graph, epochs, look, **_: found[system.name])
    folder = tmp_path / "kept"
    for systems in ("vanilla,cagnet", "sar", "cagnet"):
        options = {"parts": "foreseen", "systems": systems, "keep": "memory", "results": str(folder), "json": True}
        Bench(name="memory", **options).run()  # type: ignore[arg-type]
    rows = load(folder)["memory"]["rows"]
    assert [(each["case"], each["ratio"], each["reached"]) for each in rows] == [
        ("rmat:12,30, gcn, vanilla", 0.8, False),
        ("rmat:12,30, gcn, cagnet", 0.95, True),
        ("rmat:12,30, gcn, sar", 0.95, True),
    ]
    assert "--systems cagnet --parts foreseen" in rows[1]["command"]


def test_predicted_memory_is_close_to_the_counted_memory_of_a_run() -> None:
    row = memory._predicted("cagnet", "gcn", "sbm:200,3,6", 2)
    assert row["value"] > 0.4 and row["ratio"] > 0.97


def test_rows_are_matrices_by_layer_and_seconds_beside_all() -> None:
    graph = sbm(200, 4, 6, features=8)
    rows = {
        (row["case"], row["figure"].split(" (")[0]): row
        for row in memory.saved_rows_by_layer(graph, [ModelSettings(name="gcn", layers=2, hidden=8)], epochs=2)
    }
    sums, norms = rows["gcn, layer 0", "kept: sums"], rows["gcn, layer 0", "kept: norms"]
    assert (sums["value"], sums["rival_value"], sums["unit"]) == (1.0, 1.0, "nodes x hidden")
    assert (norms["value"], norms["rival_value"]) == (1.25, 0.25)
    whole = rows["gcn, full", "kept by all layers"]
    assert whole["rival_value"] == sum(row["value"] for (_, figure), row in rows.items() if figure.startswith("kept: "))
    assert whole["ratio"] == whole["rival_value"] / whole["value"] > 1
    for keep in ("selective", "full"):
        epoch = rows[f"gcn, {keep}", "epoch"]
        assert epoch["value"] > 0 and epoch["ratio"] == epoch["rival_value"] / epoch["value"]


def test_bytes_of_a_worker_are_those_of_the_formula() -> None:
    rows = memory.rows_by_workers("gcn", "sbm:120,3,20", workers=(2, 4))
    sent, beside, held = rows[:3]
    # 64 features forward, and 128 and 3 columns both ways, in a split and a join of half of all rows and columns
    assert sent["value"] == sent["rival_value"] == 2 * 120 * 4 * (64 + 2 * 128 + 2 * 3) / 4 / 1e6
    assert sent["reached"] and beside["ratio"] == beside["rival_value"] / sent["value"] < 1.5  # of METIS, 2 workers
    assert held["ratio"] == held["rival_value"] / held["value"]
    assert [each["case"][-9:] for each in rows] == ["2 workers"] * 3 + ["4 workers"] * 3
    assert rows[3]["value"] == 0.75 * sent["value"], "2 (P - 1) / P in all"
