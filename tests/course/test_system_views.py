"""Compared systems: the stored table, and charts by the number of workers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

import gnnqlab as gq
from gnnqlab.course.system_views import agreement, draw_memory, draw_scale, draw_verdict, measure_runs, verdict


def _rows(figures: list[str], values: list[float], points: list[float]) -> pd.DataFrame:
    facts = {"part": "systems", "graph": "cora", "model": "gcn", "unit": "s"}
    return pd.DataFrame({**facts, "figure": figures, "value": values, "points": points, "half_interval": 0.5})


def test_each_is_held_against_vanilla_with_the_same_services() -> None:
    found = _rows(["vanilla", "vanilla+", "adaqp", "adaqp+"], [8.0, 4.0, 4.0, 3.0], [0.0, 0.0, 0.4, -0.6])
    assert verdict(found, services=False).loc["adaqp", "cora, gcn"] == 2.0
    table = verdict(found)
    assert table.loc["adaqp", "cora, gcn"] == pytest.approx(4 / 3)
    assert table.attrs["points"].loc["adaqp", "cora, gcn"] == -0.6
    assert verdict(found, services=False).attrs["points"].isna().all().all()


def test_cells_show_the_speed_ups_and_points_of_the_table() -> None:
    [cells] = draw_verdict(verdict(_rows(["vanilla", "adaqp"], [3.0, 2.0], [0.0, 2.0]), services=False)).figure.data
    assert cells.text[1][0] == "1.50 ×<br>+2.0" and cells.text[0][0] == "1.00 ×"
    with pytest.raises(ValueError, match="got none; keep them with --keep systems"):
        verdict(_rows(["adaqp"], [1.0], [0.0]))


def test_stored_table_has_every_case() -> None:
    table = verdict(gq.results.bench_results())
    assert table.shape[1] >= 5 and table.notna().all().all() and (table.loc["vanilla"] == 1.0).all()


FOUND = pd.DataFrame(
    {"system": ["SAR"] * 3, "workers": [1, 2, 4], "bytes": [0.0, 10.0, 30.0], "memory_bytes": [8.0, 5.0, float("nan")]}
)


def _run(workers: int) -> Any:
    records = pd.DataFrame({"epoch": [0, 1, 1], "bytes_payload": [9, 4, 5], "bytes_params": [9, 1, 0]})
    memory = pd.DataFrame({"epoch": [0, 1, 1, 1], "rank": [0, 0, 0, 1], "purpose": "rows", "bytes": [99, 2, 3, 4]})
    return SimpleNamespace(records=records, memory=memory, config=SimpleNamespace(workers=workers))


def test_bytes_and_memory_of_runs_are_those_of_the_last_epoch() -> None:
    measured = measure_runs(cast("Any", {"SAR": _run(2), "SAR | four": _run(4)}))
    assert measured["system"].tolist() == ["SAR", "SAR"] and measured["workers"].tolist() == [2, 4]
    assert measured["bytes"].tolist() == [10.0, 10.0] and measured["memory_bytes"].tolist() == [5.0, 5.0]
    assert agreement(FOUND, measured)["bytes"].tolist() == [1.0, 0.333]


def test_lines_are_found_and_open_marks_measured() -> None:
    drawn = draw_scale(FOUND, measure_runs({"SAR": _run(2)})).figure
    lines = [trace for trace in drawn.data if trace.mode == "lines+markers"]
    marks = [trace for trace in drawn.data if trace.mode == "markers"]
    assert [list(trace.x) for trace in lines] == [[2, 4], [1, 2]]
    assert [list(trace.y) for trace in marks] == [[10.0], [5.0]]
    with pytest.raises(ValueError, match="between 1 and 7 systems"):
        draw_scale(FOUND.iloc[:0])


def test_memory_is_stacked_by_purpose_and_the_frame_has_peak_bytes() -> None:
    columns = ["epoch", "rank", "purpose", "bytes", "peak_bytes"]
    lines = [(1, 0, "rows", 4e6, 5e6), (1, 0, "halo", 1e6, 3e6), (1, 1, "rows", 2e6, 9e6), (1, 1, "halo", 2e6, 2e6)]
    run = SimpleNamespace(memory=pd.DataFrame(lines, columns=columns))
    drawn = draw_memory(cast("Any", {"SAR": run, "Vanilla": run}))
    assert drawn.figure.layout.barmode == "stack"
    assert {bar.name: list(bar.y) for bar in drawn.figure.data if any(bar.y)} == {
        "own rows": [4.0, 4.0],
        "halo rows, gradients, caches": [1.0, 1.0],
    }
    assert drawn.frame.to_dict("index")["SAR"] == {"rows": 9e6, "halo": 3e6}
