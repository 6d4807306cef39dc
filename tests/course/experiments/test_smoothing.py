"""Smoothed staleness: the systems that are trained, and the chart of their losses."""

from __future__ import annotations

import pandas as pd
import pytest

from gnnqlab.course.experiments.smoothing import add_smoothing, draw_smoothing
from gnnqlab.systems import pipegcn
from tests.cases import each
from tests.course.records import training_records


def _records(end: float) -> pd.DataFrame:
    """Make three epochs whose loss falls from 1 to ``end``."""
    return training_records((1.0, (1 + end) / 2, end))


@each(("what", "rows", "gradients"), [("features", 0.9, 0), ("gradients", 0, 0.9), ("both", 0.9, 0.9)])
def test_add_smoothing_sets_the_selected_coefficients(what: str, rows: float, gradients: float) -> None:
    schedule = add_smoothing(pipegcn(), what, 0.9).schedule
    assert (schedule.feature_smoothing, schedule.gradient_smoothing) == (rows, gradients)


def test_other_things_cannot_be_smoothed() -> None:
    with pytest.raises(ValueError, match="must be one of .'features', 'gradients', 'both'., got 'weights'"):
        add_smoothing(pipegcn(), "weights", 0.5)


def test_a_panel_for_each_kind_and_the_unsmoothed_run_in_all() -> None:
    found = {("nothing", 0.0): 0.5, ("features", 0.5): 0.4, ("features", 0.95): 0.7, ("both", 0.5): 0.3}
    bundle = draw_smoothing({key: _records(end) for key, end in found.items()}, fresh=_records(0.1))
    figure = bundle.figure.to_dict()
    assert [note["text"] for note in figure["layout"]["annotations"]] == ["features smoothed", "both smoothed"]
    names = [(line["xaxis"], line["name"]) for line in figure["data"]]
    assert names == [
        ("x", "fresh rows"), ("x", "γ = 0"), ("x", "γ = 0.5"), ("x", "γ = 0.95"),
        ("x2", "fresh rows"), ("x2", "γ = 0"), ("x2", "γ = 0.5"),
    ]  # fmt: skip
    assert figure["layout"]["yaxis"]["title"]["text"] == "training loss (cross-entropy)"


def test_something_must_be_smoothed() -> None:
    with pytest.raises(ValueError, match="a smoothed run is needed"):
        draw_smoothing({("nothing", 0.0): _records(0.5)})
