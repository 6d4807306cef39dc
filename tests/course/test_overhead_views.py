"""What decisions cost: every phase has one purpose, and shares add up."""

from __future__ import annotations

import pandas as pd
import pytest

from gnnqlab.course.overhead_views import PURPOSES, draw_overhead, overhead
from gnnqlab.train.loop.clock import PHASES

COLUMNS = [column for columns in PURPOSES.values() for column in columns]
RECORDS = pd.DataFrame(
    [{"epoch": epoch, "rank": rank, **dict.fromkeys(COLUMNS, 0.5 + rank)} for epoch in range(2) for rank in (0, 1)]
)


def test_every_phase_of_training_has_one_purpose() -> None:
    assert sorted(COLUMNS) == sorted(f"{phase}_s" for phase in PHASES if phase != "evaluate")


def test_seconds_of_a_run_are_the_mean_of_workers() -> None:
    seconds = overhead(RECORDS, offline_s=0.25)
    assert seconds.to_dict() == {  # a phase takes 1 s on worker 0 and 3 s on worker 1
        "computation": 10.0, "communication": 4.0, "encode, decode": 4.0, "coordination": 2.0, "offline": 0.25,
    }  # fmt: skip


def test_shares_are_drawn() -> None:
    bundle = draw_overhead(pd.DataFrame({"sylvie": overhead(RECORDS)}), link="loopback")
    assert sum(bar.x[0] for bar in bundle.figure.data) == pytest.approx(100)
    caption = bundle.figure.layout.meta["caption"]
    assert "sylvie computation 50 %, communication 20 %" in caption and caption.endswith("Link: loopback.")
    with pytest.raises(ValueError, match="seconds of at least one run"):
        draw_overhead(pd.DataFrame({"none": overhead(RECORDS) * 0}))
