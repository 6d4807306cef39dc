"""Lines are what was found, open marks what was measured, and what does not exist on a logarithmic axis is left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from gnnqlab.lab.course.scale_views import agreement, draw_scale, measured_of

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
