"""Lines are what was found, open marks what was measured, and what does not exist on a logarithmic axis is left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from gnnqlab.course.scale_views import agreement, draw_held, draw_scale, measured_of

FOUND = pd.DataFrame(
    {"system": ["SAR"] * 3, "workers": [1, 2, 4], "bytes": [0.0, 10.0, 30.0], "memory_bytes": [8.0, 5.0, float("nan")]}
)


def _run(workers: int) -> Any:
    records = pd.DataFrame({"epoch": [0, 1, 1], "bytes_payload": [9, 4, 5], "bytes_params": [9, 1, 0]})
    memory = pd.DataFrame({"epoch": [0, 1, 1, 1], "rank": [0, 0, 0, 1], "purpose": "rows", "bytes": [99, 2, 3, 4]})
    return SimpleNamespace(records=records, memory=memory, config=SimpleNamespace(workers=workers))


def test_what_runs_sent_and_held_is_that_of_their_last_epoch() -> None:
    measured = measured_of(cast("Any", {"SAR": _run(2), "SAR | four": _run(4)}))
    assert measured["system"].tolist() == ["SAR", "SAR"] and measured["workers"].tolist() == [2, 4]
    assert measured["bytes"].tolist() == [10.0, 10.0] and measured["memory_bytes"].tolist() == [5.0, 5.0]
    assert agreement(FOUND, measured)["bytes"].tolist() == [1.0, 0.333]


def test_lines_are_found_and_open_marks_measured() -> None:
    drawn = draw_scale(FOUND, measured_of({"SAR": _run(2)})).figure
    lines = [trace for trace in drawn.data if trace.mode == "lines+markers"]
    marks = [trace for trace in drawn.data if trace.mode == "markers"]
    assert [list(trace.x) for trace in lines] == [[2, 4], [1, 2]]
    assert [list(trace.y) for trace in marks] == [[10.0], [5.0]]
    assert "Sent in an epoch at 4 workers: SAR 30 B" in drawn.layout.meta["caption"]
    with pytest.raises(ValueError, match="between 1 and 7 systems"):
        draw_scale(FOUND.iloc[:0])


def test_what_is_held_is_stacked_by_purpose_and_the_frame_has_the_most_of_each() -> None:
    columns = ["epoch", "rank", "purpose", "bytes", "peak_bytes"]
    lines = [(1, 0, "rows", 4e6, 5e6), (1, 0, "halo", 1e6, 3e6), (1, 1, "rows", 2e6, 9e6), (1, 1, "halo", 2e6, 2e6)]
    run = SimpleNamespace(memory=pd.DataFrame(lines, columns=columns))
    drawn = draw_held(cast("Any", {"SAR": run, "Vanilla": run}))
    assert drawn.figure.layout.barmode == "stack"
    assert {bar.name: list(bar.y) for bar in drawn.figure.data if any(bar.y)} == {
        "own rows": [4.0, 4.0],
        "halo rows, gradients, caches": [1.0, 1.0],
    }
    assert drawn.frame.to_dict("index")["SAR"] == {"rows": 9e6, "halo": 3e6}
