"""Errata: every difference is listed, every stated effect was computed, and charts show it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gnnqlab.course import errata_views as views
from gnnqlab.course.errata import ERRATA, MEASUREMENTS, errata

LISTED = (
    *(f"AQ-{number}" for number in range(1, 23)),
    *(f"SY-{number}" for number in range(1, 7)),
    "CD-1", "CD-2", "CD-3", "CD-4", "CD-5", "CD-6", "CD-7",
    "TG-1", "TG-2", "TG-3", "TG-4", "TG-5", "TG-6", "SA-1", "SA-2", "SA-3", "SA-4", "BN-1", "BN-2", "PI-1", "PI-2",
)  # fmt: skip


def test_every_known_difference_is_listed_once():
    names = [entry.id for entry in ERRATA]
    assert len(names) == len(set(names))
    assert set(LISTED) <= set(names)
    assert set(MEASUREMENTS) <= set(names)


def test_frame_marks_measured_differences_and_their_effects():
    quick = errata(measure=False)
    assert not quick["measured"].any() and (quick["effect"] == "not measured").all()
    full = errata()
    assert full.index.tolist() == quick.index.tolist()
    assert set(full.index[full["measured"]]) == set(MEASUREMENTS)
    assert all(any(letter.isdigit() for letter in text) for text in full.loc[full["measured"], "effect"])


def figures(name):
    return MEASUREMENTS[name]().figures


def test_ranking_by_squared_sums_is_another_one():
    found = figures("AQ-1")
    assert found["rank_correlation"] < 0.97 and found["rank_correlation_mean"] < 0.999


def test_parameters_cut_after_encoding_bias_high_widths_only():
    found = figures("AQ-2")
    assert 0.1 < found["bias_8"] < 0.5 and found["mse_ratio_8"] > 1.2
    assert found["bias_2"] < 0.01 and found["bias_1"] < 0.01
    assert found["ours_in_standard_errors"] < 1.2 < 2 < found["cut_in_standard_errors"]


def test_missing_clamp_spills_rarely_but_does():
    assert 0 < figures("AQ-3")["rate"] < 1e-4


def test_constant_rows_turn_nan_unless_treated():
    found = figures("AQ-4")
    assert found["nan_rows"] == pytest.approx(found["dead_rows"], abs=0.01) and found["our_error"] == 0


def test_printed_product_term_matters_at_few_bits():
    found = figures("AQ-14")
    assert found["bits_1"] > found["bits_2"] > found["bits_8"] >= 1


def test_average_variance_fits_uniform_fractions_only():
    found = figures("AQ-15")
    assert found["normal_1"] == pytest.approx(1.3, abs=0.05)
    assert found["normal_8"] == pytest.approx(1.0, abs=0.02)
    assert found["relu_8"] == pytest.approx(0.5, abs=0.05)


def test_theorem_3_leaves_something_out():
    assert figures("AQ-17")["ratio"] > 1.05
    assert figures("AQ-18")["gelu_8"] < 1 < figures("AQ-18")["relu_8"]
    assert figures("AQ-19")["gelu"] < 2 < figures("AQ-19")["relu"]


def test_a_constraint_without_rates_misses_the_slow_link():
    found = figures("AQ-22")
    assert found["alike"] == pytest.approx(1.0, abs=1e-3)
    assert found["slow"] > 1.05 and found["slow_seconds"] > 1


def test_a_sum_of_unbiased_errors_has_no_mean_and_shrinks():
    found = figures("SY-7")
    assert found["mean_4"] < 1.6 and found["mean_64"] < 1.6
    assert found["size_64"] < found["size_4"] / 3


def test_signs_and_codes():
    assert figures("SY-1") == {"written": 1.0, "descent": 8.0}
    assert figures("SY-2") == {"halves": 2.5, "quarters": 1.4375}
    assert figures("SY-3")["most"] < 3 and figures("SY-3")["printed_bits"] < 2 < 6 < figures("SY-3")["text_bits"]
    assert figures("CD-1") == {"top_4": 16.0, "top_8": 256.0}
    assert figures("CD-7")["home"] > figures("CD-7")["copies"] + 0.03 > 0.1
    assert figures("CD-2")["own"] > 2 * figures("CD-2")["decoded"]


def test_slips_of_the_cache_and_its_proof():
    assert figures("CD-4")["totals"] > 5 * figures("CD-4")["differences"]
    assert figures("CD-5")["printed"] < figures("CD-5")["mean"] <= figures("CD-5")["kept"]
    assert figures("CD-5")["climbed"] > 1
    assert figures("CD-6")["steps_1000000"] == pytest.approx(0.25, abs=0.005)
    assert figures("CD-6")["steps_100"] > figures("CD-6")["steps_10000"] > 0.25


def test_half_a_code_is_one_too_many():
    found = figures("TG-4")
    assert 0.4 < found["outside"] < 0.6 and found["error"] > 1


def test_quantized_logits_increase_the_error_by_less_than_a_factor_of_two():
    found = figures("TG-5")
    for bits in (8, 4):
        assert found[f"exact_{bits}"] < found[f"codes_{bits}"] < 2 * found[f"exact_{bits}"]


def test_factors_are_those_that_were_measured() -> None:
    found = views.factors()
    assert set(found.index) == set(views.FACTORS) <= {entry.id for entry in ERRATA} & set(MEASUREMENTS)
    drift = MEASUREMENTS["CD-2"]().figures
    assert found.loc["CD-2", "factor"] == drift["own"] / drift["decoded"] > 2
    assert (found["factor"] > 1).all(), "each effect is stated as a factor above one"


def test_every_paper_has_a_colour_and_each_slip_its_place() -> None:
    found = views.factors()
    figure = views.draw_factors(found).figure
    points = {trace.name: dict(zip(trace.y, trace.x, strict=True)) for trace in figure.data if trace.name}
    assert set(points) == {"AdaQP", "SYLVIE", "CDFGNN", "TANGO"}
    assert {name: factor for of in points.values() for name, factor in of.items()} == found["factor"].to_dict()
    assert {note.y: note.text for note in figure.layout.annotations if note.y in found.index} == found["what"].to_dict()


def test_variance_shares_lie_between_the_average_and_worst_case() -> None:
    shares = views.variance_shares()
    assert (shares < 1.5).all(axis=None) and (shares["after ReLU"] < 0.55).all() and shares.loc[1, "N(0, 1)"] > 1.2
    heights = {trace.name: list(trace.y) for trace in views.draw_variance(shares).figure.data}
    assert heights == {kind: shares[kind].tolist() for kind in shares}


def test_both_signs_of_the_descent_rate() -> None:
    found = views.descent([0.2 + 0.9**epoch for epoch in range(61)])
    assert (found["as written"].iloc[-1], found["opposite sign"].iloc[-1]) == (1, 8) and len(found) == 61
    lines = {trace.name: list(trace.y) for trace in views.draw_descent(found).figure.data if trace.name}
    assert lines["as written"] == found["as written"].tolist()


@pytest.mark.parametrize("draw", [views.draw_factors, views.draw_variance, views.draw_descent])
def test_drawing_an_empty_frame_raises_value_error(draw: Callable) -> None:
    whole = {views.draw_factors: views.factors, views.draw_variance: views.variance_shares}
    frame = whole.get(draw, lambda: views.descent([1.0, 0.5]))()
    with pytest.raises(ValueError, match="are needed, got none"):
        draw(frame.iloc[:0])


def test_no_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="losses of at least one epoch"):
        views.descent([])
