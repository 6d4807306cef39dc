"""The study of recommendations: time to accuracy with missed seeds, rows of a case, goals over cases."""

from __future__ import annotations

import json
import math

import pytest

from benchmarks.studies import recommend as study
from benchmarks.studies.recommend import case_rows, seconds_to_accuracy, summary_rows
from gnnqlab.study import RunResult


def training(seconds: float, best: float = 0.9) -> RunResult:
    """Return a training of ten epochs that has its best score at the end."""
    curve = ((5, seconds / 2, best - 0.1), (10, seconds, best))
    return RunResult(score=best, train_s=seconds, epochs=10, curve=curve, epochs_s=(seconds / 10,) * 10)


RANKING = {
    "best": "adaqp+",
    "options": [
        {"label": "vanilla", "predicted_s": 1.0},
        {"label": "adaqp+", "predicted_s": 0.5},
        {"label": "bns-gcn", "predicted_s": 0.2},
    ],
}


def test_missed_seed_costs_as_if_the_training_were_repeated() -> None:
    found = [training(4.0), training(6.0), training(2.0, best=0.8)]
    assert seconds_to_accuracy(found, [0.895] * 3) == pytest.approx(5.0 * 3 / 2)
    assert seconds_to_accuracy(found[2:], [0.895]) == math.inf


def test_rows_of_a_case_compare_the_recommended_system_with_the_best_and_vanilla() -> None:
    results = {"vanilla": [training(10.0)], "adaqp+": [training(5.0)], "bns-gcn": [training(2.0, best=0.8)]}
    rows = case_rows("x", RANKING, results)
    chosen = {each["rival"]: each["ratio"] for each in rows if each["metric"] == "recommended"}
    assert chosen == {"best": 1.0, "vanilla": 2.0}
    missed = next(each for each in rows if each["contestant"] == "bns-gcn" and "accuracy" in each["metric"])
    assert missed["value"] is None and missed["ratio"] == 0.0 and "not reached" in missed["figure"]
    share, least, error = summary_rows(rows)
    assert share["value"] == 1.0 and share["reached"] and least["value"] == 2.0 and least["reached"]
    assert error["value"] == pytest.approx(0.0) and "1 measured" in error["figure"]
    assert summary_rows([]) == []


def test_goals_are_missed_by_a_recommendation_that_is_slower_than_vanilla() -> None:
    results = {"vanilla": [training(10.0)], "adaqp+": [training(12.0)], "bns-gcn": [training(20.0)]}
    share, least, error = summary_rows(case_rows("x", RANKING, results))
    assert (share["value"], share["reached"], least["reached"], error["reached"]) == (0.0, False, False, False)
    assert error["value"] == pytest.approx(1 - 0.5 / 1.2)  # the median of 0, 0.58 and 0.9


def test_stored_ranking_is_not_measured_again(tmp_path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """A resumed table trains the systems that it ranked first; what is missing of the grid is named."""
    entries = [
        {"name": "vanilla", "partition": "", "services": False, "predicted_s": 1.0, "label": "vanilla"},
        {"name": "adaqp", "partition": "random", "services": True, "predicted_s": 0.5, "label": "adaqp on random+"},
    ]
    place = {"workers": 2, "hosts": 2, "link": "100mbit"}
    key = json.dumps(["sbm:60,3,6", place, None, dict(study.SHAPE)], sort_keys=True)
    (tmp_path / "rankings.json").write_text(json.dumps({key: {"best": "adaqp on random+", "options": entries}}))
    asked = []

    def train_each(contestants, **grid):
        asked.append((grid["graphs"], grid["link"], grid["workers"]))
        return {"case": {each.label: [training(4.0)] for each in contestants}}

    monkeypatch.setattr(study, "train_each", train_each)
    rows = study.recommend(graph="sbm:60,3,6", link="100mbit", workers=(2,), seeds=1, trainings=str(tmp_path))
    assert asked == [(["sbm:60,3,6"], "100mbit", 2)]
    assert [each["contestant"] for each in rows if each["metric"] == "predicted epoch"] == [
        "vanilla",
        "adaqp on random+",
    ]
    assert "16 of 16 cases are missing" in capsys.readouterr().out
