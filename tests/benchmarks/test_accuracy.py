"""The table of accuracies: its arithmetic on made-up scores, its refusals, and one real measurement."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from benchmarks.engine.rows import half_interval, paired_difference
from benchmarks.studies.accuracy import ORDER, accuracy, contestants, table
from gnnqlab.exchange.schedules.pipeline import AdaptivePipeline, Pipelined
from gnnqlab.exchange.schedules.schedule import Overlapped
from gnnqlab.study import RunResult
from gnnqlab.study.result import stale_share
from gnnqlab.systems import sylvie


def trainings(*scores: float, bits: float = 4.0, stale: float = 0.0) -> list[RunResult]:
    return [RunResult(score=score, bits=bits, stale=stale) for score in scores]


def test_differences_are_of_the_same_seed_with_students_interval() -> None:
    # Differences of 1, 2 and 3 points: mean 2, standard error 1 / sqrt(3), t of two degrees of freedom 4.303.
    found = paired_difference([0.51, 0.62, 0.73], [0.50, 0.60, 0.70])
    assert found.points == pytest.approx(2.0)
    assert found.half == pytest.approx(4.303 / 3**0.5, abs=1e-3)
    assert not found.is_certain
    assert half_interval([1.0]) == float("inf")
    with pytest.raises(ValueError, match="shorter"):
        paired_difference([0.5, 0.6], [0.5])


def test_a_model_may_neither_lose_nor_win_more_than_half_a_point() -> None:
    vanilla = trainings(0.90, 0.91)
    good = table("made up", {"vanilla": vanilla, "sylvie": trainings(0.896, 0.908, bits=3.0, stale=0.25)})
    assert [(row["value"], row["unit"], row["reached"]) for row in good] == [
        (pytest.approx(90.2), "%", True),
        (3.0, "bits", None),
        (25.0, "%", None),
    ]
    assert good[0]["figure"] == "sylvie: test score, -0.30 ± 1.27 points"  # one degree of freedom: 12.706 x 0.1
    assert (good[0]["rival"], good[0]["rival_value"]) == ("vanilla", pytest.approx(90.5))
    assert good[0]["ratio"] == pytest.approx(0.5 / 0.3)
    for off in (-0.006, 0.006):
        scores = trainings(*(one.score + off for one in vanilla))
        assert table("made up", {"vanilla": vanilla, "sylvie": scores})[0]["reached"] is False


def test_paper_order_is_checked_on_means_and_insignificant_gaps_are_marked() -> None:
    found = {
        "vanilla": trainings(0.90, 0.90, 0.90),
        "1-bit": trainings(0.88, 0.87, 0.88),
        "adaptive-bits": trainings(0.90, 0.89, 0.90),
        "adaptive-bits-pipelined": trainings(0.80, 0.85, 0.95),
        "sylvie": trainings(0.90, 0.89, 0.89, stale=0.5),
    }
    rows = {row["figure"].split(":")[0]: row for row in table("made up", found) if row["rival"] not in ("vanilla", "")}
    adaptive, stale = rows["adaptive-bits"], rows["sylvie"]
    assert adaptive["rival"] == "1-bit"
    assert adaptive["reached"] is True
    assert adaptive["points"] == pytest.approx(2.0)
    assert "within chance" not in adaptive["figure"]  # the same two points with every seed
    assert stale["rival"] == "adaptive-bits-pipelined"
    assert stale["reached"] is True  # 89.3 compared with 86.7 on average
    assert stale["figure"].endswith("within chance")
    found["adaptive-bits"] = trainings(0.87, 0.87, 0.87)
    worse = [row for row in table("made up", found) if row["rival"] == "1-bit"]
    assert [row["reached"] for row in worse] == [False]


def test_contestants_differ_in_one_axis() -> None:
    ours, found = sylvie(), contestants()
    assert isinstance(ours.schedule, AdaptivePipeline)
    for name, schedule in (("adaptive-bits", Overlapped()), ("adaptive-bits-pipelined", Pipelined())):
        system = found[name]
        assert (system.bits, system.codec, system.schedule) == (ours.bits, ours.codec, schedule)
    for width in (1, 2, 4, 8):
        assert found[f"{width}-bit"].codec == ours.codec
    assert found["1-bit-adaptive-pipeline"].schedule == ours.schedule
    assert {name for pair in ORDER for name in pair} <= set(found)


def decided(schedule: Any, *entries: tuple[int, str], epochs: int = 10) -> Any:
    config = SimpleNamespace(system=SimpleNamespace(schedule=schedule), train=SimpleNamespace(epochs=epochs))
    frame = pd.DataFrame(
        [{"epoch": epoch, "what": what, "why": ""} for epoch, what in entries], columns=["epoch", "what"]
    )
    return SimpleNamespace(config=config, decisions=frame)


def test_stale_epochs_are_counted_from_decisions() -> None:
    assert stale_share(decided(Overlapped())) == 0.0
    assert stale_share(decided(Pipelined())) == pytest.approx(0.9)  # all but the first of ten
    # Stale in 1, 2, 3 and 6, 7, 8; synchronous in 0, 4, 5 and 9.
    switches = [(4, "fresh rows"), (5, "base width 2"), (6, "rows of the epoch before"), (9, "fresh rows")]
    assert stale_share(decided(AdaptivePipeline(), *switches)) == pytest.approx(0.6)


@pytest.mark.slow
def test_systems_train_and_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked: dict[str, Any] = {"graph": "digits", "models": ("gcn",), "systems": ("sylvie", "1-bit"), "seeds": 2}
    rows = accuracy(**asked, epochs=9, trainings=str(tmp_path))
    # Ablations use GraphSAGE, which is not selected here, so no training has one bit.
    assert [row["case"] for row in rows] == ["digits, gcn 3 x 16, 9 epochs, 2 workers, 2 seed(s)"] * 3
    score, bits, stale = rows
    assert score["rival"] == "vanilla"
    assert 10 < score["value"] < 100  # ten digits; chance is 10 %
    assert score["half_interval"] < float("inf")
    assert 1.0 < bits["value"] < 8.0  # base width 1 until the first rates are compared, and wider ones for many nodes
    # With δ = 5 the first comparison is after epoch 6: epochs 1 to 6 of 9 use rows of the previous epoch.
    assert 100 * 6 / 9 - 0.1 <= stale["value"] <= 100 * 8 / 9 + 0.1
    said = capsys.readouterr().err
    assert "4 of 4: digits, gcn, 2 workers, seed 1, sylvie" in said
    assert "0 min left" in said


def test_an_interval_that_leaves_zero_out_is_called_by_its_name() -> None:
    vanilla = trainings(0.900, 0.910, 0.905)
    less = trainings(*(one.score - 0.004 - 0.0001 * number for number, one in enumerate(vanilla)), bits=5.7)
    found = {"vanilla": vanilla, "sylvie": less, "2-bit": trainings(0.901, 0.909, 0.905)}
    figures = [row["figure"] for row in table("made up", found)]
    assert figures[0] == "sylvie: test score, -0.41 ± 0.02 points, a loss"
    beside = next(row for row in table("made up", found) if row["rival"] == "2-bit")
    assert beside["figure"].startswith("sylvie: test score, -0.4") and beside["reached"] is None
