"""Runs that were evaluated unequally often: none has more looks than another where they are compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gnnqlab as gq
from gnnqlab.lab.training.comparison_table import comparison_frame, equally_often, said
from gnnqlab.lab.training.snapshot import take
from tests.lab.synthetic import make_run


def lucky(every, *, system="vanilla", epochs=40, peak=7):
    """A run whose best score is in one epoch alone, which a run with fewer looks would have missed."""
    run = make_run(system, epochs=epochs, every=every)
    run.records["time_s"] = run.records["epoch"].astype(float)
    evaluated = run.records["val_score"].notna()
    run.records.loc[evaluated & (run.records["epoch"] == peak), ["val_score", "test_score"]] = [0.99, 0.98]
    if peak % every == 0:
        run.summary |= {"best_val": 0.99, "test_accuracy": 0.98, "best_epoch": peak}
    return run


def looks(run):
    return sorted(run.records.loc[run.records["val_score"].notna(), "epoch"].unique().tolist())


def test_a_run_keeps_the_looks_that_all_had():
    runs = [take(lucky(1)), take(lucky(5, system="sylvie"))]
    often, rarely = equally_often(runs)
    assert looks(often) == looks(rarely) == [0, 5, 10, 15, 20, 25, 30, 35, 39]
    assert rarely is runs[1] and often.summary["looks"] == 9
    assert often.summary["best_val"] < 0.99 and often.summary["test_accuracy"] < 0.98
    assert often.summary["best_epoch"] == 39
    assert (often.records["loss"] == runs[0].records["loss"]).all(), "nothing but scores changes"
    assert equally_often([often, rarely])[0] is often


def test_what_a_shorter_run_never_reached_is_no_reason_to_look_away():
    long, short = equally_often([take(lucky(2, epochs=40)), take(lucky(4, epochs=10))])
    assert looks(short) == [0, 4, 8, 9]
    assert looks(long) == [0, 4, 8, *range(10, 40, 2), 39]


def test_runs_that_were_evaluated_alike_stay_as_they_are():
    runs = [take(lucky(2)), take(lucky(2, system="adaqp"))]
    assert all(one is other for one, other in zip(equally_often(runs), runs, strict=True)) and said(runs) == ""
    only_last = [take(lucky(40)), take(lucky(1))]
    assert looks(equally_often(only_last)[1]) == [0, 39]


def test_comparison_and_report_say_so(tmp_path):
    runs = [lucky(1, peak=7), lucky(5, system="sylvie")]
    comparison = gq.compare(runs)
    words = "scores are of the 9 epoch(s) in which all were"
    assert words in repr(comparison) and words in comparison._repr_mimebundle_()["text/html"]
    assert words in comparison.report(tmp_path / "report.html").read_text()
    assert comparison.to_frame()["accuracy"].iloc[0] == comparison_frame(runs)["accuracy"].iloc[0] < 0.98
    # The moment of the lucky look is no arrival either.
    assert np.isnan(gq.compare(runs, target=0.985).to_frame()["to_target_s"]).all()
    assert words not in repr(gq.compare(runs[:1]))


def test_one_run_is_not_taken_for_a_list():
    with pytest.raises(ValueError, match=r"runs must be a list of runs, got one run; pass compare\(\[run, other\]\)"):
        gq.compare(lucky(1))
    for paths in ("runs/one", Path("runs/one"), ["runs/one", "runs/other"]):
        with pytest.raises(TypeError, match=r"runs must be a list of runs, got .*runs/one.*; open a folder by gnnqlab"):
            gq.compare(paths)
