"""Comparisons over seeds: groups, pairs of one seed, the baseline, marks, and the table as text, HTML and LaTeX."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnnqlab as gq
from gnnqlab.lab.training import readable_table
from gnnqlab.lab.training.comparison_table import MARGIN
from tests.lab.synthetic import SyntheticRun, make_run


def trained(system: str, seed: int, *, score: float, train_s: float, **settings: Any) -> SyntheticRun:
    """Make a run whose score and seconds are given."""
    run = make_run(system, seed=seed, bits=32 if system == "vanilla" else 4, epochs=6)
    run.summary |= {"test_accuracy": score, "train_s": train_s, "best_val": score}
    run.config["train"] |= settings
    return run


def several() -> list[SyntheticRun]:
    """Make runs of three seeds, whose spread is shared by the systems: AdaQP is 2 × as fast and half a point worse."""
    seconds, scores = (8.0, 16.0, 24.0), (0.80, 0.82, 0.84)
    runs = []
    for seed, (train_s, score) in enumerate(zip(seconds, scores)):
        runs.append(trained("adaqp", seed, score=score - 0.004, train_s=train_s / 2))
        runs.append(trained("vanilla", seed, score=score, train_s=train_s))
        runs.append(trained("sylvie", seed, score=score - 0.2 - 0.01 * seed, train_s=train_s / 8))
    return runs


def test_speed_ups_and_differences_are_of_the_same_seed() -> None:
    comparison = gq.compare(several())
    found = comparison.summary().set_index(["system", "metric"])
    speed_up = found.loc[("adaqp", "speed-up")]
    assert (speed_up["mean"], speed_up["half_interval"], speed_up["seeds"]) == (2.0, 0.0, 3)
    # 80, 82, 84 %: t of two degrees of freedom 4.30265, a spread of 2.
    accuracy = found.loc[("vanilla", "test accuracy")]
    assert (accuracy["mean"], accuracy["half_interval"]) == pytest.approx((82.0, 4.30265 * 2 / 3**0.5))
    difference = found.loc[("adaqp", "accuracy − vanilla")]
    assert difference["mean"] == pytest.approx(-0.4) and difference["half_interval"] == pytest.approx(0.0, abs=1e-9)
    frame = comparison.to_frame()
    assert frame["seed"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert frame["group"].tolist() == ["adaqp", "vanilla", "sylvie"] * 3
    assert frame["faster"].tolist() == [2.0, 1.0, 8.0] * 3
    assert comparison.target == pytest.approx(0.80 - MARGIN), "Vanilla reaches it with all seeds"


def test_a_seed_that_the_baseline_lacks_has_no_ratio_and_a_single_baseline_serves_all() -> None:
    runs = several()[:6]
    frame = gq.compare([*runs, trained("adaqp", 7, score=0.8, train_s=1.0)]).to_frame()
    assert math.isnan(frame["faster"].iloc[-1]) and math.isnan(frame["difference"].iloc[-1])
    frame = gq.compare([runs[1], *(run for run in runs if run.summary["system"] != "vanilla")]).to_frame()
    assert frame["faster"].tolist() == [1.0, 2.0, 8.0, 1.0, 4.0]


def test_groups_differ_in_settings_and_a_repeated_seed_is_no_other_seed() -> None:
    one, *others = (
        trained("adaqp", seed, score=0.8, train_s=1.0, lr=lr) for seed, lr in ((0, 0.01), (1, 0.01), (1, 0.1))
    )
    runs = [one, *others]
    table = gq.compare(runs).table()
    assert table.index.tolist() == ["adaqp (lr 0.01)", "adaqp (lr 0.1)"] and table["seeds"].tolist() == [2, 1]
    assert not gq.compare([one, one]).by_seed and len(gq.compare([one, one]).table()) == 2


def test_baseline_is_vanilla_the_first_or_the_named_one() -> None:
    runs = several()
    assert gq.compare(runs).table()["speed-up"]["vanilla"] == "1.00 ± 0.00 ×"
    assert gq.compare(runs, baseline="adaqp").table()["speed-up"]["vanilla"] == "0.50 ± 0.00 ×"
    assert gq.compare(runs, baseline=2).table()["speed-up"]["vanilla"] == "0.12 ± 0.00 ×"
    assert gq.compare([runs[0], runs[2]]).to_frame()["faster"].tolist() == [1.0, 4.0]
    with pytest.raises(ValueError, match=r"baseline must be one of \['adaqp', 'vanilla', 'sylvie'\], got 'vanila'"):
        gq.compare(runs, baseline="vanila")


def test_a_score_below_the_baselines_is_marked_and_is_never_best() -> None:
    comparison = gq.compare(several())
    assert comparison.notes == {"sylvie": "misses vanilla's accuracy by 21.00 points"}
    assert "sylvie misses vanilla's accuracy by 21.00 points" in repr(comparison)
    page = comparison._repr_mimebundle_()["text/html"]
    assert "<b>2.00 ± 0.00&nbsp;×</b>" in page and "<td>8.00 ± 0.00&nbsp;×</td>" in page and "<b>82.00" in page
    # Each run by itself; there sylvie is the fastest of three too.
    single = gq.compare(several()[:3])
    assert not single.by_seed and list(single.notes) == ["sylvie"]
    assert "<b>4&nbsp;s, 2.00&nbsp;×</b>" in single._repr_mimebundle_()["text/html"]


def test_a_difference_within_its_interval_is_uncertain() -> None:
    runs = [trained("vanilla", seed, score=0.8, train_s=1.0) for seed in (0, 1)]
    runs += [trained("adaqp", seed, score=0.8 - worse, train_s=1.0) for seed, worse in ((0, 0.0), (1, 0.02))]
    assert gq.compare(runs).notes["adaqp"].startswith("may miss vanilla's accuracy: -1.00 ± 12.71 points")


def test_seeds_that_did_not_reach_the_target_are_counted() -> None:
    runs = several()
    for run in runs[0], *runs[2::3]:
        run.records["val_score"] /= 10
    table = gq.compare(runs, target=0.2).table()["to 20.0 %"]
    assert table["adaqp"].endswith(", 2 of 3 seeds") and table["sylvie"] == "not reached"
    assert table["vanilla"].endswith(" s")


def test_by_run_has_a_row_and_a_line_for_each() -> None:
    comparison = gq.compare(several())
    each = comparison.by_run()
    assert len(each.table()) == 9 and len(comparison.table()) == 3
    assert len(each.convergence().figure.data) == 9
    assert each.to_frame().equals(comparison.to_frame())


@pytest.mark.parametrize("against", ["epoch", "time"])
def test_convergence_has_a_line_and_a_band_for_each_system(against: Any) -> None:
    runs = several()
    for number, run in enumerate(runs):
        run.records["val_score"] = 0.5 + 0.01 * (number // 3)  # 50, 51, 52 %
    runs.append(trained("pipegcn", 0, score=0.8, train_s=1.0))
    bundle = gq.compare(runs).convergence(against=against)
    lines = [trace for trace in bundle.figure.data if trace.fill is None]
    assert [line.name for line in lines] == ["adaqp", "vanilla", "sylvie", "pipegcn"]
    bands = {trace.name: trace for trace in bundle.figure.data if trace.fill == "toself"}
    assert np.allclose(lines[0].y, 51.0)
    assert max(bands["adaqp"].y) == pytest.approx(51 + 4.30265 / 3**0.5)
    assert min(bands["adaqp"].y) == pytest.approx(51 - 4.30265 / 3**0.5)
    points = len(lines[3].y)
    assert bands["pipegcn"].y[:points] == lines[3].y, "one seed has no interval"
    assert bundle.frame.loc["adaqp", ["score", "seeds"]].tolist() == [51.0, 3]
    assert "mean over seeds in a band of its 95 % interval" in bundle.figure.layout.meta["caption"]


def test_bars_are_means_over_seeds() -> None:
    runs = several()
    for number, run in enumerate(runs):
        run.records["wait_s"] = 0.010 * (1 + number // 3)  # 10, 20, 30 ms
        run.records["bytes_payload"] = 1000 * (1 + number // 3)
    comparison = gq.compare(runs)
    times = comparison.breakdown()
    assert times.frame.index.tolist() == ["adaqp", "vanilla", "sylvie"] and np.allclose(times.frame["wait_s"], 0.020)
    (wait,) = (bar for bar in times.figure.data if bar.name == "wait for messages")
    assert len(wait.y) == 3 and np.allclose(wait.x, 20.0)
    volume = comparison.volume()
    assert np.allclose(volume.frame["payload"], 2 * 2000), "of two workers"
    assert np.allclose(volume.figure.data[0].x, 2 * 2000)
    assert len(comparison.by_run().volume().frame) == 9


def test_a_loss_is_not_in_per_cent() -> None:
    frame = gq.compare(several()).convergence("loss").frame
    assert frame.loc["vanilla", "score"] == several()[1].records["loss"].iloc[-1]


def test_latex_has_the_columns_asked_for_with_the_best_in_bold() -> None:
    text = gq.compare(several()).to_latex(["test accuracy", "accuracy − vanilla", "speed-up"]).splitlines()
    assert text[0] == r"\begin{tabular}{llll}" and text[1] == r"\toprule" and text[-2] == r"\bottomrule"
    assert text[2] == r"system & test accuracy & accuracy $-$ vanilla & speed-up \\"
    assert text[4] == r"adaqp & 81.60 $\pm$ 4.97 \% & -0.40 $\pm$ 0.00 points & \textbf{2.00 $\pm$ 0.00 $\times$} \\"
    assert text[5].startswith(r"vanilla & \textbf{82.00 $\pm$ 4.97 \%} &  & 1.00")
    with pytest.raises(ValueError, match=r"columns must be among \['system', 'seeds', .*got \['sped'\]"):
        gq.compare(several()).to_latex(["sped"])


def test_names_of_systems_are_those_of_the_paper() -> None:
    comparison = gq.compare(several(), names={"adaqp": "Ours", "vanilla": "Vanilla"})
    plain = gq.compare(several())
    assert (
        comparison.table().index.tolist() == ["Ours", "Vanilla", "sylvie"]
        and "accuracy − Vanilla" in comparison.table()
    )
    assert comparison.baseline == plain.baseline and comparison.target == plain.target
    lines = {trace.name: trace.line.color for trace in comparison.convergence().figure.data if trace.name}
    former = {trace.name: trace.line.color for trace in plain.convergence().figure.data if trace.name}
    assert lines["Vanilla"] == former["vanilla"] and "Ours" in lines
    with pytest.raises(
        ValueError, match=r"names must be of the systems \['adaqp', 'vanilla', 'sylvie'\], got 'adapq'; did you"
    ):
        gq.compare(several(), names={"adapq": "Ours"})
    with pytest.raises(ValueError, match="names of systems must differ, got .*'adaqp': 'vanilla'"):
        gq.compare(several(), names={"adaqp": "vanilla"})


def test_a_terminal_gets_the_columns_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = gq.compare(several())
    assert "less sent" in repr(comparison), "a pipe has no width"
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1m" in repr(comparison), "the best of a column is bold"
    monkeypatch.setenv("NO_COLOR", "1")
    table, words = repr(comparison).split("sylvie misses")
    assert max(map(len, table.splitlines())) <= 80 and "test accuracy" in table and "accuracy" in words
    shown = " ".join(table.split())
    assert "Not shown: " in shown and "less sent; a wider terminal shows all" in shown


def test_report_has_the_means_over_seeds_and_its_ratios_are_paired(tmp_path: Path) -> None:
    text = gq.compare(several()).report(tmp_path / "report.html").read_text()
    assert "Over seeds" in text and "<b>2.00 ± 0.00 ×</b>" in text
    assert "speed-up and bytes are relative to vanilla with the same seed" in text
    row = text[text.index("total time, speed-up") :]
    assert row[: row.index("</tr>")].count("2.00 ×") == 3
    assert "Over seeds" not in gq.compare(several()[:3]).report(tmp_path / "one.html").read_text()


def test_ties_are_all_best_and_one_candidate_is_none() -> None:
    rows = [{"a": 1.0, "b": math.nan}, {"a": 1.0, "b": math.nan}, {"a": 9.0, "b": 1.0}]
    assert readable_table._best(rows, [True, True, False]) == {(0, "a"), (1, "a")}
    assert readable_table._best(rows, [True, False, False]) == frozenset()
