"""Products in codes: charts show the measurements, and the toy graph's numbers are those of the paper."""

from __future__ import annotations

import pandas as pd
import pytest

import gnnqlab as gq
from gnnqlab.course.experiments.code_products import (
    PAPER,
    draw_bit_rule,
    draw_update_error,
    error_by_width,
    first_layer_output,
    toy_layer,
    toy_table,
    update_error,
)
from gnnqlab.course.experiments.training_in_codes import (
    compare_precisions,
    draw_losses,
    draw_saved_bytes,
    draw_times,
    saved_bytes_table,
)


def test_noise_averages_out_and_nearest_does_not() -> None:
    found = update_error(gq.load("sbm:60,3,6"), draws=16, bits=4)
    assert found["stochastic"].iloc[-1] < 0.5 * found["stochastic"].iloc[0]
    assert found["nearest"].iloc[-1] == pytest.approx(found["nearest"].iloc[0], rel=1e-6)
    assert list(draw_update_error(found, bits=4).figure.data[1].y) == pytest.approx(list(100 * found["nearest"]))
    narrow = draw_update_error(found, bits=1).figure.layout
    assert narrow.title.text.endswith("update, 1 bit")


def test_the_slider_of_the_bit_rule_moves_the_line() -> None:
    found = error_by_width(first_layer_output(gq.load("sbm:60,3,6"), hidden=4), epsilons=(0.0, 0.5), bits=(2, 8))
    assert found.loc[2, 0.0] > found.loc[8, 0.0] and found.loc[2, 0.0] > found.loc[2, 0.5]
    [slider] = draw_bit_rule(found).figure.layout.sliders
    assert list(slider.steps[1].args[0]["y"][0]) == found[0.5].tolist()
    with pytest.raises(ValueError, match="start must be one of"):
        draw_bit_rule(found, start=0.1)


def test_bars_show_the_measured_times_and_saved_bytes() -> None:
    times = pd.DataFrame({"float32": [4.0], "codes": [1.0], "quantize": [1.0]}, index=["GEMM"])
    drawn = draw_times(times).figure
    assert "GEMM: 50%" in drawn.layout.meta["caption"] and list(drawn.data[2].base) == [1.0]
    kept = saved_bytes_table({"float32": {"rows": 2**21, "none": 0}, "8 bits": {"rows": 2**19, "none": 0}})
    assert [trace.name for trace in draw_saved_bytes(kept).figure.data] == ["rows"]
    assert kept["times less"].tolist() == [1.0, 4.0]


def test_losses_are_means_over_seeds() -> None:
    facts = {"compute": ["float32"] * 2, "seed": [0, 1], "epoch": 4, "loss": [1.0, 3.0], "score": 0.5}
    found = pd.DataFrame(facts)
    assert list(draw_losses(found).figure.data[0].y) == [2.0]
    with pytest.raises(ValueError, match="must be among the trainings"):
        compare_precisions(found, beside="int8")


def test_the_printed_numbers_come_out() -> None:
    """Inputs are printed to two digits: a sum of two products of numbers up to one is off by 0.016 at most."""
    found = toy_layer()
    for name, (_, printed) in PAPER.items():
        assert found[name].tolist() == pytest.approx(printed, abs=0.016), name


def test_fewer_bits_err_more() -> None:
    eight, four = (toy_table(bits=bits)["codes off by"] for bits in (8, 4))
    assert (eight < 0.02).all() and (four > eight).all()
