"""The cache's pictures show the recorded values; the table's intervals are of paired differences."""

from __future__ import annotations

import pandas as pd
import pytest

from gnnqlab.course.cache_views import compare_caches, draw_bound, draw_sweep
from gnnqlab.lab.figures.theme import OKABE_ITO


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
    layers = {OKABE_ITO["blue"], OKABE_ITO["vermillion"]}
    assert not {trace.line.color for trace in figure.data} & layers, "these colours are for layers in the other figure"


def test_caption_of_the_bound_states_if_the_bound_holds() -> None:
    found = pd.DataFrame({"epoch": [0, 1], "mean_square": [1.0, 1.0], "bound": [2.0, 0.5], "printed": 0.4,
                          "error_square": [0.0, 0.1]})  # fmt: skip
    assert "does not hold" in draw_bound(found).figure.layout.meta["caption"]
    assert "does not" not in draw_bound(found.head(1)).figure.layout.meta["caption"]


def test_rounding_of_float32_is_no_error_of_a_cache() -> None:
    found = pd.DataFrame({"epoch": [0, 1], "mean_square": [50.0, 40.0], "bound": 99.0, "printed": 90.0,
                          "error_square": [1e-12, 0.1]})  # fmt: skip
    errors = next(trace for trace in draw_bound(found).figure.data if trace.name.startswith("||Δ||²"))
    assert list(errors.x) == [1] and list(errors.y) == [0.1]
