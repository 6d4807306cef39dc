"""Sweeps: settings that differ, their importance with known shares, refusals, and lines through settings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gnnqlab.lab.training.sweep import ABSENT, Sweep, find_factors, settings_of, variance_explained
from gnnqlab.lab.training.sweep_views import draw_importance, draw_parallel
from gnnqlab.train.config.configure import configure


def of(system: str, **given: object) -> dict[str, object]:
    return settings_of(configure("digits", system=system, **given).to_json())


def test_the_seed_and_how_it_was_started_are_no_settings() -> None:
    one, other = of("vanilla", workers=2, seed=1), of("vanilla", workers=2, seed=2, detach=True)
    assert one == other and "train.epochs" in one and not any(path.startswith("recipe") for path in one)
    assert find_factors([one, other]) == []


def test_settings_that_vary_only_with_the_system_depend_on_its_factor() -> None:
    runs = [of("vanilla"), of("fixed-bits", bits=1), of("fixed-bits", bits=8), of("adaqp", lam=0.9)]
    found = {one.name: one for one in find_factors(runs)}
    assert list(found) == ["system", "bits"]
    assert {"codec", "schedule", "lam"} <= set(found["system"].dependent_names), "only adaqp has them, with one value"
    assert found["bits"].words == ["1", "8", "32", ABSENT] and found["bits"].places == [2, 0, 1, 3]
    two = [*runs, of("adaqp", lam=0.1)]
    assert [one.name for one in find_factors(two)] == ["system", "bits", "lam"]


def test_settings_that_always_vary_together_are_one_factor() -> None:
    runs = [of("vanilla", hidden=16, lr=0.1), of("vanilla", hidden=64, lr=0.01), of("vanilla", hidden=16, lr=0.1)]
    (only,) = find_factors(runs)
    assert (only.name, only.dependent_names, only.levels) == ("hidden", ("lr",), [16, 64])


def test_factor_levels_are_sorted_by_value_and_ambiguous_names_are_qualified() -> None:
    runs = [{"a.size": value, "b.size": other} for value, other in ((16, "x"), (8, "y"), (128, "y"))]
    one, other = find_factors(runs)
    assert (one.name, one.levels) == ("a.size", [8, 16, 128]) and (other.name, other.words) == ("b.size", ["x", "y"])


def sweep(*runs: tuple[int, str, float, float | None, float]) -> Sweep:
    """Make runs from tuples (bits, model, score, seconds, bytes)."""
    settings = [{"system.bits.bits": bits, "model.name": model} for bits, model, *_ in runs]
    outcomes = [{"score": score, "train_s": seconds, "bytes_sent": sent} for _, _, score, seconds, sent in runs]
    return Sweep(settings, outcomes, [f"run {number}" for number in range(len(runs))])


@pytest.fixture
def six() -> Sweep:
    return sweep(
        (2, "gcn", 0.70, 1.0, 2000.0), (2, "gcn", 0.72, 1.2, 2000.0), (8, "gcn", 0.80, 1.1, 8000.0),
        (8, "gat", 0.82, 2.1, 8000.0), (8, "gat", 0.78, 2.0, 8000.0), (4, "gat", 0.75, None, 4000.0),
    )  # fmt: skip


def test_shares_are_those_of_the_analysis_of_variance() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        places = random.integers(0, 4, size=15)
        places[:4] = range(4)
        values = random.normal(size=15) + 0.5 * places
        share, chance, p = variance_explained(places.tolist(), values.tolist())
        groups = [values[places == place] for place in range(4)]
        total = ((values - values.mean()) ** 2).sum()
        between = sum(len(group) * (group.mean() - values.mean()) ** 2 for group in groups)
        assert share == pytest.approx(between / total) and chance == pytest.approx(3 / 14)
        assert p == pytest.approx(stats.f_oneway(*groups).pvalue)


def test_variance_explained_of_random_groups_matches_the_chance_level() -> None:
    random = np.random.default_rng(1)
    shares = [variance_explained([0, 0, 0, 1, 1, 1, 2, 2, 2], random.normal(size=9).tolist()) for _ in range(4000)]
    # Standard error of the mean: a beta variable of spread 0.15 over 4000 draws is 0.0024; p is uniform, 0.0046.
    assert np.mean([share for share, *_ in shares]) == pytest.approx(shares[0][1], abs=0.012)
    assert np.mean([p for *_, p in shares]) == pytest.approx(0.5, abs=0.023)


@pytest.mark.parametrize(
    ("places", "values"), [([0, 0, 0], [1.0, 2.0, 3.0]), ([0, 1, 2], [1.0, 2.0, 3.0]), ([0, 0, 1], [2.0, 2.0, 2.0])]
)
def test_variance_explained_of_degenerate_groups_is_nan(places: list[int], values: list[float]) -> None:
    assert all(map(math.isnan, variance_explained(places, values)))


def test_outcome_fixed_by_a_setting_has_an_explained_share_of_one(six: Sweep) -> None:
    assert variance_explained([0, 0, 1], [5.0, 5.0, 9.0]) == (1.0, 0.5, 0.0)
    table = six.importance().set_index(["setting", "outcome"])
    assert table.loc[("bits", "sent an epoch"), "share"] == 1.0
    assert table.loc[("bits", "total time"), ["runs", "levels"]].tolist() == [5, 2], (
        "the run without a time is left out"
    )
    assert six.importance()["setting"].iloc[0] == "bits", "it explains most of the score"


def test_too_few_runs_are_refused(six: Sweep) -> None:
    with pytest.raises(
        ValueError, match="needs at least 4 finished runs, got 3: with fewer, any setting explains most"
    ):
        sweep((2, "gcn", 0.7, 1.0, 1.0), (4, "gcn", 0.8, 1.0, 2.0), (8, "gcn", 0.9, 1.0, 3.0)).importance()
    with pytest.raises(ValueError, match="launch each setting with two seeds"):
        sweep(*((bits, "gcn", bits / 10, 1.0, 1.0) for bits in (1, 2, 4, 8))).importance()
    with pytest.raises(ValueError, match="must differ in a setting, got 2 that differ in their seed at most"):
        sweep((2, "gcn", 0.7, 1.0, 1.0), (2, "gcn", 0.8, 1.0, 1.0))
    with pytest.raises(ValueError, match="at least two finished runs, got 1"):
        sweep((2, "gcn", 0.7, 1.0, 1.0))


def test_importance_bars_show_explained_shares_and_chance_levels(six: Sweep) -> None:
    shown = draw_importance(six)
    drawn = {trace.name: trace for trace in shown.figure.data if trace.name}
    assert list(shown.figure.layout.yaxis.ticktext) == ["bits", "model"]
    share = shown.frame[shown.frame["outcome"] == "test score"]["share"]
    assert list(drawn["test score"].x) == pytest.approx((100 * share).tolist())
    marks = list(zip(drawn["by chance alone"].y, drawn["by chance alone"].x))[::3]
    assert (-0.5, pytest.approx(25.0)) in marks, "time of bits: two values in the five runs that have one"
    assert (1.5, pytest.approx(40.0)) in marks, "score of bits: three values in six runs"
    caption = shown.figure.layout.meta["caption"]
    assert "of sent an epoch bits, 100 % (p < 0.001)" in caption and "η²" in caption


def test_a_line_a_run_goes_through_settings_and_outcomes(six: Sweep) -> None:
    shown = draw_parallel(six, dark=True)
    (lines,) = shown.figure.data
    assert [axis.label for axis in lines.dimensions] == ["bits", "model", "sent (kB)", "test (%)"], (
        "one run has no time"
    )
    bits, model = lines.dimensions[:2]
    assert list(bits.ticktext) == ["2", "4", "8"] and list(bits["values"]) == [0, 0, 2, 2, 2, 1]
    assert list(model.ticktext) == ["gat", "gcn"] and list(lines.line.color) == pytest.approx([70, 72, 80, 82, 78, 75])
    assert "The best score, 82.00 %, has bits 8, model gat." in shown.figure.layout.meta["caption"]
    assert shown.frame["total time (s)"].isna().sum() == 1
    assert [line.x0 for line in shown.figure.layout.shapes] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    light = draw_parallel(six).figure.layout.shapes[0].line.color
    assert shown.figure.layout.shapes[0].line.color == "#6c757d" != light


def test_of_many_settings_those_have_an_axis_that_explain_most() -> None:
    random = np.random.default_rng(0)
    settings = [{f"train.s{number}": int(random.integers(2)) for number in range(9)} for _ in range(16)]
    scores = [0.5 + 0.1 * one["train.s8"] for one in settings]
    shown = draw_parallel(Sweep(settings, [{"score": score} for score in scores], [str(run) for run in range(16)]))
    labels = [axis.label for axis in shown.figure.data[0].dimensions]
    assert len(labels) == 7 and "s8" in labels and "Without an axis: " in shown.figure.layout.meta["caption"]
