"""Every effect that is stated was computed."""

from __future__ import annotations

import pytest

from gnnqlab.course.experiments.errata_systems import MEASUREMENTS


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


def test_rounded_logits_move_sums_beyond_what_rounded_rows_do():
    found = figures("TG-5")
    for bits in (8, 4):
        assert found[f"exact_{bits}"] < found[f"codes_{bits}"] < 2 * found[f"exact_{bits}"]
