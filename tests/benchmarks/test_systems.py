"""The table of all systems: its arithmetic on made-up trainings, stored rows, refusals, and one real measurement."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.studies.systems import format_rows, table
from gnnqlab.cli import main
from gnnqlab.study import RunResult

SERVICES = {"schedule": "Synchronous", "parameters": "none", "weight gradients": "float32"}


def training(*curve: tuple[int, float, float], score: float = 0.9, **more: Any) -> RunResult:
    epochs, train_s, _ = curve[-1]
    each = train_s / epochs
    usual = {"bits": 32.0, "stale": 0.0, "bytes_sent": 100.0, "epochs_s": (each,) * epochs}
    return RunResult(score=score, curve=curve, epochs=epochs, train_s=train_s, **{**usual, **more})


VANILLA = [
    training((10, 10.0, 0.50), (20, 20.0, 0.90), score=0.91),
    training((10, 12.0, 0.80), (20, 24.0, 0.90), score=0.89),
]


def test_time_to_accuracy_uses_only_seeds_that_reached_the_target() -> None:
    ours = [
        training((10, 4.0, 0.896), (20, 8.0, 0.90), score=0.92),
        training((10, 4.0, 0.7), (20, 8.0, 0.894), score=0.90),  # the target is 0.895
    ]
    vanilla, mine = table("made up", {"vanilla": VANILLA, "x": ours}, {"vanilla": SERVICES, "x": SERVICES})
    assert (vanilla["value"], vanilla["ratio"], vanilla["to_target_s"], vanilla["faster_to_target"]) == (
        22.0,
        1,
        22.0,
        1,
    )
    assert (mine["value"], mine["ratio"]) == (8.0, pytest.approx(2.75))
    assert (mine["to_target_s"], mine["reached_by"], mine["seeds"]) == (4.0, 1, 2)
    assert mine["faster_to_target"] == pytest.approx(20.0 / 4.0)  # of the first seed alone
    assert mine["points"] == pytest.approx(1.0) and mine["half_interval"] == pytest.approx(0.0, abs=1e-9)
    assert format_rows([vanilla, mine])[1]["to target"] == "4.00 s, 5.00x (1 of 2)"


def test_system_that_never_reaches_the_target_has_nan_and_not_reached() -> None:
    rows = table("made up", {"vanilla": VANILLA, "x": [training((20, 1.0, 0.2))] * 2}, {})
    assert math.isnan(rows[1]["to_target_s"]) and rows[1]["reached_by"] == 0
    assert format_rows([{**rows[1], **SERVICES}])[0]["to target"] == "not reached"


def test_assignments_count_as_a_share_of_the_training_that_had_them() -> None:
    adaqp = [training((20, 10.0, 0.9), assign_s=0.3, assign_cpu_s=0.7), training((20, 10.0, 0.9), assign_s=0.1)]
    row = table("made up", {"vanilla": VANILLA, "adaqp": adaqp}, {})[1]
    assert row["assign_share"] == pytest.approx(0.02) and row["assign_cpu_s"] == pytest.approx(0.35)


def test_settled_epoch_time_uses_the_second_half_of_the_epochs() -> None:
    one = training((4, 6.0, 0.9), epochs_s=(1.0, 1.0, 2.0, 2.0))
    assert one.settled_s() == 2.0 and one.epochs_to(0.9) == 4 and math.isnan(one.epochs_to(0.95))


@pytest.mark.slow
def test_systems_train_once_and_are_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["bench", "systems", "--graph", "digits", "--models", "gcn", "--systems", "fixed-bits", "--link", "200mbit"]
    asked += ["--seeds", "2", "--epochs", "8", "--trainings", str(tmp_path)]
    main(asked)
    first = capsys.readouterr()
    assert "8 of 8: digits, gcn, 2 workers, seed 1, fixed-bits+" in first.err
    assert "instruction set" in first.out and "fixed-bits+" in first.out and "Overlapped" in first.out
    before = (tmp_path / "cells.jsonl").read_bytes()
    main(asked)
    assert capsys.readouterr().out == first.out  # the same trainings, to the last digit
    assert (tmp_path / "cells.jsonl").read_bytes() == before
