"""The cache's pictures show what was recorded; the table's intervals are of paired differences."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from gnnqlab.lab.course.cache_views import compare_caches, draw_bound, draw_cache, draw_sweep, sent_by_layer


def recorded() -> Any:
    counts = pd.DataFrame(
        [(epoch, rank, layer, "forward", 0, 4 - epoch - layer, 4, 0.05 + 0.01 * epoch)
         for epoch in range(3) for rank in range(2) for layer in range(2)],
        columns=["epoch", "rank", "layer", "direction", "round", "rows_sent", "rows_offered", "epsilon"],
    )  # fmt: skip
    records = pd.DataFrame({
        "epoch": range(3), "rank": 0, "time_s": 1.0, "epoch_s": 0.1, "loss": 1.0, "train_score": 0.5,
        "val_score": 0.25, "test_score": 0.2,
    })  # fmt: skip
    return SimpleNamespace(cache=counts, records=records, id="made-up")


def test_the_picture_is_what_was_recorded() -> None:
    bundle = draw_cache(recorded())
    traces = {trace.name: trace for trace in bundle.figure.data}
    assert list(traces["layer 0"].y) == [100, 75, 50] and list(traces["layer 1"].y) == [75, 50, 25]
    assert list(traces["ε"].y) == pytest.approx([0.05, 0.06, 0.07])
    assert set(traces["validation"].y) == {25}
    assert "38 % of the rows stayed home" in bundle.figure.layout.meta["caption"]
    assert sent_by_layer(recorded().cache)[1].tolist() == [0.75, 0.5, 0.25]
    empty = SimpleNamespace(cache=recorded().cache.head(0), id="made-up")
    with pytest.raises(ValueError, match="must have a cache to be drawn, got made-up without one"):
        draw_cache(empty)  # type: ignore[arg-type]


def test_scores_are_compared_by_seed() -> None:
    found = pd.DataFrame({
        "cache": ["none", "a"] * 2, "seed": [0, 0, 1, 1], "score": [0.5, 0.51, 0.9, 0.93], "kept": [0.0, 0.5] * 2,
    })  # fmt: skip
    line = compare_caches(found).loc["a"]
    assert line["beside none (points)"] == 2.0 and line["±"] == pytest.approx(12.71, abs=0.01)
    assert line["rows kept (%)"] == 50.0


def test_the_slider_moves_the_mark_to_each_epsilon() -> None:
    found = pd.DataFrame({"epsilon": [0.0, 0.1], "kept": [0.0, 0.4], "score": [0.9, 0.8], "seed": 0})
    figure = draw_sweep(found).figure
    [slider] = figure.layout.sliders
    assert [step.label for step in slider.steps] == ["0", "0.1"]
    assert slider.steps[1].args[0] == {"x": [[0.1], [0.1]], "y": [[40.0], [80.0]]}


def test_the_bound_says_whether_it_held() -> None:
    found = pd.DataFrame({"epoch": [0, 1], "mean_square": [1.0, 1.0], "bound": [2.0, 0.5], "printed": 0.4,
                          "error_square": [0.0, 0.1]})  # fmt: skip
    assert "does not hold" in draw_bound(found).figure.layout.meta["caption"]
    assert "does not" not in draw_bound(found.head(1)).figure.layout.meta["caption"]
