"""Figures of the theorems draw the computed values."""

import pandas as pd
import pytest

from gnnqlab.course.theory_views import bound_chart, bounds_by_width, descent_chart
from gnnqlab.simulation.convergence_check import ConvergenceCheck
from gnnqlab.simulation.run_check import TheoryCheck
from tests.cases import each


def _check(scale: float = 1.0) -> TheoryCheck:
    rows = [
        {"layer": layer, "weight": "weight" if layer >= 0 else "all", "measured": scale * measured, "ratio": 0.5,
         "bias": 0.01, "standard_error": 0.02, "norm": 2.0, "own": scale * 0.4 * measured,
         "bound": scale * 2 * measured, "printed": scale * 2.1 * measured, "worst": scale * 3 * measured, "shared": 1.0}
        for layer, measured in ((0, 0.25), (1, 0.75), (-1, 1.0))
    ]  # fmt: skip
    return TheoryCheck(pd.DataFrame(rows), "fixed-bits", "2 bits", repeats=9, trained=3)


def _descent(step: float = 0.1) -> ConvergenceCheck:
    frame = pd.DataFrame(
        {
            "epoch": [0, 1], "loss": [2.0, 1.5], "gradient_square": [1.0, 0.5], "noise_square": [0.01, 0.02],
            "mean_square": [1.0, 0.75], "descent": [8.0, 4.0], "noise": [0.1, 0.1], "bound": [8.1, 4.1],
        }
    )  # fmt: skip
    return ConvergenceCheck(frame, step, 4.0, 0.02)


@each("dark", [False, True])
def test_bound_is_drawn_with_the_measured_variance(dark: bool) -> None:
    shown = bound_chart(_check(), dark=dark)
    by_name = {trace.name: list(trace.y) for trace in shown.figure.data}
    assert by_name["bound of Theorem 3, D S²/6"] == [0.5, 1.5, 2.0]
    assert by_name["measured, every message quantized"] == [0.25, 0.75, 1.0]
    assert shown.figure.data[0].x == ("layer 1<br>weight", "layer 2<br>weight", "all weights")
    assert shown.frame.index.tolist() == ["layer 1 weight", "layer 2 weight", "all weights"]
    assert "so 50 % of it" in shown.figure.layout.meta["caption"]
    # Two standard errors of a variance of nine passes: 2 · sqrt(2 / 8) = 1.
    measured = next(trace for trace in shown.figure.data if trace.name.startswith("measured, every"))
    assert list(measured.error_y.array) == pytest.approx([0.25, 0.75, 1.0])


def test_every_quantity_has_a_look_of_its_own() -> None:
    looks = [(trace.marker.color, trace.marker.symbol) for trace in bound_chart(_check()).figure.data]
    assert len(set(looks)) == 4 and len({symbol for _, symbol in looks}) == 4


def test_bounds_by_width_are_sorted_by_bit_width() -> None:
    shown = bounds_by_width({8: _check(0.01), 2: _check()})
    assert shown.frame.index.tolist() == [2, 8]
    assert shown.frame["measured"].tolist() == [1.0, 0.01]
    assert shown.frame["share of the squared gradient"].tolist() == [0.25, 0.0025]
    assert list(shown.figure.data[2].y) == [4.0, 4.0], "the squared gradient, as a line to compare with"
    with pytest.raises(ValueError, match="at least one check"):
        bounds_by_width({})


def test_both_terms_and_their_sum() -> None:
    shown = descent_chart(_descent())
    by_name = {trace.name: list(trace.y) for trace in shown.figure.data}
    assert by_name["bound: both terms"] == [8.1, 4.1]
    assert by_name["measured: mean of ‖∇L‖²"] == [1.0, 0.75]
    assert list(shown.figure.data[0].x) == [1, 2], "T counts from 1"
    assert len({trace.line.dash for trace in shown.figure.data}) >= 4
    assert shown.figure.layout.yaxis.type == "log" and "unit" in shown.figure.layout.yaxis.title.text


def test_a_step_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match=r"below 2 / L_2 = 0\.5 .*, got 0\.6; descend with a shorter step"):
        descent_chart(_descent(step=0.6))
